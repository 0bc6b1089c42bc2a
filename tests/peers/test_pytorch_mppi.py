"""pytorch_mppi with regions as its terminal cost: the costs of our own planner, and the marble solved."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.planning import RegionCost, TorchMPPICost
from capture_cp.planning.episode import run_episode
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.rows import fit_row

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
pytest.importorskip("pytorch_mppi")


@pytest.fixture(scope="module")
def still():
    """The marble almost without noise, so that two planners roll out the same particles."""
    task = MarbleOptions(noise=1e-9).at("center")
    return task, fit_row(task.rows["capture"], task, 0)


def test_its_costs_are_those_of_our_own_planner(still):
    from benchmarks.peers import TheirPlanner

    task, fitted = still
    theirs, rng = TheirPlanner(fitted, 0, samples=256), np.random.default_rng(0)
    sequences = np.clip(2 * rng.standard_normal((256, 6, 2)), theirs.like.low, theirs.like.high)
    (start,) = task.starts(1)
    ours = theirs.like.rollout(start, sequences, 5).sum(axis=1)
    theirs.controller.state = torch.from_numpy(start)
    found = theirs.controller._compute_rollout_costs(torch.from_numpy(sequences))[0].numpy()
    assert (ours > theirs.params.pit_weight).any()
    np.testing.assert_allclose(found, ours, atol=1e-5)


def test_states_start_from_the_controllers(still):
    _, fitted = still
    cost = TorchMPPICost(RegionCost(fitted.cap, fitted.task.hazard), fitted.task.axes)
    states = torch.rand(16, 5, 4, 6, dtype=torch.float64)
    with pytest.raises(CaptureError, match=r"call watch\(controller\) before it plans"):
        cost(states, torch.zeros(16, 5, 4, 2, dtype=torch.float64))

    class Controller:
        state = torch.arange(6, dtype=torch.float64)

    before, after = cost.watch(Controller()).means(states)
    np.testing.assert_allclose(after, states.numpy().mean(axis=0))
    np.testing.assert_array_equal(before[:, 0], np.tile(np.arange(6), (5, 1)))
    np.testing.assert_array_equal(before[:, 1:], after[:, :-1])
    Controller.state = torch.rand(5, 6, dtype=torch.float64)  # a start for every sample
    np.testing.assert_array_equal(cost.means(states)[0][:, 0], Controller.state)
    with pytest.raises(CaptureError, match="int has no state"):
        cost.watch(3)


def test_as_many_particles_as_were_calibrated(still):
    _, fitted = still
    cost = TorchMPPICost(RegionCost(fitted.cap, fitted.task.hazard), fitted.task.axes)

    class Controller:
        state = torch.zeros(6, dtype=torch.float64)

    states, actions = torch.rand(4, 5, 3, 6, dtype=torch.float64), torch.zeros(4, 5, 3, 2, dtype=torch.float64)
    with pytest.raises(CaptureError, match="do not fit the calibration"):
        cost.watch(Controller())(states, actions)


def test_it_solves_a_marble_board():
    from benchmarks.peers import TheirPlanner

    task = MarbleOptions().at("bottom-right")
    fitted, (start,) = fit_row(task.rows["capture"], task, 0), task.starts(1)
    run = run_episode(TheirPlanner(fitted, 1, samples=1024), fitted.task.closed_loop(start), start, 60, 0)
    assert run.outcome == "success"
