"""Planning with regions of the horizon: the fused kernel against the Python path, and what is refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, HorizonCapture, NearestParticles, Tree
from capture_cp.planning import MPPI, PythonRollout, run_episode
from capture_cp.planning.settings import PlannerSettings
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.planner import (
    marble_cost,
    marble_params,
    model_step,
)
from capture_lab.tasks.marble.task import POSITION, Marble
from marble.boards import board
from planning.plugins import fused_rollout, noise_free

ROOM = Marble(board(size=(80, 60), start=(15, 15), goal=(60, 20), pits=((40, 40),), pit_radius=8.0), absorb=True)
HORIZON = 4


@cache
def ahead(k=4, particles=8, steps=None):
    groups = Tree(min_leaf=100, max_leaves=4)
    cap = HorizonCapture(ROOM.model_step, ROOM.strata, POSITION, NearestParticles(k), groups, n_particles=particles)
    return cap.fit(ROOM.rollouts(0, "calibration", 3000, HORIZON), steps)


def fused(cap, **options):
    params = marble_params(ROOM, ROOM.model_gain)
    return fused_rollout(cap, model_step, marble_cost, params, ROOM.strata.pit_cells, POSITION, 2, 0.1, **options)


def hazards(stage):
    return stage.hazard.astype(float)


def test_both_roll_outs_see_the_same_hazard_with_every_steps_own_thresholds():
    """Without noise the two paths roll the same particles, so the hazard cells must agree exactly."""
    cap, params = ahead(), marble_params(ROOM, ROOM.model_gain)._replace(stage_weight=0.0, final_weight=0.0, pit_weight=1.0)

    def still(states, actions, rng):
        after = ROOM.believed_step(states, actions, np.zeros((len(states), 2)))
        at_goal = np.linalg.norm(after[:, POSITION] - params.goal[:2], axis=1) <= params.goal[2]
        after[np.ix_(at_goal, POSITION)] = params.goal[:2]
        return after

    quick = noise_free(
        fused_rollout(cap, model_step, marble_cost, params, ROOM.strata.pit_cells, POSITION, 2, compare_step=False)
    )
    slow = PythonRollout(cap, still, hazards, ROOM.strata.pit_cells, POSITION, 0.1)
    rng = np.random.default_rng(1)
    state = np.array([0.015, 0.05, 0.035, 0.05, -0.05, 0.0])
    sequences = rng.uniform(-dynamics.MAX_ACTION, dynamics.MAX_ACTION, size=(200, HORIZON, 2))
    counted = quick(state, sequences, 0)
    np.testing.assert_array_equal(counted, slow(state, sequences, 0))
    assert counted[:, -1].max() > 0


def test_later_steps_use_their_own_thresholds():
    cap, state = ahead(), np.array([0.015, 0.05, 0.035, 0.05, -0.05, 0.0])
    sequences = np.random.default_rng(4).uniform(-0.5, 0.5, size=(50, HORIZON, 2))
    rollout = fused(cap)
    before = rollout(state, sequences, 0)
    last = [leaf.group for leaf in cap.partition_at(HORIZON - 1)._leaves]
    changed = rollout.thresholds.copy()
    changed[:, last] = -1.0  # empty regions
    rollout.thresholds = changed
    after = rollout(state, sequences, 0)
    np.testing.assert_array_equal(before[:, :-1], after[:, :-1])
    assert after[:, -1].sum() < before[:, -1].sum()


def test_simultaneous_regions_hold_more_hazard():
    state = np.array([0.015, 0.05, 0.035, 0.05, -0.05, 0.0])
    sequences = np.random.default_rng(2).uniform(-0.5, 0.5, size=(100, HORIZON, 2))
    each, together = (fused(ahead(), simultaneous=both)(state, sequences, 0) for both in (False, True))
    assert (together >= each).mean() > 0.95
    assert together.sum() > each.sum()


def test_particles_in_pits_count_beside_the_cells_of_regions():
    cap, state = ahead(), np.array([0.03, 0.3, 0.04, 0.0, 0.0, 0.0])  # straight into the pit
    rollout, both = fused(cap), fused(cap, count_particles=True)
    sequences = np.zeros((20, HORIZON, 2))
    extra = both(state, sequences, 0) - rollout(state, sequences, 0)
    weight = marble_params(ROOM, 1.0).pit_weight
    np.testing.assert_allclose(extra[:, -1], cap.n_particles * weight)


def test_an_episode_knows_the_first_steps_regions():
    planner = ROOM.planner(ahead(), PlannerSettings(HORIZON, 200, 0.02, elites=3, repeats=4))
    (start,) = ROOM.starts(1)
    run = run_episode(planner, ROOM.closed_loop(start), start, 30, 0).with_regions(ahead(), POSITION)
    assert run.inside.shape == (run.steps,)
    assert run.thresholds.shape == (run.steps, len(ROOM.strata.names))
    assert run.particles.shape == (run.steps, 8, 2)


def test_what_a_plan_cannot_use_is_refused():
    with pytest.raises(CaptureError, match="steps 1, 2, 3"):
        fused(ahead(steps=(2, 4)))
    log = ROOM.design_transitions("random", 1, np.random.default_rng(3))
    one = Capture(ROOM, ROOM.strata, n_particles=8).fit(log.X[:2000], log.Y[:2000])
    with pytest.raises(CaptureError, match="HorizonCapture"):
        fused(one, simultaneous=True)
    with pytest.raises(CaptureError, match="fewer elites"):
        ROOM.planner(ahead(), PlannerSettings(HORIZON, 64, 0.02, elites=3))


def test_elites_beat_an_average_of_two_ways_round():
    """Left and right are both fine, their average is not: only a second look finds that out."""

    def cost(state, sequences, seed):
        return np.abs(np.abs(sequences[:, :, 0]) - 0.5)

    shared = {"horizon": 1, "samples": 400, "temperature": 1.0, "noise": [[1.0]], "low": [-0.5], "high": [0.5]}
    average = MPPI(cost, **shared).plan(np.zeros(1))
    best = MPPI(cost, **shared, elites=5, repeats=2).plan(np.zeros(1))
    assert abs(average[0]) < 0.2
    assert abs(best[0]) > 0.45
