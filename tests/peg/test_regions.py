"""Regions in the peg's objective: their cells against every cell, one by one, and against the library's own regions."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, NearestParticles, OneGroup
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.sums import Seen
from capture_cp.spaces.poses import SE2
from capture_lab.tasks.peg import planner
from capture_lab.tasks.peg.planner import PegWeights, peg_rollout
from capture_lab.tasks.peg.task import Peg
from peg.calibrated import NAMES, PARTICLES, PLACES, TASK, calibrated, coarse, inputs, place
from peg.inputs import insertion_costs
from peg.telling import telling

SEED = 5


def coarse_task():
    task = Peg()
    task.__dict__["strata"] = coarse()
    return task


def regions(rollout, X):
    """Cells by stratum (n, M + 1) and summed costs (n,) of the regions of inputs X (n, 6), which share their pose."""
    strata = len(rollout.thresholds)
    found = rollout(X[0, :3], np.repeat(X[:, None, 3:], strata + 2, axis=1), SEED)
    return found[:, :-1].astype(int), found[:, -1]


def clouds(X):
    """Particles (n, L, 3) of inputs X (n, 6), under the rollout's noise."""
    noise = np.empty((len(X), PARTICLES, 3))
    for i in range(len(X)):
        key = np.uint64(stream(np.uint64(SEED), i))
        for l in range(PARTICLES):
            noise[i, l] = *normal_pair(key, 2 * l), normal_pair(key, 2 * l + 1)[0]
    return TASK.model.step(X, noise)


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


def by_stratum(labels, strata):
    return [int((labels == m).sum()) for m in (*range(strata), -1)]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_cells_are_those_found_by_looking_at_every_cell(name, where):
    task, cap, X = coarse_task(), calibrated(name, coarse()), inputs(where, 2)
    grid, strata = coarse().require_grid(), coarse()
    cells, sums = regions(telling(cap, task), X)
    centres, particles = grid.centre(np.arange(grid.size)), clouds(X)
    for i in range(len(X)):
        inside = members(cap, X[i], particles[i], centres, strata.labels)
        poses, labels = centres[inside], strata.labels[inside]
        if not inside.any():
            poses = TASK.gaussian(X[i : i + 1])[0] if name == "lucca" else particles[i]
            labels = strata.index(poses)
        assert cells[i].tolist() == by_stratum(labels, len(strata.names))
        assert sums[i] == pytest.approx(insertion_costs(poses, strata.settings).sum(), rel=1e-6)


@pytest.mark.parametrize("where", ["corner", "mouth"])
@pytest.mark.parametrize("name", NAMES)
def test_cells_on_the_papers_grid_are_those_of_the_librarys_region(name, where):
    cap, X = calibrated(name), inputs(where, 2, seed=1)
    found, _ = regions(telling(cap, TASK), X)
    particles = clouds(X)
    for i, x in enumerate(X):
        region = cap.region(x, 0.1) if name == "lucca" else cap.region(x, 0.1, prediction=particles[i])
        labels = TASK.strata.labels[region.cells()]
        assert found[i].tolist() == by_stratum(labels, len(TASK.strata.names))
        assert found[i].sum() > 0


@pytest.mark.parametrize("where", ["air", "corner", "flat", "mouth"])
def test_infeasible_cells_of_an_ellipsoid_may_count_as_nothing(where):
    cap, X, task = calibrated("lucca", coarse()), inputs(where, 2), coarse_task()
    every, some = (regions(telling(cap, task, PegWeights(infeasible=kind)), X)[0] for kind in ("outside", "nothing"))
    held = some[:, :-1].any(axis=1)  # elsewhere the mean stands for the region
    np.testing.assert_array_equal(every[held, :-1], some[held, :-1])
    assert not some[held, -1].any()


def test_statistics_of_a_region():
    task = coarse_task()
    strata, goal = coarse(), coarse().goal_stratum
    cells = np.arange(1, len(strata.names) + 2)[None]
    seen, feasible = Seen(np.zeros(1), cells, np.array([-3.0])), cells[0, :-1]
    differ = (strata.features != strata.features[goal]).mean(axis=1)
    for kind, hamming in (
        ("outside", np.average(differ, weights=feasible)),
        ("worst", np.average(np.append(differ, 1.0), weights=cells[0])),
    ):
        found = planner._region_terms(seen, 0, planner._params(task, PegWeights(infeasible=kind)))
        np.testing.assert_allclose(found, (-3.0 / cells.sum(), 1 - cells[0, goal] / cells.sum(), hamming), rtol=1e-12)
    nowhere = Seen(np.zeros(1), np.append(np.zeros_like(feasible), 2)[None], np.array([-3.0]))
    assert planner._region_terms(nowhere, 0, planner._params(task, PegWeights())) == (-1.5, 1.0, 1.0)


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_infinite_thresholds_take_in_whole_strata():
    strata, X, task = coarse(), inputs("mouth", 2), coarse_task()
    few = TASK.model(X, 1, np.random.default_rng(0))[:, 0]
    cap = Capture(TASK, strata, NearestParticles(4, TASK.metric), OneGroup(), n_particles=PARTICLES).fit(X, few)
    cells, sums = regions(telling(cap, task), X)
    feasible = np.flatnonzero(strata.labels >= 0)
    assert cells[0].tolist() == [*strata.sizes, 0]
    costs = insertion_costs(strata.require_grid().centre(feasible), strata.settings)
    assert sums[0] == pytest.approx(costs.sum(), rel=1e-6)


@pytest.mark.parametrize("name", ["particles", "capture"])
def test_regions_without_a_cell_are_stood_for_by_their_particles(name):
    X, rollout = inputs("corner", 3), telling(calibrated(name), TASK)
    rollout.thresholds = np.full_like(rollout.thresholds, -1.0)
    cells, sums = regions(rollout, X)
    for found, total, poses in zip(cells, sums, clouds(X)):
        assert found.tolist() == by_stratum(TASK.strata.index(poses), len(TASK.strata.names))
        assert total == pytest.approx(insertion_costs(poses, TASK.settings).sum(), rel=1e-12)


def test_bonuses_lower_the_cost_in_the_hole_only():
    for where, least in (("air", 0.0), ("bottom", 1.0)):
        x = np.hstack([place(where), np.zeros(3)])[None]
        (cells, plain), (_, more) = (regions(telling(calibrated(), TASK, PegWeights(bonuses=b)), x) for b in (False, True))
        assert least <= (plain[0] - more[0]) / cells[0].sum() <= 2.0
        assert (plain[0] == more[0]) == (where == "air")


def test_unknown_ways_to_count_infeasible_cells_are_refused():
    with pytest.raises(CaptureError, match="unknown infeasible"):
        peg_rollout(calibrated(), TASK, weights=PegWeights(infeasible="best"))
