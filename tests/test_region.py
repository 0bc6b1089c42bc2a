"""Prediction regions: members, cells, volumes, samples, pictures, words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import (
    SE2,
    Capture,
    CaptureError,
    Euclidean,
    FunctionStrata,
    Grid,
    GridStrata,
    NearestParticles,
    OneGroup,
    Product,
    Region,
    Score,
    Torus,
)
from capture_cp.base import streams
from capture_cp.capture.region import cells_of

WALLS = np.array([[0, 0, 0, 0, -1]] * 3 + [[1, 1, 1, 1, -1]])


@pytest.fixture
def strata():
    """Four by five cells: free rows, an edge row at the end, and a solid last column."""
    return GridStrata(Grid((0.0, 0.0), 1.0, (4, 5)), WALLS, ["free", "edge"])


def make(strata, thresholds, particles=((1.0, 1.0),), k=1, ambient=False):
    prediction = np.array(particles, float)[None]
    return Region(NearestParticles(k), prediction, np.array(thresholds, float), strata, 2, 0.1, ambient)


def test_each_stratum_has_a_threshold_of_its_own(strata):
    region = make(strata, [1.0, 2.0])
    assert region.cells("free").tolist() == [1, 5, 6, 7, 11]
    assert region.cells("edge").tolist() == [16]
    assert region.cells().tolist() == [1, 5, 6, 7, 11, 16]
    assert region.contains([[1.0, 2.0], [1.0, 2.1], [3.0, 1.0], [3.0, 1.1]]).tolist() == [True, False, True, False]
    assert region.contains([1.0, 1.0]).tolist() == [True]
    assert [1.0, 1.0] in region
    assert [1.0, 3.1] not in region
    assert region.contains(np.empty((0, 2))).tolist() == []


def test_an_infinite_threshold_takes_in_the_whole_stratum_and_no_solid_cell(strata):
    region = make(strata, [np.inf, 0.0])
    assert np.array_equal(region.cells("free"), strata.cells("free"))
    assert len(region.cells("edge")) == 0
    assert not region.contains([[0.0, 4.0], [50.0, 50.0]]).any()
    nothing = make(strata, [-1.0, -1.0])
    assert len(nothing.cells()) == 0
    assert [1.0, 1.0] not in nothing


def test_an_ambient_region_ignores_feasibility(strata):
    region = make(strata, [1.0, 1.0], particles=((1.0, 3.0),), ambient=True)
    assert 9 in region.cells()  # the solid cell (1, 4)
    assert [1.0, 4.0] in region
    assert region.volumes() == {"free": 4.0, "edge": 0.0, "infeasible": 1.0}
    assert len(make(strata, [np.inf, np.inf], ambient=True).cells()) == 20


@pytest.mark.parametrize("periodic", [(), (1,)])
@pytest.mark.parametrize("ambient", [False, True])
def test_cells_found_together_are_those_of_each_region(periodic, ambient):
    rng = np.random.default_rng(3)
    grid = Grid((0.0, -np.pi), (0.5, np.pi / 6), (9, 12), periodic)
    strata = GridStrata(grid, rng.integers(-1, 2, (9, 12)), ["free", "edge"])
    metric = Product((Euclidean(), Torus()), (1, 1)) if periodic else None
    prediction = np.stack([rng.uniform(0, 4, (20, 3)), rng.uniform(-np.pi, np.pi, (20, 3))], axis=2)
    thresholds = rng.choice([-1.0, 0.0, 0.4, 1.5, np.inf], (20, 2))
    score, centres, labels = NearestParticles(2, metric), grid.centre(np.arange(grid.size)), strata.labels.astype(int)
    found = cells_of(score, prediction, thresholds, strata, ambient)
    for cells, cloud, q in zip(found, prediction, thresholds):
        region = Region(score, cloud[None], q, strata, 2, 0.1, ambient)
        np.testing.assert_array_equal(cells, np.flatnonzero(region.within(centres, labels)))
        np.testing.assert_array_equal(cells, region.cells())


def test_regions_of_several_inputs_are_those_of_each(each_method, fresh):
    X, Y = fresh.X[:5], fresh.Y[:5]
    prediction = each_method.predict(X, 0)
    for i, region in enumerate(each_method.regions(X, 0.2, prediction=prediction)):
        alone = each_method.region(X[i], 0.2, prediction=prediction[i : i + 1])
        np.testing.assert_array_equal(region.cells(), alone.cells())
        np.testing.assert_array_equal(region.contains(Y), alone.contains(Y))


def test_the_kth_neighbour_decides(strata):
    particles = [(1.0, 1.0), (1.0, 1.0), (2.0, 1.0)]
    assert make(strata, [0.5, 0.5], particles, k=2).cells().tolist() == [6]
    assert make(strata, [1.0, 1.0], particles, k=3).cells().tolist() == [6, 11]


def test_volume_counts_cells_of_the_right_size():
    fine = GridStrata(Grid((0.0, 0.0), (0.5, 0.25), (4, 5)), WALLS, ["free", "edge"])
    region = make(fine, [np.inf, 0.0])
    assert region.volume() == region.volume("free") == pytest.approx(12 * 0.125)
    assert region.volumes() == {"free": pytest.approx(1.5), "edge": 0.0}


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_regions_in_se2_have_exactly_the_cells_that_pass(seed, closed):
    """Angles near ±π and beyond them, on a grid that closes and on one that does not."""
    rng = np.random.default_rng(seed)
    grid = Grid((0.0, 0.0, -math.pi), (0.4, 0.4, math.pi / 6), (4, 4, 12 if closed else 13), (2,) if closed else ())
    strata = GridStrata(grid, rng.integers(-1, 2, grid.size), ["a", "b"])
    particles = rng.normal(size=(1, 4, 3)) * 0.3 + [0.6, 0.6, rng.choice([-math.pi, 0.0, math.pi, 7.0])]
    q = rng.choice([0.2, 0.5, 0.9], size=2)
    metric, k = SE2(rng.choice([0.3, 1.0])), int(rng.integers(1, 5))
    region = Region(NearestParticles(k, metric), particles, q, strata, 3, 0.1, False)
    scores = np.sort(metric.distance(grid.centre(np.arange(grid.size))[:, None], particles), axis=1)[:, k - 1]
    limits = np.where(strata.labels < 0, -1.0, q[strata.labels])
    sure = np.abs(scores - limits) > 1e-9  # the kernel may round the other way
    found = np.isin(np.arange(grid.size), region.cells())
    assert np.array_equal(found[sure], (scores <= limits)[sure])
    counts = NearestParticles(k, metric).count_cells(particles, np.append(q, -1.0)[None], strata)[0]
    assert counts.tolist() == [len(region.cells("a")), len(region.cells("b")), 0]


def test_samples_spread_over_every_cell(strata):
    region = make(strata, [1.5, 2.5])
    Y = region.sample(4000, np.random.default_rng(0))
    counts = np.bincount(strata.grid.cell(Y), minlength=20)[region.cells()]
    assert region.contains(Y).all()
    assert counts.min() > 0.6 * 4000 / len(counts)
    again, other = (region.sample(4000, np.random.default_rng(seed)) for seed in (0, 1))
    assert np.array_equal(Y, again)
    assert not np.array_equal(Y, other)


def test_an_empty_region_has_no_samples(strata):
    region = make(strata, [0.1, 0.1], particles=((1.5, 1.5),))
    assert region.sample(0, np.random.default_rng(0)).shape == (0, 2)
    with pytest.raises(CaptureError, match="no cells to sample from: it is empty, or smaller than a cell"):
        region.sample(1, np.random.default_rng(0))
    with pytest.raises(CaptureError, match="n is -1; expected a whole number of at least 0"):
        region.sample(-1, np.random.default_rng(0))


def test_repr_tells_cells_and_thresholds(strata):
    assert repr(make(strata, [1.0, np.inf])) == "Region(alpha=0.1: free 5 cells, within 1; edge 4 cells, whole stratum)"


def test_without_a_grid_there_are_thresholds_and_no_cells():
    region = make(FunctionStrata(lambda Y: np.zeros(len(Y), int), ["all"]), [0.25])
    assert repr(region) == "Region(alpha=0.1: all within 0.25)"
    assert [1.0, 1.1] in region
    with pytest.raises(CaptureError, match="cells of a region need strata with a grid; use GridStrata"):
        region.cells()


@pytest.mark.parametrize("Y", ["x", [[1.0, 2.0], [3.0]], None, [[1.0, math.nan]], [[1.0]], np.zeros((1, 1, 2)), 1.0])
def test_membership_of_something_else_is_an_error(strata, Y):
    with pytest.raises(CaptureError):
        make(strata, [1.0, 1.0]).contains(Y)
    with pytest.raises(CaptureError):
        _ = Y in make(strata, [1.0, 1.0])


class SumOfSteps(Score):
    """Only `score` is written: cells, counts and membership must follow from it."""

    def score(self, prediction, Y):
        return np.abs(Y - prediction[:, 0]).sum(axis=1)


def test_a_score_of_the_users_own_needs_one_method(world, fresh):
    cap = Capture(world.box, world.box.strata, score=SumOfSteps(), groups=OneGroup(), n_particles=2)
    cap.fit(world.X, world.Y, prediction=world.particles[:, :2])
    prediction = fresh.particles[:5, :2]
    grid, labels = fresh.box.strata.grid, fresh.box.strata.labels
    q = cap.thresholds(fresh.X[:1], 0.2)[0, 0]
    counts = cap.count_cells(fresh.X[:5], 0.2, prediction=prediction)
    for i in range(5):
        region = cap.region(fresh.X[i], 0.2, prediction=prediction[i])
        passes = np.abs(grid.centre(np.arange(grid.size)) - prediction[i, 0]).sum(axis=1) <= q
        assert np.array_equal(region.cells(), np.flatnonzero(passes & (labels >= 0)))
        assert counts[i].sum() == len(region.cells())
        assert cap.contains(fresh.X[i : i + 1], fresh.Y[i : i + 1], 0.2, prediction=prediction[i : i + 1])[0] == (
            fresh.Y[i] in region
        )


def test_region_asks_the_model_when_no_particles_are_given(fitted, fresh):
    cap = fitted["capture"]
    one, two = cap.region(fresh.X[0], 0.2, rng=5), cap.region(fresh.X[0], 0.2, rng=5)
    assert np.array_equal(one.prediction, two.prediction)
    assert np.array_equal(
        one.prediction, cap.predict(fresh.X[:1], np.random.default_rng(streams.seed_sequence(5, "question")))
    )
    for other in (cap.region(fresh.X[0], 0.2), cap.region(fresh.X[0], 0.2, rng=6)):  # equal inputs get new particles
        assert not np.array_equal(one.prediction, other.prediction)
    with pytest.raises(CaptureError, match="rng, if not a generator, is 'seven'; expected a whole number"):
        cap.region(fresh.X[0], 0.2, rng="seven")
