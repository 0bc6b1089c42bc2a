"""The rollout kernel compiled for the user's functions: where it is kept, and when it is made anew."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from capture_cp import Capture, NearestParticles, OneGroup
from capture_cp.planning import plugin
from capture_cp.planning import specialise as module
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.specialise import Functions, specialise
from planning import tiny_kernel
from planning.plugins import push

TESTS = Path(__file__).parent.parent

RUN = """
import numpy as np
from capture_cp import Capture, NearestParticles, OneGroup
from capture_cp.planning import plugin
from capture_cp.planning.fused import FusedRollout
from capture_lab.tasks.box import Box
from planning.plugins import push

box = Box(spacing=0.1)
data = box.transitions(100, np.random.default_rng(0))
cap = Capture(box, box.strata, score=NearestParticles(2), groups=OneGroup(), n_particles=4).fit(data.X, data.Y)
hazard = np.ones(box.strata.grid.size, dtype=bool)
rollout = FusedRollout(cap, plugin.step, plugin.stage_cost, push(), hazard, (0, 1), 2, compare_step=False)
costs = rollout(np.array([0.4, 0.4]), np.zeros((3, 2, 2)), 1)
stats = rollout._kernel.roll_out.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), costs.sum())
"""

#: The same with a kernel that is compiled in a second.
TINY = """
import numpy as np
from capture_cp.planning import plugin
from capture_cp.planning.specialise import Functions, specialise
from planning import tiny_kernel
from planning.plugins import push

roll_out = specialise(Functions(plugin.step, plugin.stage_cost), type(push()), tiny_kernel).roll_out
cost = roll_out(np.array([0.4, 0.4]), push())
print(sum(roll_out.stats.cache_hits.values()), sum(roll_out.stats.cache_misses.values()), cost)
"""

#: A module of a user: a model that calls a helper from another file of theirs.
HELPER = "from numba import njit\n\n@njit(cache=True)\ndef speed():\n    return {speed}\n"
MODEL = """
from numba import njit
from {helper} import speed

@njit(cache=True)
def step(states, action, noise, params):
    for l in range(states.shape[1]):
        states[0, l] += {factor} * speed()

@njit(cache=True)
def stage_cost(mean, action, hazard, h, horizon, params):
    return mean[0]
"""


def run_elsewhere(cache: Path, code: str = TINY) -> list[float]:
    folders = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": folders, "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "capture-cp"


@pytest.fixture
def user_files(tmp_path, monkeypatch):
    """Writes and imports a user's module: `user_files(name, factor, speed)`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, factor=1.0, speed=1.0):
        (tmp_path / f"{name}_helper.py").write_text(HELPER.format(speed=speed))
        (tmp_path / f"{name}.py").write_text(MODEL.format(helper=f"{name}_helper", factor=factor))
        for gone in (name, f"{name}_helper"):
            sys.modules.pop(gone, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return write


def kernels(cache: Path) -> set[str]:
    return {file.name for file in cache.glob("*.py")}


@pytest.fixture(scope="module")
def cap(box):
    data = box.transitions(200, np.random.default_rng(0))
    return Capture(box, box.strata, score=NearestParticles(4), groups=OneGroup(), n_particles=8).fit(data.X, data.Y)


@pytest.mark.parametrize("code", [TINY, pytest.param(RUN, marks=pytest.mark.long)], ids=["tiny kernel", "whole rollout"])
def test_second_process_loads_the_kernel_from_disk(tmp_path, code):
    first, second = run_elsewhere(tmp_path, code), run_elsewhere(tmp_path, code)
    assert first[:2] == [0, 1]
    assert second[:2] == [1, 0]
    assert first[2] == second[2]


@pytest.fixture
def of_a_notebook():
    """A step and its cost that cannot be imported from anywhere."""

    @njit
    def step(states, action, noise, params):
        states += 1.0

    @njit
    def stage_cost(mean, action, hazard, h, horizon, params):
        return mean[0] + 10.0 * h + 100.0 * horizon

    return step, stage_cost


def test_functions_without_a_module_to_import_from_work_too(cache, of_a_notebook):
    tiny = specialise(Functions(*of_a_notebook), type(push()), tiny_kernel)
    assert tiny.roll_out(np.zeros(2), push()) == 111.0
    assert kernels(cache) == set()


@pytest.mark.long
def test_a_rollout_takes_functions_without_a_module_to_import_from(cap, cache, of_a_notebook):
    hazard = np.zeros(cap.strata.grid.size, dtype=bool)
    rollout = FusedRollout(cap, *of_a_notebook, push(), hazard, (0, 1), 0, compare_step=False)
    costs = rollout(np.zeros(2), np.zeros((2, 3, 2)), 0)
    np.testing.assert_allclose(costs, [[311.0, 322.0, 333.0]] * 2)
    assert kernels(cache) == set()


def test_same_functions_give_the_same_kernel():
    assert specialise(Functions(plugin.step, plugin.stage_cost)) is specialise(Functions(plugin.step, plugin.stage_cost))


def test_same_source_is_written_once(cache, user_files):
    one = user_files("model_same")
    specialise(Functions(one.step, one.stage_cost))
    before = kernels(cache)
    again = user_files("model_same")
    assert again.step is not one.step
    specialise(Functions(again.step, again.stage_cost))
    assert kernels(cache) == before
    assert len(before) == 1


def test_changed_source_gives_another_kernel(cache, user_files):
    one = user_files("model_changed", factor=1.0)
    specialise(Functions(one.step, one.stage_cost))
    two = user_files("model_changed", factor=2.0)
    specialise(Functions(two.step, two.stage_cost))
    assert len(kernels(cache)) == 2


def test_changed_helper_gives_another_kernel(cache, user_files):
    """The compiled kernel has the helper's code in it as well."""
    one = user_files("model_helped", speed=1.0)
    specialise(Functions(one.step, one.stage_cost))
    two = user_files("model_helped", speed=2.0)
    specialise(Functions(two.step, two.stage_cost))
    assert len(kernels(cache)) == 2


def test_other_functions_of_one_module_give_another_kernel(cache):
    from planning import plugins

    specialise.cache_clear()
    try:
        specialise(Functions(plugin.step, plugin.stage_cost))
        specialise(Functions(plugin.step, plugins.first_number))
    finally:
        specialise.cache_clear()
    assert len(kernels(cache)) == 2


def test_no_half_written_kernel_is_left_behind(cache, user_files):
    one = user_files("model_whole")
    specialise(Functions(one.step, one.stage_cost))
    assert {file.suffix for file in cache.iterdir()} <= {".py", ""}


def test_cache_folder_that_cannot_be_made_falls_back(tmp_path, monkeypatch, user_files):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    one = user_files("model_blocked")
    assert callable(specialise(Functions(one.step, one.stage_cost)).roll_out)


def test_cache_folder_that_cannot_be_written_falls_back(cache, monkeypatch, user_files):
    write = Path.write_text

    def refuse(self, *args, **keys):
        if self.parent == cache:
            raise PermissionError(13, "Permission denied", str(self))
        return write(self, *args, **keys)

    one = user_files("model_readonly")
    monkeypatch.setattr(Path, "write_text", refuse)
    assert callable(specialise(Functions(one.step, one.stage_cost)).roll_out)


def test_template_has_the_line_that_is_replaced():
    """Otherwise every kernel would silently be the example's."""
    planning = Path(module.kernel.__file__).parent
    for template in (planning / "kernel.py", planning / "cuda" / "rollout.py", planning / "cuda" / "sums.py"):
        assert len(module._PLUGIN.findall(template.read_text())) == 1


OTHER_PARAMETERS = TINY.replace(
    "from planning.plugins import push",
    "from typing import Any, NamedTuple\n\n"
    "class Shove(NamedTuple):\n    noise: float\n    goal: Any\n    hazard_weight: float\n\n"
    "def push():\n    return Shove(0.02, np.array([0.9, 0.2]), 1000.0)",
)


def test_parameters_of_a_class_that_is_gone_do_no_harm(tmp_path):
    """What one program has compiled must not trouble another, which cannot import the first one's classes."""
    first, second = run_elsewhere(tmp_path, OTHER_PARAMETERS), run_elsewhere(tmp_path)
    assert first == second == [0, 1, first[-1]]
