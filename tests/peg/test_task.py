"""The peg task as the library sees it: a model, strata, transitions, and methods that share them."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError, Tree
from capture_cp.capture.methods import METHODS
from capture_lab.tasks.peg.geometry import MAX_OVERLAP, overlaps, shape_of
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.task import Peg

TASK = Peg()
PARTICLE_METHODS = [name for name in METHODS if name != "lucca"]


@pytest.fixture(scope="module")
def moved():
    """Transitions without a simulator: the model, sent 1.5 times as far, stands for the truth."""
    rng = np.random.default_rng(3)
    X = TASK.inputs(8000, rng)
    return X, TASK(np.hstack([X[:, :3], 1.5 * X[:, 3:]]), 1, rng)[:, 0]


# -- inputs and model -----------------------------------------------------------------------------------------------------


# -- methods --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARTICLE_METHODS)
def test_particle_regions_hold_nothing_infeasible(name, moved):
    cap = TASK.method(name, tree=Tree(min_leaf=150)).fit(*moved)
    counts = cap.count_cells(moved[0][:60])
    assert counts.sum() > 0
    assert not counts[:, -1].any()
    cells = np.concatenate([cap.region(x).cells() for x in moved[0][:5]])
    assert overlaps(TASK.strata.require_grid().centre(cells), shape_of(TASK.settings)).max() <= MAX_OVERLAP


# -- the true system ------------------------------------------------------------------------------------------------------


def test_transitions_have_names_and_feasible_landings():
    pytest.importorskip("mujoco")
    data = TASK.transitions(200, np.random.default_rng(4))
    assert (data.state_names, data.action_names) == (Peg.states, Peg.actions)
    assert data.next_names == ("next_x", "next_z", "next_theta")
    assert (TASK.strata.index(data.Y) >= 0).all()
    _, pushed_out = TASK.landings(data.X, np.random.default_rng(4), TASK.true_system(1))
    assert 0 <= pushed_out <= 4


class Sunk:
    """A true system whose landings are all a little too deep in the receptacle."""

    def applied(self, actions, rng):
        return actions * ACTION_UNIT

    def transitions(self, poses, displacements):
        return np.tile([0.02, 0.025 - 20e-6, 0.0], (len(poses), 1))


def test_landing_too_deep_is_pushed_out_by_no_more_than_it_takes_and_counted():
    Y, pushed_out = TASK.landings(TASK.inputs(3, np.random.default_rng(5)), np.random.default_rng(6), Sunk())
    assert pushed_out == 3
    area = overlaps(Y, shape_of(TASK.settings))
    assert area.max() <= MAX_OVERLAP
    assert area.min() > 0.9 * MAX_OVERLAP
    assert np.abs(Y[:, 1] - 0.025).max() < 20e-6


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pose", "sentence"),
    [
        ([0.05, 0.04, 0.0], r"1 of 2 poses lie outside the grid .* first in row 1: \[0.05, 0.04, 0.0\]"),
        ([0.0, 0.04, 1.0], "outside the grid"),
        ([0.02, 0.01, 0.0], r"1 of 2 poses lie in the receptacle or the table, first in row 1"),
    ],
)
def test_impossible_pose_is_refused(pose, sentence):
    X = np.zeros((2, 6))
    X[:, :3] = [[0.0, 0.04, 0.0], pose]
    with pytest.raises(CaptureError, match=sentence):
        TASK.check_poses(X[:, :3])
    with pytest.raises(CaptureError, match=sentence):
        TASK.landings(X, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["noise", "gain", "friction"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_setting_is_refused(name, value):
    with pytest.raises(CaptureError, match=name):
        PegSettings(**{name: value})
