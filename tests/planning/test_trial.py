"""The user's functions tried in Python before they are compiled: what compiled code would hide is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import float64, njit
from numba.experimental import jitclass

from capture_cp import CaptureError
from capture_cp.planning import plugin
from capture_cp.planning.trial import python_twin
from planning import plugins
from planning.plugins import GOAL, fused_rollout, push
from planning.test_rollout import START, sequences


@njit
def far_noise(states, action, noise, params):
    for l in range(states.shape[1]):
        states[0, l] += action[0] + params.noise * noise[5, l]


@njit
def _beyond(values, l):
    return values[values.shape[0], l]


@njit
def helped_step(states, action, noise, params):
    for l in range(states.shape[1]):
        states[0, l] += _beyond(noise, l)


@njit
def greedy_step(states, action, noise, params):
    action[0] = 0.0
    states += 1.0


@njit
def short_step(states, action, noise):
    states += 1.0


@njit
def silent_cost(mean, action, hazard, h, horizon, params):
    mean[0] + 1.0


@njit
def long_cost(mean, action, hazard, h, horizon, params):
    return mean[2]


@njit
def broad_cost(mean, action, hazard, h, horizon, params):
    return mean


@njit
def late_cost(mean, action, hazard, h, horizon, params):
    return action[h - 1]


@njit
def unknown_attribute(states, action, noise, params):
    states[0, 0] += params.speed


@njit
def unknown_name(mean, action, hazard, h, horizon, params):
    return nobody_knows_this(mean)  # noqa: F821


def rollout(cap, step=plugin.step, stage_cost=plugin.stage_cost, params=None, noise_dims=2):
    mask = np.zeros(cap.strata.grid.size, dtype=bool)
    return fused_rollout(cap, step, stage_cost, params or push(), mask, (0, 1), noise_dims, compare_step=False)


@pytest.fixture
def cap(fitted):
    return fitted["capture"]


def refused(cap, *functions, **settings):
    with pytest.raises(CaptureError) as caught:
        rollout(cap, *functions, **settings)(START, sequences(), 0)
    assert "\x1b" not in str(caught.value)
    return str(caught.value)


def test_noise_beyond_noise_dims_is_refused(cap):
    printed = refused(cap, far_noise)
    assert "index 5 is out of bounds" in printed
    assert "noise (2, 8)" in printed
    assert re.search(r"line \d+ of \S*test_trial.py: `states\[0, l\] \+= .*noise\[5, l\]`", printed)


def test_noise_that_was_not_asked_for_is_refused(cap):
    assert "noise (0, 8)" in refused(cap, noise_dims=0)
    assert "noise (1, 8)" in refused(cap, noise_dims=1)


def test_index_of_a_function_that_the_step_calls_is_checked(cap):
    assert "`return values[values.shape[0], l]`" in refused(cap, helped_step)


@pytest.mark.parametrize("name", ["capture", "lucca"])
def test_step_that_returns_its_states_is_refused(fitted, name):
    mask = np.zeros(fitted[name].strata.grid.size, dtype=bool)
    settings = {"gaussian_scale": [0.02] * 3} if name == "lucca" else {}
    made = fused_rollout(fitted[name], plugins.returning_step, plugin.stage_cost, push(), mask, (0, 1), 2, **settings)
    with pytest.raises(CaptureError, match=r"returned an array of shape .* return nothing"):
        made(START, sequences(), 0)


def test_step_that_changes_the_planners_action_is_refused(cap):
    assert "changed its action" in refused(cap, greedy_step)


def test_cost_that_returns_nothing_is_refused(cap):
    assert "stage_cost returned None at step 1" in refused(cap, plugin.step, silent_cost)


def test_cost_that_returns_an_array_is_refused(cap):
    assert "an array of shape (2,)" in refused(cap, plugin.step, broad_cost)


def test_cost_that_reads_beyond_the_state_is_refused(cap):
    assert "mean (2,)" in refused(cap, plugin.step, long_cost)


def test_later_steps_are_tried_too(cap):
    assert "index 2 is out of bounds" in refused(cap, plugin.step, late_cost)


def test_functions_of_other_arguments_are_refused(cap):
    with pytest.raises(CaptureError, match=r"step is short_step\(states, action, noise\); expected .* params\)"):
        rollout(cap, short_step)
    with pytest.raises(CaptureError, match=r"stage_cost is step\(.*expected a function of 6 arguments"):
        rollout(cap, plugin.step, plugin.step)


def test_numbas_errors_name_the_cause_and_the_line(cap):
    printed = refused(cap, unknown_attribute)
    assert "Unknown attribute 'speed' of type Push" in printed
    assert re.search(r'in "\S*test_trial.py", line \d+\.', printed)
    assert "NameError: name 'nobody_knows_this' is not defined." in refused(cap, plugin.step, unknown_name)


# -- what is fine -----------------------------------------------------------------------------------------------------


@jitclass([("noise", float64), ("hazard_weight", float64), ("goal", float64[:])])
class Knobs:
    def __init__(self, noise, hazard_weight, goal):
        self.noise, self.hazard_weight, self.goal = noise, hazard_weight, goal


@njit
def swapping_step(states, action, noise, params):
    for l in range(states.shape[1]):
        states[0, l], states[-1, l] = states[-1, l] + action[-1], states[0, l] + noise[-1, l]


@pytest.mark.parametrize("params", [push(), Knobs(0.02, 1.0, GOAL)], ids=["tuple", "object"])
def test_sound_functions_are_let_pass(cap, params):
    for step in (plugin.step, swapping_step, plugins.still_step):
        rollout(cap, step, params=params).try_out(START, sequences())


def test_more_noise_than_is_used_is_let_pass(cap):
    rollout(cap, noise_dims=7).try_out(START, sequences())


def test_errors_other_than_of_indices_are_left_to_the_compiled_functions(cap):
    @njit
    def step(states, action, noise, params):
        states += np.nonzero(states)[0].astype(np.float64).view(np.int64)[0] // 0

    rollout(cap, step).try_out(START, sequences())


def test_twin_calls_the_python_versions_of_what_it_calls():
    offset = njit(lambda: 1.0)

    @njit
    def down(n):
        return n if n <= 0 else down(n - 1) + offset()

    twin = python_twin(down)
    assert not hasattr(twin, "py_func")
    assert twin(3) == down(3) == 3.0
    closed = dict(zip(twin.__code__.co_freevars, twin.__closure__))
    assert closed["down"].cell_contents is twin
    assert not hasattr(closed["offset"].cell_contents, "py_func")


def test_functions_are_tried_once(cap, monkeypatch):
    from capture_cp.planning import fused

    calls = []
    monkeypatch.setattr(fused, "try_in_python", lambda *given: calls.append(given))
    for goal in (0.101, 0.101, 0.102):
        made = rollout(cap, params=push()._replace(goal=np.full(2, goal)))
        for _ in range(2):
            made.try_out(START, sequences())
    assert len(calls) == 2
