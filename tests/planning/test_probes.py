"""Hazards that are functions: points about the particles against cells, against plain NumPy, and fused against Python."""

from __future__ import annotations

from math import gamma, pi

import numpy as np
import pytest
from scipy import stats

from capture_cp import (
    SE2,
    SE3,
    Capture,
    CaptureError,
    Euclidean,
    FunctionStrata,
    NearestParticles,
    OneGroup,
    PerStratum,
    Product,
    Torus,
    Tree,
)
from capture_cp.kernels.probes import signed, spread_points
from capture_cp.planning import plugin
from capture_cp.planning.point_test import PointTest, hazard_error
from capture_cp.planning.probes import low_discrepancy
from capture_cp.planning.rollout import PythonRollout
from capture_cp.spaces.metrics import FunctionMetric
from capture_cp.spaces.strata import GridStrata
from capture_lab.tasks.box import Box
from planning import plugins
from planning.plugins import DISC, RADIUS, WEIGHT, fused_rollout, push, python_cost
from planning.test_rollout import PARTICLES, SEED, START, calibrated, fused, masks, python, sequences

METRICS = {
    "weighted": (Euclidean((1.0, 2.0, 0.5)), 3),
    "torus": (Torus((1.0, 1.0, 0.7)), 3),
    "plane": (SE2(0.4), 3),
    "space": (SE3(0.4), 7),
    "product": (Product((SE2(0.4), Torus()), (3, 2)), 5),
    "function": (FunctionMetric(plugins.straight, (1.0, 1.0, 1.0)), 3),
}


def disc(Y):
    return np.linalg.norm(Y[:, :2] - DISC, axis=1) - RADIUS


def left_and_right(Y):
    return np.where(Y[:, 0] > 0.8, -1, (Y[:, 0] > 0.45).astype(int))


def at_random(n, dims, rng):
    """Configurations near the disc; of seven numbers, poses in space with turns of every size."""
    Y = np.hstack([DISC + rng.uniform(-0.3, 0.3, (n, 2)), rng.uniform(-0.3, 0.3, (n, dims - 2))])
    if dims == 7:
        Y[:, 3:] = stats.norm.rvs(size=(n, 4), random_state=rng)
        Y[:, 3:] /= np.linalg.norm(Y[:, 3:], axis=1, keepdims=True)
    return Y


def learnt(metric, dims, groups=None, n=400):
    """A calibration on noise about random configurations, in two strata without a grid."""
    rng = np.random.default_rng(0)
    X = at_random(n, dims, rng)
    strata = FunctionStrata(left_and_right, ["left", "right"])

    def model(X, n_particles, rng):
        after = X[:, :dims] + X[:, dims:]
        return after[:, None] + 0.05 * rng.standard_normal((len(X), n_particles, dims))

    pushes = rng.uniform(-0.1, 0.1, (n, 1))
    Y = X + pushes + 0.06 * rng.standard_normal(X.shape)
    kept, inputs = left_and_right(Y) >= 0, np.hstack([X, pushes])
    cap = Capture(model, strata, score=NearestParticles(3, metric), groups=groups or PerStratum(), n_particles=6)
    return cap.fit(inputs[kept], Y[kept])


# -- the estimate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
def test_estimate_is_that_of_plain_numpy(name):
    metric, dims = METRICS[name]
    cap, rng = learnt(metric, dims), np.random.default_rng(1)
    test = PointTest(cap, disc, 60)
    clouds = at_random(40, dims, rng)[:, None] + 0.05 * rng.standard_normal((40, 6, dims))
    q = rng.uniform(0.05, 0.3, (40, 2))
    q[:5, 0] = -1.0
    wanted = [share_in_numpy(metric, test.offsets, cloud, limits) for cloud, limits in zip(clouds, q)]
    np.testing.assert_allclose(test(clouds, q), wanted, atol=1e-9)
    assert 0.1 < np.mean(wanted) < 0.9


def share_in_numpy(metric, offsets, cloud, q):
    """Share of a region of particles (L, dc) with thresholds q (2,) that is on the disc, by the definition."""
    L, dims = cloud.shape
    each, widest = len(offsets) // L, q.max()
    own = [q[m] if m >= 0 and q[m] >= 0 else widest for m in left_and_right(cloud)]
    moves = metric.moves(dims)
    found = total = 0.0
    for j, offset in enumerate(offsets):
        l = j // each
        radius = own[l] if 2 * (j % each) < each else widest
        radii = np.array([[*np.full(L, radius), radius]])
        points, density = spread_points(moves, cloud[None], radii, np.repeat(offset[None], L, axis=0))
        y, density = points[0, l], density[0, l]
        m = left_and_right(y[None])[0]
        d = metric.distance(y, cloud)
        if m < 0 or q[m] < 0 or (d <= q[m]).sum() < 3 or d[l] > radius:
            continue
        narrow = sum((d[i] <= own[i]) / volume(moves, own[i]) for i in range(L))
        weight = density / (narrow + (d <= widest).sum() / volume(moves, widest))
        total, found = total + weight, found + weight * (disc(y[None])[0] < 0)
    return found / total if total > 0 else (disc(cloud) < 0).mean()


def volume(moves, radius):
    """Volume, up to a factor that does not depend on the radius, of where offsets lead."""
    value, axis = 1.0, 0
    while axis < len(moves):
        kind, reach = int(moves[axis, 0]), radius / moves[axis, 1]
        turn = min(reach / moves[axis, 2], pi) if moves[axis, 2] else 0
        value *= {2: reach**2 * turn, 3: (reach * turn) ** 3}.get(kind, reach)
        axis += {2: 3, 3: 7}.get(kind, 1)
    return value


@pytest.mark.parametrize("k", [1, PARTICLES // 2])
@pytest.mark.parametrize("groups", [OneGroup(), Tree(min_leaf=40)])
def test_estimate_tends_to_the_cells_of_the_grid(groups, k):
    box, rng = Box(spacing=0.005), np.random.default_rng(2)
    log = box.transitions(800, rng)
    cap = Capture(box, box.strata, score=NearestParticles(k), groups=groups, n_particles=PARTICLES).fit(log.X, log.Y)
    strata, grid = box.strata, box.strata.require_grid()
    mask = disc(grid.centre(np.arange(grid.size))) < 0
    cells = GridStrata(grid, np.where(mask, strata.labels, -1), strata.names)
    clouds = box(log.X[:300], PARTICLES, rng)
    q = cap.plan_thresholds(0.1, False)[np.arange(3), cap.partition_at(0).groups_everywhere(log.X[:300])]
    counted = cap.score_.count_cells(clouds, np.hstack([q, np.full((300, 1), -1.0)]), cells).sum(axis=1)
    errors = [np.sqrt(np.mean((PointTest(cap, disc, n)(clouds, q) - counted) ** 2)) for n in (64, 1024)]
    assert errors[1] < errors[0] / 3
    assert errors[1] < 0.03 * counted.max()
    few = PointTest(cap, disc, 64)(clouds, q)
    assert abs(few.mean() - counted.mean()) < 4 * np.std(few - counted) / np.sqrt(300) + 0.02 * counted.mean()


def test_error_of_the_estimate_is_told_and_shrinks_with_more_points():
    cap, rng = learnt(Euclidean(), 2), np.random.default_rng(4)
    states, actions = at_random(300, 2, rng), rng.uniform(-0.1, 0.1, (300, 1))
    found = [hazard_error(cap, disc, states, actions, points=n, rng=0) for n in (16, 256)]
    assert found[0].regions > 100
    assert found[1].error < found[0].error / 2 < found[0].typical
    assert found[1].missed < found[0].missed
    assert hazard_error(cap, plugins.disc_distance, states, actions, points=16, params=push(), rng=0) == found[0]
    assert hazard_error(cap, lambda Y: np.ones(len(Y)), states, actions, rng=0) == (0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_offsets_fill_the_unit_ball_evenly(dims):
    offsets = low_discrepancy(Euclidean().moves(dims), 4096, 16)
    size = np.linalg.norm(offsets, axis=1)
    assert size.max() <= 1
    np.testing.assert_allclose(np.quantile(size**dims, np.linspace(0, 1, 11)), np.linspace(0, 1, 11), atol=0.02)
    assert np.abs(offsets.mean(axis=0)).max() < 0.02
    assert len(low_discrepancy(Euclidean().moves(dims), 10, 16)) == 32  # two of every particle at least


def test_ball_of_many_dimensions():
    assert PointTest(learnt(Torus(), 6), disc, 8).ball == pytest.approx(pi**3 / gamma(4))


def test_bool_counts_as_a_signed_distance():
    assert (signed(True), signed(np.bool_(False)), signed(-0.5)) == (-1.0, 0.0, -0.5)


# -- rollouts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, PARTICLES // 2])
def test_fused_equals_python_with_a_grid(world, k):
    cap, asked, hazard = calibrated(world, NearestParticles(k)), sequences(), plugins.disc_distance
    wanted = python(cap, disc, np.zeros((3, 12, PARTICLES, 2)))(START, asked, SEED)
    found = fused(cap, hazard, noise=0.0)(START, asked, SEED)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert wanted.max() > WEIGHT
    with_particles = fused(cap, hazard, noise=0.0, count_particles=True)(START, asked, SEED)
    inside = np.rint((with_particles - found) / WEIGHT)
    assert set(inside.ravel()) == {0, PARTICLES}  # without noise they are all in one place


def test_steepness_saves_work_and_changes_nothing(world):
    cap, asked = calibrated(world, NearestParticles(4)), sequences(200, size=0.4)
    plain = fused(cap, plugins.disc_distance)(START, asked, SEED)
    np.testing.assert_array_equal(fused(cap, plugins.disc_distance, steepness=1.0)(START, asked, SEED), plain)
    np.testing.assert_array_equal(fused(cap, plugins.disc_distance, points=60)(START, asked, SEED), plain)  # rounded up


@pytest.mark.parametrize("name", METRICS)
def test_fused_equals_python_without_a_grid(name):
    metric, dims = METRICS[name]
    cap, rng = learnt(metric, dims, Tree(min_leaf=50)), np.random.default_rng(3)
    start = at_random(1, dims, rng)[0]
    asked = rng.uniform(-0.15, 0.15, (40, 2, 1))

    def drift(states, actions, rng):
        return states + actions

    wanted = PythonRollout(cap, drift, lambda stage: stage.hazard, disc, range(dims))(start, asked, SEED)
    functions = plugins.drifting_step, plugins.hazard_only, push(0.0), plugins.on_disc
    settings = {"axes": range(dims), "noise_dims": dims, "stratum": plugins.halves, "compare_step": False}
    found = fused_rollout(cap, *functions, **settings)(start, asked, SEED)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert 0 < wanted.mean() < 1
    # whether a configuration is on the hazard says nothing of how far away it is
    np.testing.assert_array_equal(fused_rollout(cap, *functions, **settings, steepness=1.0)(start, asked, SEED), found)


@pytest.mark.parametrize(
    "metric",
    [Euclidean((1.0, 1.0)), pytest.param(FunctionMetric(plugins.straight, (1.0, 1.0)), marks=pytest.mark.long)],
)
def test_mask_in_a_metric_that_finds_no_cells_is_looked_at_by_points(world, metric):
    mask, asked = masks(world.box)["block"], sequences(40)
    cells = fused(calibrated(world, NearestParticles(4)), mask)(START, asked, SEED)
    points = fused(calibrated(world, NearestParticles(4, metric)), mask, points=8192)(START, asked, SEED)
    np.testing.assert_allclose(points, cells, rtol=0.05, atol=3 * WEIGHT)


def test_one_stratum_needs_no_function_of_strata(world):
    cap = Capture(world.box, FunctionStrata(lambda Y: np.zeros(len(Y), dtype=int), ["all"]), n_particles=PARTICLES)
    cap.fit(world.X, world.Y)
    found = fused(cap, plugins.disc_distance, noise=0.0)(START, sequences(), SEED)
    wanted = PythonRollout(cap, lambda s, a, rng: s + a, python_cost, disc, (0, 1))(START, sequences(), SEED)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_box_of_particles_and_gaussian(world, fitted):
    asked = sequences()
    scale = {"gaussian_scale": [0.05] * 3}
    cells = fused(fitted["lucca"], disc(world.box.strata.grid.centre(np.arange(world.box.strata.grid.size))) < 0, **scale)
    points = fused(fitted["lucca"], plugins.disc_distance, points=16384, **scale)
    np.testing.assert_allclose(points(START, asked, SEED), cells(START, asked, SEED), rtol=0.05, atol=3 * WEIGHT)
    box = fused(fitted["particles"], plugins.disc_distance, noise=0.0)(START, asked, SEED)
    wanted = python(fitted["particles"], disc, np.zeros((3, 12, fitted["particles"].n_particles, 2)))(START, asked, SEED)
    np.testing.assert_allclose(box, wanted, atol=1e-9)


# -- refusals -------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_planned_with_is_refused_in_a_sentence(world):
    cap = learnt(Torus(), 3)
    given = {"axes": (0, 1, 2), "noise_dims": 3, "compare_step": False}
    functions = plugins.drifting_step, plugins.hazard_only, push()
    with pytest.raises(CaptureError, match=r"no grid.*stratum="):
        fused_rollout(cap, *functions, plugins.disc_distance, **given)
    with pytest.raises(CaptureError, match="expected a function of 2 arguments"):
        fused_rollout(cap, *functions, plugin.stage_cost, **given, stratum=plugins.halves)
    with pytest.raises(CaptureError, match="steepness is -1"):
        fused_rollout(cap, *functions, plugins.disc_distance, **given, stratum=plugins.halves, steepness=-1)
    with pytest.raises(CaptureError, match="points is 0"):
        fused_rollout(cap, *functions, plugins.disc_distance, **given, stratum=plugins.halves, points=0)
    bare = learnt(FunctionMetric(plugins.straight), 3)
    with pytest.raises(CaptureError, match="axis_reach"):
        fused_rollout(bare, *functions, plugins.disc_distance, **given, stratum=plugins.halves)
    with pytest.raises(CaptureError, match=r"bool or signed distances, \(\d+,\)"):
        PythonRollout(cap, lambda s, a, rng: s, lambda stage: stage.hazard, lambda Y: Y, (0, 1, 2))(
            np.zeros(3), np.zeros((2, 1, 1)), 0
        )
    with pytest.raises(CaptureError, match=r"hazard is NaN at \d+ of \d+ configurations"):
        PythonRollout(cap, lambda s, a, rng: s, lambda stage: stage.hazard, lambda Y: np.nan * Y[:, 0], (0, 1, 2))(
            np.zeros(3), np.zeros((2, 1, 1)), 0
        )
    with pytest.raises(CaptureError, match="hazard raised ZeroDivisionError"):
        PythonRollout(cap, lambda s, a, rng: s, lambda stage: stage.hazard, lambda Y: 1 / 0, (0, 1, 2))(
            np.zeros(3), np.zeros((2, 1, 1)), 0
        )


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_threshold_without_end_is_refused():
    cap = learnt(Euclidean(), 2, OneGroup(), n=9)
    rollout = PythonRollout(cap, lambda s, a, rng: s, lambda stage: stage.hazard, disc, (0, 1), alpha=0.01)
    with pytest.raises(CaptureError, match=r"farthest="):
        rollout(np.zeros(2), np.zeros((2, 1, 1)), 0)
    functions = plugins.drifting_step, plugins.hazard_only, push(), plugins.on_disc
    compiled = fused_rollout(cap, *functions, (0, 1), 2, 0.01, stratum=plugins.halves, compare_step=False)
    with pytest.raises(CaptureError, match=r"farthest="):
        compiled(np.zeros(2), np.zeros((2, 1, 1)), 0)
