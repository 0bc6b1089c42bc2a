"""The true arm: the same bits however it is run, landings that are feasible, and physics that shows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_lab.tasks.shelf.mjcf import Physics
from capture_lab.tasks.shelf.simulator import LOOKS, ShelfSystem
from shelf.arms import logged, task_at

pytest.importorskip("mujoco")

QUIET = Physics(noise=0.0)


@pytest.fixture(scope="module")
def moving():
    X = logged().X[:48]
    return X[:, :14], X[:, 14:]


def system(physics=QUIET, threads=1):
    return ShelfSystem(task_at().shelf, physics, threads)


def test_same_bits_for_any_threads_and_batches(moving):
    states, actions = moving
    wanted = system(Physics()).step(states, actions, np.random.default_rng(0))
    np.testing.assert_array_equal(system(Physics(), 3).step(states, actions, np.random.default_rng(0)), wanted)
    true, rng = system(Physics()), np.random.default_rng(0)
    parts = [true.step(states[i:j], actions[i:j], rng) for i, j in ((0, 1), (1, 20), (20, 48))]
    np.testing.assert_array_equal(np.concatenate(parts), wanted)
    again = pickle.loads(pickle.dumps(true)).step(states, actions, np.random.default_rng(0))
    np.testing.assert_array_equal(again, wanted)


def test_no_landing_is_infeasible():
    task, log = task_at(), logged()
    assert (task.strata.index(log.Y) >= 0).all()
    assert (task.strata.index(log.X[:, :7]) >= 0).all()
    low, high = task.strata.limits
    assert ((low - 0.02 < log.Y) & (high + 0.02 > log.Y)).all()
    assert len(np.unique(task.strata.index(log.Y))) == 6


def test_what_is_watched_ends_where_a_step_ends(moving):
    true = system(Physics())
    for state, action in zip(*(part[:5] for part in moving)):
        after, seen = true.watched(state, action, np.random.default_rng(1))
        (wanted,) = true.step(state[None], action[None], np.random.default_rng(1))
        np.testing.assert_array_equal(after, wanted)
        np.testing.assert_array_equal(seen[-1], after[:7])
        assert seen.shape == (LOOKS, 7)


def test_wrong_states_and_actions_are_refused(moving):
    states, actions = moving
    true, rng = system(), np.random.default_rng(0)
    for wrong in ((states[:, :7], actions), (states, actions[:5]), (np.full_like(states, np.nan), actions)):
        with pytest.raises(CaptureError):
            true.step(*wrong, rng)
    with pytest.raises(CaptureError, match="threads"):
        system(threads=0)


@pytest.mark.parametrize(
    "wrong", [{"payload": -1.0}, {"payload": 0.0}, {"stiffness": -1.0}, {"friction": -0.1}, {"noise": float("nan")}]
)
def test_physics_that_cannot_be_are_refused(wrong):
    with pytest.raises(CaptureError, match=rf"^{next(iter(wrong))} is .*; expected a positive number\.$"):
        Physics(**wrong)
