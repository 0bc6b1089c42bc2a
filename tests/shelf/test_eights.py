"""Eight configurations at once are, to the last bit, the same configurations one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from capture_cp import CaptureError
from capture_cp.planning import FusedRollout
from capture_cp.tasks.shelf import eights, model
from capture_cp.tasks.shelf.planner import POINTS, stage_cost
from shelf.arms import calibrated, task_at


@njit
def _one_by_one(Y, params, clear, strata):
    for i in range(Y.shape[0]):
        clear[i], strata[i] = model.hazard(Y[i], params), model.stratum(Y[i], params)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 3))
def test_clearances_and_strata_are_those_of_one_configuration(seed, n, first):
    task, rng = task_at(), np.random.default_rng(seed)
    first, params = min(first, n), task.params
    Y = task.shelf.start + rng.choice([0.05, 0.3, 1.0]) * rng.standard_normal((n, 7))
    found, wanted = ((np.full(n, 9.0), np.full(n, 9)) for _ in range(2))
    eights.hazards(Y, first, n, params, found[0])
    eights.strata(Y, first, n, params, found[1])
    _one_by_one(Y, params, *wanted)
    for many, one in zip(found, wanted):
        np.testing.assert_array_equal(many[first:], one[first:])
        assert (many[:first] == 9).all()


def test_a_hazard_is_exact_where_it_is_touched_and_positive_elsewhere():
    task = task_at()
    Y = task.shelf.start + 0.3 * np.random.default_rng(0).standard_normal((500, 7))
    found, exact = np.empty(500), task.glass_clearances(Y)
    eights.hazards(Y, 0, 500, task.params, found)
    touched = exact < 0
    assert 0 < touched.sum() < 500
    np.testing.assert_array_equal(found[touched], exact[touched])
    assert (found[~touched] >= 0).all()
    assert (found <= exact + 1e-12).all()


def test_many_need_the_function_of_one():
    task = task_at()
    functions = model.step, stage_cost, task.params, model.hazard
    with pytest.raises(CaptureError, match="strata does the same as a function stratum for many configurations"):
        FusedRollout(calibrated(), *functions, task.axes, 7, points=POINTS, strata=eights.strata)
