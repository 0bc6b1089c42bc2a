"""Rollout kernels compiled for the user's own functions, from a module, a script or a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from capture_cp.planning import plugin
from capture_cp.planning.plugin import Functions, called_by
from planning.plugins import fused_rollout, push

TESTS = Path(__file__).parent.parent


@pytest.fixture
def cap(fitted):
    return fitted["capture"]


def of_a_notebook(speed):
    """A step and its cost that cannot be imported from anywhere."""

    @njit
    def step(states, action, noise, params):
        states += speed

    @njit
    def stage_cost(mean, action, hazard, h, horizon, params):
        return mean[0] + 10.0 * h + 100.0 * horizon

    return step, stage_cost


def test_functions_that_cannot_be_imported_are_used(cap):
    hazard = np.zeros(cap.strata.grid.size, dtype=bool)
    rollout = fused_rollout(cap, *of_a_notebook(2.0), push(), hazard, (0, 1), 0, compare_step=False)
    np.testing.assert_allclose(rollout(np.zeros(2), np.zeros((2, 3, 2)), 0), [[312.0, 324.0, 336.0]] * 2)


def test_same_functions_share_a_kernel_and_others_have_their_own():
    functions = Functions(plugin.step, plugin.stage_cost)
    assert called_by(functions) is called_by(Functions(plugin.step, plugin.stage_cost))
    one, two = (type(called_by(Functions(*of_a_notebook(speed)))) for speed in (1.0, 2.0))  # two functions of one source
    assert len({one, two, type(called_by(functions))}) == 3
    assert {one.cached, two.cached} == {False}  # what a user's function reads may change


SCRIPT = """
from typing import NamedTuple
import numpy as np
from numba import njit
from capture_cp import Capture, NearestParticles, OneGroup
from capture_cp.planning import FusedRollout, StepModel
from capture_lab.tasks.box import Box

class {name}(NamedTuple):
    speed: float

@njit(cache=True)
def step(states, action, noise, params):
    for l in range(states.shape[1]):
        states[0, l] += params.speed

@njit(cache=True)
def stage_cost(mean, action, hazard, h, horizon, params):
    return mean[0]

box = Box(spacing=0.1)
data = box.transitions(100, np.random.default_rng(0))
cap = Capture(box, box.strata, score=NearestParticles(2), groups=OneGroup(), n_particles=4).fit(data.X, data.Y)
model = StepModel(step, 2, (0, 1), 2, {name}(0.5))
rollout = FusedRollout(cap, model, stage_cost, box.hazard, compare_step=False)
print(rollout(np.zeros(2), np.zeros((1, 2, 2)), 1)[0])
"""


@pytest.mark.long
def test_a_scripts_functions_and_parameters_leave_nothing_that_another_script_reads(tmp_path):
    """Compiled code on disk would name the first script's class of parameters, which the second one cannot import."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])}
    for name in ("Speed", "Velocity", "Speed"):
        file = tmp_path / f"{name}.py"
        file.write_text(SCRIPT.format(name=name))
        done = subprocess.run([sys.executable, file], env=env, capture_output=True, text=True, timeout=300)
        assert (done.stdout, done.returncode) == ("[0.5 1. ]\n", 0), done.stderr
