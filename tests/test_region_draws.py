"""Regions without a grid: volumes, samples, distances and extents from random configurations, against known ones."""

from functools import cache

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
    Grid,
    Mahalanobis,
    NearestParticles,
    OneGroup,
    Product,
    Torus,
    method,
)
from capture_cp.capture.region import Region
from capture_cp.spaces.strata import one_stratum
from capture_lab.tasks.box import Box

BOX = Box()
LOG = BOX.transitions(6000, np.random.default_rng(0))


class Gridless:
    """The strata of the box as anyone may write them: names and an index."""

    names = BOX.strata.names

    def index(self, Y):
        return BOX.strata.index(Y)


@cache
def calibrated(name):
    return method(name, BOX, BOX.strata).fit(LOG.X, LOG.Y)


def pair(name, x, seed=0):
    """The same region with and without a grid."""
    with_grid = calibrated(name).region(x, rng=seed)
    bare = Region(with_grid.score, with_grid.prediction, with_grid.thresholds, Gridless(), 2, 0.1, with_grid.ambient)
    return with_grid, bare


@cache
def across_strata():
    """A region with parts in several strata."""
    found = (pair("capture", x) for x in BOX.inputs(200, np.random.default_rng(2)))
    return next(both for both in found if sum(volume > 0 for volume in both[0].volumes().values()) > 1)


def test_a_sample_of_one_stratum_stays_there():
    with_grid, bare = across_strata()
    name = next(name for name in reversed(BOX.strata.names) if with_grid.volume(name))
    Y = bare.sample(50, rng=0, stratum=name)
    assert {BOX.strata.names[m] for m in BOX.strata.index(Y)} == {name}
    assert 0 < bare.acceptance(name) <= 1


def ball(metric, dims, q, k=1, particles=None, strata=None):
    particles = np.zeros((1, 1, dims)) if particles is None else np.asarray(particles, float)
    strata = one_stratum() if strata is None else strata
    return Region(NearestParticles(k, metric), particles, np.full(len(strata.names), q), strata, dims, 0.1, False)


@pytest.mark.parametrize(
    ("metric", "dims", "q", "wanted"),
    [
        (Euclidean(), 6, 0.5, np.pi**3 / 6 * 0.5**6),
        (Euclidean((1.0, 2.0)), 2, 0.5, np.pi * 0.25 / 2),
        (Torus(), 3, 0.5, 4 / 3 * np.pi * 0.5**3),
        (Torus(), 1, 9.0, 2 * np.pi),
        (Torus(), 2, 9.0, 4 * np.pi**2),
        (SE2(1.0), 3, 0.01, 4 / 3 * np.pi * 0.01**3),
        (Product((Euclidean(), Torus()), (2, 1), weights=(1.0, 2.0)), 3, 0.5, 4 / 3 * np.pi * 0.5**3 / 2),
    ],
)
def test_volumes_of_balls(metric, dims, q, wanted):
    found = ball(metric, dims, q).volume(draws=200_000, rng=0)
    assert found == pytest.approx(wanted, abs=5 * found.standard_error + 1e-4 * wanted)


def test_ellipsoids_of_lucca_have_their_volume():
    score, cov = Mahalanobis(), np.diag([0.04, 0.01])
    gaussian = score.checked((np.zeros((1, 2)), cov[None]), 1, 1, 2)
    found = Region(score, gaussian, np.array([2.0]), one_stratum(), 2, 0.1, True).volume(rng=0)
    assert found == pytest.approx(4 * np.pi * 0.2 * 0.1, abs=5 * found.standard_error + 1e-9)


def test_all_rotations_have_their_volume():
    """Haar measure in which small rotations have the volume of their vectors: 8π² for all of them."""
    pose = np.array([[[0.0, 0, 0, 1, 0, 0, 0]]])
    tiny = ball(SE3(1.0), 7, 0.01, particles=pose).volume(draws=200_000, rng=0)
    assert tiny == pytest.approx(np.pi**3 / 6 * 0.01**6, abs=5 * tiny.standard_error)
    Y, _, volume = SE3(1e-3).around(np.repeat(pose[0], 20_000, axis=0), 1.0, np.random.default_rng(0))
    assert volume == pytest.approx(4 / 3 * np.pi * 8 * np.pi**2)
    np.testing.assert_allclose(np.linalg.norm(Y[:, 3:], axis=1), 1.0)
    np.testing.assert_allclose((Y[:, 3:] ** 2).mean(axis=0), 0.25, atol=0.01)  # uniform on the sphere of quaternions


def test_overlapping_particles_are_counted_once():
    particles = np.array([[[0.0, 0.0], [0.1, 0.0], [5.0, 0.0]]])
    found = ball(Euclidean(), 2, 1.0, particles=particles).volume(draws=200_000, rng=0)
    lens = 2 * np.arccos(0.05) - 0.1 * np.sqrt(1 - 0.05**2)
    assert found == pytest.approx(3 * np.pi - lens, abs=5 * found.standard_error)
    both = ball(Euclidean(), 2, 1.0, k=2, particles=particles).volume(draws=200_000, rng=0)
    assert both == pytest.approx(lens, abs=5 * both.standard_error)


def layer(thickness):
    """A ball of radius 0.5 in a room whose floor, at a height of -0.1, touches up to a thickness; infeasible below."""
    strata = FunctionStrata(
        lambda Y: np.where(Y[:, 0] < -0.1, -1, np.where(Y[:, 0] <= thickness - 0.1, 1, 0)), ["free", "floor"]
    )
    return Region(NearestParticles(1), np.zeros((1, 1, 2)), np.array([0.5, 0.5]), strata, 2, 0.1, False)


def test_thin_parts_have_volumes_with_errors_and_samples():
    region, wanted = layer(1e-3), 2 * np.sqrt(0.25 - 0.01) * 1e-3
    found = region.volume("floor", draws=200_000, rng=0)
    assert found == pytest.approx(wanted, abs=4 * found.standard_error)
    assert found.standard_error < 0.1 * found
    assert region.acceptance("floor", draws=200_000, rng=0) == pytest.approx(wanted / (np.pi * 0.25), rel=0.3)
    Y = region.sample(100, rng=0, stratum="floor")
    assert (region.strata.index(Y) == 1).all()


def test_a_part_that_no_draw_finds_has_an_error_and_no_sample():
    region = layer(1e-9)
    found = region.volume("floor", draws=1000, rng=0)
    assert found == 0
    assert found.standard_error == pytest.approx(np.pi * 0.25 / 1000)
    with pytest.raises(CaptureError, match="cannot be sampled: only 0 of the configurations"):
        region.sample(1, rng=0, stratum="floor")


def test_a_small_part_beside_a_wide_threshold_is_sampled_by_volume():
    """The floor's threshold is so wide that draws from all parts together are nearly all outside the region."""
    region = layer(0.0)
    region.thresholds = np.array([0.05, 20.0])
    Y = region.sample(200, rng=0)
    assert region.contains(Y).all()
    assert (np.linalg.norm(Y, axis=1) <= 0.05).all()


def test_a_bounding_box_holds_the_region():
    _, bare = pair("capture", BOX.inputs(1, np.random.default_rng(3))[0])
    low, high = bare.bounding_box()
    Y = bare.sample(500, rng=0)
    assert ((low <= Y) & (high >= Y)).all()


def test_an_infinite_part_has_no_volume_without_a_grid():
    strata = FunctionStrata(lambda Y: np.zeros(len(Y), dtype=int), ["all"])
    cap = Capture(BOX.model, strata, groups=OneGroup()).fit(LOG.X[:5], LOG.Y[:5])
    with pytest.warns(match="too few"), pytest.raises(CaptureError, match="includes all of all"):
        cap.region(LOG.X[0]).volume()


# -- distance and extent ---------------------------------------------------------------------------------------------------


def halves(grid=None):
    """Free to the right of x = 0.2, infeasible to the left; a thin layer between."""

    def labels(Y):
        return np.where(Y[:, 0] < 0.2, -1, np.where(Y[:, 0] <= 0.201, 1, 0))

    return FunctionStrata(labels, ["free", "wall"], grid=grid)


@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_distance_to_a_ball_is_exact(dims):
    rng = np.random.default_rng(0)
    Y = rng.uniform(-2, 2, (50, dims))
    np.testing.assert_allclose(
        ball(None, dims, 0.5).distance(Y, rng=0), np.maximum(np.linalg.norm(Y, axis=1) - 0.5, 0), atol=1e-4
    )


def test_angles_are_measured_the_short_way_round():
    region = ball(Torus(), 1, 0.5, particles=[[[3.0]]])
    np.testing.assert_allclose(region.distance([[-3.0], [-2.5], [0.0]], rng=0), [0.0, 2 * np.pi - 6.0, 2.5], atol=1e-4)


def test_strata_keep_away():
    """Nearest is the wall's edge, not the infeasible side."""
    found = ball(None, 2, 0.5, strata=halves()).distance([[-1.0, 0.0], [-1.0, 0.6]], rng=0)
    corner = np.hypot(1.2, 0.6 - np.sqrt(0.25 - 0.04))
    np.testing.assert_allclose(found, [1.2, corner], rtol=0.03)
    assert (found >= [1.2 - 1e-9, corner - 1e-9]).all()  # upper bounds


def test_on_a_grid_the_distance_is_that_of_centres():
    strata = halves(Grid.between((-1.0, -1.0), (1.0, 1.0), 0.05))
    region = ball(None, 2, 0.5, strata=strata)
    Y = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    centres = strata.grid.centre(region.cells())
    wanted = np.where(region.contains(Y), 0, np.linalg.norm(Y[:, None] - centres, axis=2).min(axis=1))
    np.testing.assert_allclose(region.distance(Y), wanted)
    assert ball(None, 2, -1.0, strata=strata).distance([[0.0, 0.0]]) == np.inf


def test_other_scores_and_poses_in_space_have_distances():
    score = Mahalanobis()
    gaussian = score.checked((np.zeros((1, 2)), np.eye(2)[None]), 1, 1, 2)
    region = Region(score, gaussian, np.array([0.5]), one_stratum(), 2, 0.1, True)
    np.testing.assert_allclose(region.distance([[2.0, 0.0]], rng=0), [1.5], atol=1e-4)
    pose = np.array([[[0.0, 0, 0, 1, 0, 0, 0]]])
    away = pose[0] + [[1.0, 0, 0, 0, 0, 0, 0]]
    np.testing.assert_allclose(ball(SE3(1.0), 7, 0.3, particles=pose).distance(away, rng=0), [0.7], atol=1e-4)


@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_a_ball_reaches_as_far_as_its_radius(dims):
    direction = np.random.default_rng(dims).standard_normal(dims)
    found = ball(None, dims, 0.5).support(direction, rng=0)
    most = 0.5 * np.linalg.norm(direction)
    assert found <= most + 1e-9
    assert found == pytest.approx(most, rel=0.01)


def test_it_reaches_into_thin_strata():
    region = ball(None, 2, 0.5, strata=halves())
    assert region.support((-1.0, 0.0), rng=0) == pytest.approx(-0.2, abs=0.002)
    assert region.support((0.0, 1.0), rng=0) == pytest.approx(np.sqrt(0.25 - 0.04), rel=0.02)
    assert region.support((1.0, 0.0), rng=0) == pytest.approx(0.5, rel=0.01)


def test_on_a_grid_the_largest_centre_counts():
    strata = halves(Grid.between((-1.0, -1.0), (1.0, 1.0), 0.05))
    region = ball(None, 2, 0.5, strata=strata)
    assert region.support((1.0, 0.0)) == pytest.approx(0.5)
    with pytest.raises(CaptureError, match="has no support"):
        ball(None, 2, -1.0, strata=strata).support((1.0, 0.0))


def test_angles_are_taken_about_the_particles():
    region = ball(Torus(), 1, 0.5, particles=[[[3.1]]])
    assert region.support((1.0,), rng=0) == pytest.approx(3.6, rel=0.01)
    assert region.support((-1.0,), rng=0) == pytest.approx(-2.6, rel=0.01)


@pytest.mark.parametrize("direction", [(0.0, 0.0), (1.0,), "up", (np.nan, 1.0)])
def test_a_direction_that_is_none_is_refused(direction):
    with pytest.raises(CaptureError, match="direction"):
        ball(None, 2, 0.5).support(direction)


# -- a bound on what is possible ---------------------------------------------------------------------------------------


def test_infinite_pieces_end_at_the_farthest_that_is_possible(tmp_path):
    strata = FunctionStrata(lambda Y: np.zeros(len(Y), dtype=int), ["all"])
    cap = Capture(BOX.model, strata, groups=OneGroup(), farthest=0.4).fit(LOG.X[:5], LOG.Y[:5])
    region = cap.region(LOG.X[0], rng=0)
    assert region.thresholds == [0.4]
    assert 0 < region.volume(rng=0) < 1
    cap.save(tmp_path / "a.capture")
    loaded = Capture.load(tmp_path / "a.capture", model=BOX.model, strata=strata)
    assert loaded.farthest == 0.4
    assert loaded.thresholds(LOG.X[:2]).max() == 0.4


def test_a_bound_that_the_log_breaks_is_refused():
    with pytest.raises(CaptureError, match=r"farthest is 0\.001, but \d+ of \d+ transitions have larger scores, up to"):
        Capture(BOX.model, BOX.strata, farthest=0.001).fit(LOG.X, LOG.Y)
    with pytest.raises(CaptureError, match="farthest is -1"):
        Capture(BOX.model, BOX.strata, farthest=-1).fit(LOG.X, LOG.Y)


# -- guarantees -----------------------------------------------------------------------------------------------------------

NAMES = ["free", "edge", "corner"]


def contact(Y):
    """How many of the first two walls, at x = 0 and y = 0, are touched; -1 within them."""
    touching = (Y[:, :2] < 0.1).sum(axis=1)
    return np.where((Y[:, :2] < 0).any(axis=1), -1, touching)


def with_grid(dims):
    low, spacing = -0.2, {2: 0.002, 3: 0.01}[dims]
    cells = round(1.2 / spacing)
    return FunctionStrata(contact, NAMES, grid=Grid([low + spacing / 2] * dims, spacing, [cells] * dims))


def regions(dims, tries, seed):
    """Regions of random particles near the corner, on strata with a grid and on the same without: pairs."""
    rng, gridded, bare = np.random.default_rng(seed), with_grid(dims), FunctionStrata(contact, NAMES)
    for _ in range(tries):
        particles = rng.uniform(0.0, 0.35, dims) + rng.normal(0, 0.06, (1, 8, dims))
        score, q = NearestParticles(int(rng.integers(1, 5))), rng.uniform(0.1, 0.18, 3)
        yield [Region(score, particles, q, strata, dims, 0.1, False) for strata in (gridded, bare)]


@pytest.mark.parametrize(("dims", "tries"), [(2, 300), (3, 200)])
def test_intervals_hold_the_volume_about_as_often_as_they_say(dims, tries):
    """95% intervals; the grid is fine: its own error is a small part of the standard errors."""
    held = {name: [] for name in (None, *NAMES)}
    for number, (gridded, bare) in enumerate(regions(dims, tries, dims)):
        for name, outcomes in held.items():
            counted, found = gridded.volume(name), bare.volume(name, draws=1000, rng=number)
            if counted > 0.1 * gridded.volume():  # of less, a thousand draws find too few for a normal error
                outcomes.append(abs(found - counted) <= 1.96 * found.standard_error)
    for name, outcomes in held.items():
        low, high = stats.binom.ppf([1e-4, 1 - 1e-4], len(outcomes), 0.95)
        assert len(outcomes) > 30, name
        assert low <= sum(outcomes) <= high, name


@pytest.mark.parametrize("dims", [2, 3])
def test_samples_are_uniform_over_the_cells(dims):
    """Chi-square against the volumes that the grid counts in coarse cells, over all strata at once."""
    pvalues = []
    for number, (gridded, bare) in enumerate(regions(dims, 6, 10 + dims)):
        Y, centres = bare.sample(3000, rng=number), gridded.strata.grid.centre(gridded.cells())
        assert bare.contains(Y).all()
        pvalues.append(_uniformity(Y, centres))
    assert min(pvalues) > 1e-4


def _uniformity(Y, centres):
    low = centres.min(axis=0)
    wide = (np.ptp(centres, axis=0) + 1e-9) / 4
    shape = (4,) * Y.shape[1]
    expected, counts = (
        np.bincount(
            np.ravel_multi_index(tuple(np.clip((X - low) / wide, 0, 3).astype(int).T), shape), minlength=4 ** len(wide)
        )
        for X in (centres, Y)
    )
    big = expected * len(Y) / len(centres) > 5
    return stats.chisquare(counts[big], expected[big] * counts[big].sum() / expected[big].sum()).pvalue
