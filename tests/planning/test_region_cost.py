"""Regions as a cost for any planner: against the library's own planners, and against every cell by itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capture_cp import CaptureError, HorizonCapture, NearestParticles, Tree
from capture_cp.conformal.scores import ParticleBox
from capture_cp.planning import PythonRollout, RegionCost
from capture_cp.planning.hazard_count import HazardCount, HazardRows
from capture_lab.tasks.marble.planner import marble_cost, marble_params, model_step
from capture_lab.tasks.marble.task import POSITION, Marble
from marble.boards import board
from planning.plugins import DISC, RADIUS, fused_rollout, kernel_noise, noise_free
from planning.test_rollout import (
    MASKS,
    PARTICLES,
    SEED,
    START,
    calibrated,
    clouds,
    fused,
    hazard_counts,
    masks,
    python,
    sequences,
)


def planned(asked):
    """Of sequences (N, H, 2): mean states before each step (N, H, 2), and particles after it (N, H, L, 2)."""
    after = np.moveaxis(clouds(asked, kernel_noise(SEED, len(asked), asked.shape[1], PARTICLES)), 0, 1)
    start = np.broadcast_to(START, (len(asked), 1, 2))
    return np.concatenate([start, after[:, :-1].mean(axis=2)], axis=1), after


# -- the same measure as the library's own planners -------------------------------------------------------------------


@pytest.mark.parametrize("hazard", MASKS)
@pytest.mark.parametrize("groups", ["one", "strata", "tree"])
@pytest.mark.parametrize("k", [1, PARTICLES // 2])
def test_it_counts_what_the_fused_planner_charges_for(world, k, groups, hazard):
    cap, mask, asked = calibrated(world, NearestParticles(k), groups), masks(world.box)[hazard], sequences()
    before, after = planned(asked)
    charged = hazard_counts(fused(cap, mask)(START, asked, SEED), np.moveaxis(after, 1, 0))
    np.testing.assert_array_equal(RegionCost(cap, mask).stages(before, asked, after), charged)


def test_it_counts_what_both_planners_charge_every_particle_method_for(world, particle_method):
    mask, asked = masks(world.box)["scattered"], sequences()
    before, after = planned(asked)
    found = RegionCost(particle_method, mask).stages(before, asked, after)
    assert found.sum() > 0
    for rollout in (fused(particle_method, mask), python(particle_method, mask, kernel_noise(SEED, 12, 3, PARTICLES))):
        charged = hazard_counts(rollout(START, asked, SEED), np.moveaxis(after, 1, 0))
        np.testing.assert_array_equal(found, charged)


def test_it_estimates_a_hazard_function_as_the_python_planner_does(world):
    def distance(Y):
        return np.linalg.norm(Y - DISC, axis=1) - RADIUS

    cap, asked, seen = calibrated(world, NearestParticles(4)), sequences(), []
    before, after = planned(asked)
    rollout = python(cap, distance, kernel_noise(SEED, 12, 3, PARTICLES))
    rollout.cost = lambda stage: seen.append(stage.hazard) or np.zeros(len(stage.mean))
    rollout(START, asked, SEED)
    found = RegionCost(cap, distance).stages(before, asked, after)
    assert found.sum() > 0
    np.testing.assert_allclose(found, np.stack(seen, axis=1))


ROOM = Marble(board(size=(80, 60), start=(15, 15), goal=(60, 20), pits=((40, 40),), pit_radius=8.0), absorb=True)


@cache
def ahead():
    groups = Tree(min_leaf=100, max_leaves=4)
    cap = HorizonCapture(ROOM.model_step, ROOM.strata, POSITION, NearestParticles(4), groups, n_particles=8)
    return cap.fit(ROOM.rollouts(0, "calibration", 3000, 3))


@pytest.mark.parametrize("simultaneous", [False, True])
def test_every_step_of_a_horizon_has_thresholds_of_its_own(simultaneous):
    cap, rng = ahead(), np.random.default_rng(1)
    params = marble_params(ROOM, ROOM.model_gain)._replace(stage_weight=0.0, final_weight=0.0, pit_weight=1.0)
    given = cap, model_step, marble_cost, params, ROOM.hazard, POSITION, 2
    quick = noise_free(fused_rollout(*given, compare_step=False, simultaneous=simultaneous))
    start, asked = np.array([0.015, 0.05, 0.035, 0.05, -0.05, 0.0]), rng.uniform(-1, 1, (200, 4, 2))
    states = [np.tile(start, (200, 1))]
    for h in range(4):  # one step more than was calibrated
        states.append(ROOM.believed_step(states[-1], asked[:, h], np.zeros((200, 2))))
    before, after = np.stack(states[:-1], axis=1), np.stack(states[1:], axis=1)[..., POSITION]
    particles = np.repeat(after[:, :, None], 8, axis=2)
    cost, wanted = RegionCost(cap, ROOM.hazard, simultaneous=simultaneous), quick(start, asked, 0)
    assert (wanted > 0).any(axis=0).sum() >= 3
    np.testing.assert_array_equal(cost.stages(before, asked, particles), wanted)
    for h in range(4):
        one = cost(before[:, h], asked[:, h], np.ascontiguousarray(particles[:, h]), step=h + 1)
        np.testing.assert_array_equal(one, wanted[:, h])


# -- the quick count --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hazard", MASKS)
@pytest.mark.parametrize("k", [1, 3, PARTICLES])
def test_counting_by_runs_equals_looking_at_every_cell(world, k, hazard):
    rng, cap, mask = np.random.default_rng(2), calibrated(world, NearestParticles(k), "one"), masks(world.box)[hazard]
    strata, n = world.box.strata, 30
    cloud = rng.random((n, 1, 2)) + 0.05 * rng.standard_normal((n, PARTICLES, 2))
    q = rng.choice([-1.0, 0.0, 0.03, 0.1, np.inf], size=(n, len(strata.names)))
    centres = strata.grid.centre(np.arange(strata.grid.size))
    distance = np.sort(np.linalg.norm(centres[None, :, None] - cloud[:, None], axis=-1), axis=-1)[..., k - 1]
    inside = mask & (strata.labels >= 0) & (distance <= q[:, np.maximum(strata.labels, 0)])
    found = HazardRows(cap, mask)(cloud, q)
    np.testing.assert_array_equal(found, inside.sum(axis=1))
    np.testing.assert_array_equal(found, HazardCount(cap, mask)(cloud, q))


# -- arrays in and out ------------------------------------------------------------------------------------------------


@pytest.fixture
def asked_and_cost(world):
    cap, asked = calibrated(world, NearestParticles(4)), sequences()
    return (*planned(asked), asked, RegionCost(cap, masks(world.box)["block"], weight=2.5))


def test_steps_are_summed_and_weighed(asked_and_cost):
    before, after, asked, cost = asked_and_cost
    stages = cost.stages(before, asked, after)
    assert stages.shape == (12, 3)
    assert stages.max() > 0
    np.testing.assert_array_equal(cost(before, asked, after), stages.sum(axis=1))
    np.testing.assert_array_equal(cost(before[:, 1], asked[:, 1], np.ascontiguousarray(after[:, 1])), stages[:, 1])
    unweighted = RegionCost(cost.cap, cost._avoided)
    np.testing.assert_array_equal(2.5 * unweighted(before, asked, after), stages.sum(axis=1))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_cost_has_the_type_of_the_particles(asked_and_cost, kind):
    before, after, asked, cost = asked_and_cost
    found = cost(*(part.astype(kind) for part in (before, asked, after)))
    assert isinstance(found, np.ndarray)
    assert found.dtype == kind
    assert found.shape == (12,)


def test_lists_and_strided_arrays_are_taken(asked_and_cost):
    before, after, asked, cost = asked_and_cost
    wanted = cost(before, asked, after)
    np.testing.assert_array_equal(cost(before.tolist(), asked.tolist(), after.tolist()), wanted)
    turned = np.asfortranarray(after)
    np.testing.assert_array_equal(cost(before, asked, turned), wanted)


def test_no_rows_cost_nothing(asked_and_cost):
    before, after, asked, cost = asked_and_cost
    assert cost(before[:0, 0], asked[:0, 0], after[:0, 0]).shape == (0,)


def test_what_does_not_fit_is_refused(asked_and_cost):
    before, after, asked, cost = asked_and_cost
    for wrong in (
        (before[:, 0], asked, after),
        (before[:5], asked, after),
        (before, asked, after[:, :, :-1]),
        (before, asked, after[..., :1]),
        (before, asked[..., :1], after),
        (before[0, 0], asked[0, 0], after[0, 0]),
    ):
        with pytest.raises(CaptureError, match="do not fit the calibration; expected"):
            cost(*wrong)
    spoilt = after.copy()
    spoilt[3, 1, 0, 0] = np.nan
    with pytest.raises(CaptureError, match="particles has 1 NaN or infinite values"):
        cost(before, asked, spoilt)
    with pytest.raises(CaptureError, match="step is 0; expected a whole number"):
        cost(before, asked, after, step=0)


def test_what_cannot_be_a_cost_is_refused(world, fitted):
    mask = masks(world.box)["block"]
    with pytest.raises(CaptureError, match="needs a particle score"):
        RegionCost(fitted["lucca"], mask)
    with pytest.raises(CaptureError, match="weight is -1; expected a positive number"):
        RegionCost(fitted["capture"], mask, weight=-1)
    with pytest.raises(CaptureError, match="hazard is bool of 3 cells"):
        RegionCost(fitted["capture"], mask[:3])
    with pytest.raises(CaptureError, match="simultaneous regions of a plan need a HorizonCapture"):
        RegionCost(fitted["capture"], mask, simultaneous=True)


def test_the_box_of_particles_is_counted_as_in_the_python_planner(world):
    cap, mask, asked = calibrated(world, ParticleBox(), "strata"), masks(world.box)["scattered"], sequences()
    before, after = planned(asked)
    rollout = python(cap, mask, kernel_noise(SEED, 12, 3, PARTICLES))
    assert isinstance(rollout, PythonRollout)
    charged = hazard_counts(rollout(START, asked, SEED), np.moveaxis(after, 1, 0))
    np.testing.assert_array_equal(RegionCost(cap, mask).stages(before, asked, after), charged)
