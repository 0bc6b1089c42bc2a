"""Statistics of first-step regions: compiled against every cell, one by one, and against the library's own regions."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from capture_cp import Capture, CaptureError, NearestParticles, OneGroup
from capture_cp.spaces.metrics import SE2
from capture_cp.tasks.peg.first_step import FirstStepRegions
from capture_cp.tasks.peg.objective import insertion_costs
from peg.calibrated import NAMES, PARTICLES, PLACES, TASK, calibrated, coarse, inputs, place


def particles_at(X, seed=0):
    return TASK.model(X, PARTICLES, np.random.default_rng(seed))


def members(cap, x, particles, poses, labels):
    """Which poses (r, 3) with strata (r,) a region at x (6,) holds, straight from the definitions: bool (r,)."""
    q = cap.thresholds(x[None], 0.1)[0][np.maximum(labels, 0)]
    if cap.score.__class__.__name__ == "ParticleBox":
        return (labels >= 0) & ((particles.min(axis=0) <= poses) & (poses <= particles.max(axis=0))).all(axis=1)
    if cap.score.__class__.__name__ == "Mahalanobis":
        mean, cov = TASK.gaussian(x[None])
        apart = poses - mean[0]
        return np.einsum("ri,ij,rj->r", apart, np.linalg.inv(cov[0]), apart) <= q**2
    distances = SE2(TASK.settings.radius).distance(poses[:, None], particles)
    return (labels >= 0) & (np.sort(distances, axis=1)[:, cap.score.k - 1] <= q)


def statistics(strata, poses, labels):
    """Mean cost, share outside the goal's stratum and mean share of differing bits of some poses."""
    feasible = labels[labels >= 0]
    hamming = (strata.features[feasible] != strata.features[strata.goal_stratum]).mean() if len(feasible) else 1.0
    return insertion_costs(poses, strata.settings).mean(), (labels != strata.goal_stratum).mean(), hamming


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_statistics_are_those_of_every_cell_looked_at_one_by_one(name, where):
    strata = coarse()
    grid, cap = strata.require_grid(), calibrated(name, strata)
    X = inputs(where, 2)
    particles = particles_at(X)
    found = FirstStepRegions(cap, strata)(X, particles)
    centres = grid.centre(np.arange(grid.size))
    for i in range(len(X)):
        inside = members(cap, X[i], particles[i], centres, strata.labels)
        poses, labels = centres[inside], strata.labels[inside]
        if not inside.any():
            poses = TASK.gaussian(X[i : i + 1])[0] if name == "lucca" else particles[i]
            labels = strata.index(poses)
        wanted = statistics(strata, poses, labels)
        assert found.cells[i] == len(poses)
        np.testing.assert_allclose([found.cost[i], found.outside[i], found.hamming[i]], wanted, atol=1e-6)


@pytest.mark.parametrize("where", ["air", "corner", "flat", "mouth"])
def test_infeasible_cells_of_an_ellipsoid_count_as_told(where):
    strata, cap, X = coarse(), calibrated("lucca", coarse()), inputs(where, 2)
    grid = strata.require_grid()
    centres = grid.centre(np.arange(grid.size))
    worst, nothing = (FirstStepRegions(cap, strata, infeasible=kind)(X, particles_at(X)) for kind in ("worst", "nothing"))
    for i in range(len(X)):
        inside = members(cap, X[i], None, centres, strata.labels)
        poses, labels = centres[inside], strata.labels[inside]
        cost, outside, hamming = statistics(strata, poses, labels)
        hamming = np.average([hamming, 1.0], weights=[(labels >= 0).sum(), (labels < 0).sum()])
        np.testing.assert_allclose([worst.cost[i], worst.outside[i], worst.hamming[i]], [cost, outside, hamming], atol=1e-6)
        wanted = statistics(strata, poses[labels >= 0], labels[labels >= 0])
        np.testing.assert_allclose([nothing.cost[i], nothing.outside[i], nothing.hamming[i]], wanted, atol=1e-6)


@pytest.mark.parametrize("where", ["corner", "mouth"])
@pytest.mark.parametrize("name", NAMES)
def test_cells_on_the_papers_grid_are_those_of_the_librarys_region(name, where):
    cap, X = calibrated(name), inputs(where, 2, seed=1)
    particles = particles_at(X)
    found = FirstStepRegions(cap, TASK.strata)(X, particles)
    for i, x in enumerate(X):
        region = cap.region(x, 0.1) if name == "lucca" else cap.region(x, 0.1, prediction=particles[i])
        cells = region.cells()
        wanted = statistics(TASK.strata, TASK.strata.grid.centre(cells), TASK.strata.labels[cells])
        assert found.cells[i] == len(cells) > 0
        np.testing.assert_allclose([found.cost[i], found.outside[i], found.hamming[i]], wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["particles", "lucca", "capture"])
def test_statistics_do_not_depend_on_threads(name):
    regions, X = FirstStepRegions(calibrated(name), TASK.strata), inputs("mouth", 16)
    particles, found = particles_at(X), []
    before = numba.get_num_threads()
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            found.append(regions(X, particles))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_a_sample_does_not_depend_on_the_others():
    regions, X = FirstStepRegions(calibrated(), TASK.strata), inputs("corner", 8)
    particles = particles_at(X)
    together = regions(X, particles)
    alone = [regions(X[i : i + 1], particles[i : i + 1]) for i in range(len(X))]
    np.testing.assert_array_equal(np.array(together), np.concatenate(alone, axis=1))


def test_region_at_the_goal_is_nearer_to_it_than_one_in_the_air():
    regions = FirstStepRegions(calibrated(), TASK.strata)
    stay = {where: np.hstack([place(where), np.zeros(3)])[None] for where in ("air", "bottom")}
    air, bottom = (regions(x, particles_at(x)) for x in stay.values())
    assert air.outside[0] == 1.0
    assert bottom.outside[0] < 0.9
    assert bottom.cost[0] < air.cost[0]
    assert bottom.hamming[0] < air.hamming[0]


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_infinite_thresholds_take_in_whole_strata():
    strata, X = coarse(), inputs("mouth", 2)
    few = TASK.model(X, 1, np.random.default_rng(0))[:, 0]
    cap = Capture(TASK, strata, NearestParticles(4, TASK.metric), OneGroup(), n_particles=PARTICLES).fit(X, few)
    found = FirstStepRegions(cap, strata)(X, particles_at(X))
    grid, feasible = strata.require_grid(), np.flatnonzero(strata.labels >= 0)
    wanted = statistics(strata, grid.centre(feasible), strata.labels[feasible])
    assert (found.cells == len(feasible)).all()
    np.testing.assert_allclose([found.cost[0], found.outside[0], found.hamming[0]], wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["particles", "capture"])
def test_regions_beyond_the_grid_are_stood_for_by_their_particles(name):
    x = np.array([[0.0, 0.058, 0.0, 0.0, 3.0, 0.0]])
    far = np.tile([0.0, 0.09, 0.0], (1, PARTICLES, 1))
    found = FirstStepRegions(calibrated(name), TASK.strata)(x, far)
    wanted = statistics(TASK.strata, far[0], TASK.strata.index(far[0]))
    np.testing.assert_allclose([found.cost[0], found.outside[0], found.hamming[0]], wanted, rtol=1e-12)


def test_bonuses_lower_the_cost_in_the_hole_only():
    for where, least in (("air", 0.0), ("bottom", 1.0)):
        x = np.hstack([place(where), np.zeros(3)])[None]
        plain, rewarded = (FirstStepRegions(calibrated(), TASK.strata, bonuses=b)(x, particles_at(x)) for b in (False, True))
        assert least <= plain.cost[0] - rewarded.cost[0] <= 2.0
        assert (plain.cost[0] == rewarded.cost[0]) == (where == "air")


def test_score_on_another_metric_is_refused():
    cap = replace_score(calibrated(), NearestParticles(4))
    with pytest.raises(CaptureError, match="SE2"):
        FirstStepRegions(cap, TASK.strata)


def replace_score(cap, score):
    X, Y = inputs("air", 50), particles_at(inputs("air", 50))[:, 0]
    return Capture(cap.model, cap.strata, score, OneGroup(), n_particles=PARTICLES).fit(X, Y)
