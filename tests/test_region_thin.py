"""Thin parts of regions without a grid: volumes with honest errors and uniform samples from few questions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from capture_cp import SE2, SE3, CaptureError, Euclidean, FunctionStrata, Mahalanobis, NearestParticles, Product, Torus
from capture_cp.capture.region import Region
from capture_cp.capture.region_thin import plain_angles
from capture_cp.spaces.metrics import in_ball, wrap_angle

Q = 0.5


class Layer(FunctionStrata):
    """A layer on a surface: "wall" where a height is between 0 and `thickness`, free above, infeasible below."""

    def __init__(self, height, project, thickness):
        self.height, self.onto, self.thickness, self.asked = height, project, thickness, 0
        super().__init__(self.labels_of, ["free", "wall"])

    def labels_of(self, Y):
        self.asked += len(Y)
        height = self.height(Y)
        return np.where(height < 0, -1, np.where(height <= self.thickness, 1, 0))

    def project(self, Y, m):
        return self.onto(Y) if m == 1 else Y


def flat(share, dims, at=0.1):
    """A flat layer at x = -at that is about this share of a ball of radius Q."""
    whole = in_ball(0, dims, Q, np.random.default_rng(0))[1]
    thickness = share * whole / slab(dims, at, 1e-6) * 1e-6

    def project(Y):
        Y[:, 0] = -at
        return Y

    return Layer(lambda Y: Y[:, 0] + at, project, thickness), slab(dims, at, thickness)


def slab(dims, at, thickness):
    """Volume of the ball's slice between -at and -at + thickness."""

    def section(x):
        return in_ball(0, dims - 1, np.sqrt(Q**2 - x**2), np.random.default_rng(0))[1]

    return integrate.quad(section, -at, -at + thickness)[0]


def round_layer(share, dims):
    """A layer on the outside of a sphere that a ball of radius Q is centred on; its volume by very many draws."""
    radius = 0.8
    centre = -radius * np.eye(dims)[0]

    def height(Y):
        return np.linalg.norm(Y - centre, axis=1) - radius

    def project(Y):
        away = Y - centre
        return centre + away / np.linalg.norm(away, axis=1, keepdims=True) * radius * (1 + 1e-12)

    Y, whole = in_ball(2_000_000, dims, Q, np.random.default_rng(0))
    heights = np.sort(height(Y))
    above = heights[heights >= 0]
    thickness = above[int(share * len(Y))]
    # the same, more exactly: heights near the surface are spread evenly
    wide = 20 * thickness
    return Layer(height, project, thickness), whole * (above <= wide).mean() * len(above) / len(Y) * thickness / wide


def region_of(strata, dims, metric=None, particles=None):
    particles = np.zeros((1, 1, dims)) if particles is None else particles
    return Region(NearestParticles(1, metric), particles, np.array([Q, Q]), strata, dims, 0.1, False)


@pytest.mark.parametrize(("make", "dims"), [(flat, 2), (flat, 3), (flat, 6), (round_layer, 2), (round_layer, 3)])
def test_one_part_in_a_thousand_is_measured_within_fifteen_per_cent_from_ten_thousand_questions(make, dims):
    strata, wanted = make(1e-3, dims)
    region = region_of(strata, dims)
    found = region.volume("wall", rng=0)
    assert strata.asked <= 10_500
    assert found.standard_error < 0.15 * found
    assert found == pytest.approx(wanted, abs=4 * found.standard_error + 0.03 * (make is round_layer) * wanted)
    assert region.acceptance("wall", draws=100_000, rng=0) == pytest.approx(1e-3, rel=0.5)


@pytest.mark.parametrize(("dims", "tries"), [(2, 120), (3, 120)])
def test_intervals_of_thin_parts_hold_their_volumes(dims, tries):
    rng = np.random.default_rng(dims)
    inside = 0
    for number in range(tries):
        strata, wanted = flat(10 ** rng.uniform(-4, -2.2), dims, at=rng.uniform(-0.3, 0.3))
        found = region_of(strata, dims).volume("wall", draws=2000, rng=number)
        inside += abs(found - wanted) <= 1.96 * found.standard_error
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], tries, 0.95)
    assert low <= inside <= high


@pytest.mark.parametrize("dims", [2, 3])
def test_samples_of_a_thin_part_are_uniform(dims):
    """Chi-square over cells along and across the layer, with exact volumes."""
    strata, _ = flat(1e-3, dims)
    region = region_of(strata, dims)
    Y = region.sample(4000, rng=1, stratum="wall")
    assert region.contains(Y).all()
    assert (strata.index(Y) == 1).all()
    depth = np.floor(3 * (Y[:, 0] + 0.1) / strata.thickness).clip(0, 2).astype(int)
    edges = np.linspace(-Q, Q, 11)
    across = np.clip(np.digitize(Y[:, 1], edges) - 1, 0, 9)
    counts = np.zeros((10, 3))
    np.add.at(counts, (across, depth), 1)

    def section(y):  # of the layer, which is thin: as long everywhere across it
        left = Q**2 - 0.1**2 - y**2
        return 0.0 if left <= 0 else 1.0 if dims == 2 else 2 * np.sqrt(left)

    shares = np.array([integrate.quad(section, a, b, points=[0])[0] for a, b in pairwise(edges)])
    expected = 4000 * np.repeat((shares / shares.sum())[:, None], 3, axis=1) / 3
    big = expected > 5
    assert stats.chisquare(counts[big], expected[big] * counts[big].sum() / expected[big].sum()).pvalue > 1e-3


def test_layers_across_the_end_of_a_turn():
    """On a torus: the angles add up to a full turn, and particles lie on either side of ±π."""

    def off(Y):
        return wrap_angle(Y.sum(axis=1) - 2 * np.pi)

    def project(Y):
        return Y - off(Y)[:, None] / 2

    strata = Layer(lambda Y: off(Y) + 5e-4, project, 1e-3)  # |off| <= 5e-4
    particles = np.array([[[np.pi, np.pi], [-np.pi, np.pi]]])
    region = region_of(strata, 2, Torus(), particles)
    found = region.volume("wall", rng=0)
    wanted = 2 * Q * 1e-3 / np.sqrt(2)
    assert found.standard_error < 0.1 * wanted
    assert found == pytest.approx(wanted, abs=4 * found.standard_error)
    Y = region.sample(500, rng=0, stratum="wall")
    assert region.contains(Y).all()
    assert np.abs(Y).max() <= np.pi
    for axis in range(2):
        assert 0.3 < (Y[:, axis] > 0).mean() < 0.7


def test_poses_in_the_plane_and_products_are_covered():
    metric = Product((SE2(0.3), Euclidean()), (3, 1))
    strata, _ = flat(1e-3, 4)
    region = region_of(strata, 4, metric)
    covered, plain = region.volume("wall", rng=0), region_of(unprojected(strata), 4, metric).volume("wall", 400_000, rng=1)
    assert covered.standard_error < 0.1 * covered
    assert covered == pytest.approx(plain, abs=4 * np.hypot(covered.standard_error, plain.standard_error))


def test_ellipsoids_of_lucca_are_covered_too():
    strata, _ = flat(1e-3, 2)
    score = Mahalanobis()
    gaussian = score.checked((np.zeros((1, 2)), np.diag([0.04, 0.01])[None]), 1, 1, 2)
    found, plain = (
        Region(score, gaussian, np.array([2.0, 2.0]), each, 2, 0.1, False).volume("wall", draws, rng=0)
        for each, draws in ((strata, 4096), (unprojected(strata), 400_000))
    )
    assert found.standard_error < 0.1 * found
    assert found == pytest.approx(plain, abs=4 * np.hypot(found.standard_error, plain.standard_error))


def unprojected(strata):
    return FunctionStrata(strata.labels_of, strata.names)


def test_a_projection_that_finds_half_of_a_part_costs_precision_and_no_bias():
    strata, wanted = flat(1e-3, 2)
    whole = strata.onto
    strata.onto = lambda Y: np.where(Y[:, 1:] > 0.1, whole(Y), Y)
    region = region_of(strata, 2)
    found = np.array([region.volume("wall", rng=seed) for seed in range(80)])
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - wanted) < 4 * error
    assert error < 0.3 * wanted


def test_poses_in_space_are_drawn_plainly():
    assert plain_angles(NearestParticles(1, SE3(0.1)), 7) is None
    assert plain_angles(NearestParticles(1, Product((SE3(0.1), Torus()), (7, 1))), 8) is None
    mixed = Product((Euclidean(), Torus()), (2, 1))
    assert plain_angles(NearestParticles(1, mixed), 3).tolist() == [False, False, True]
    assert plain_angles(Mahalanobis(angles=(1,)), 2).tolist() == [False, True]


def test_a_projection_that_changes_the_shape_is_refused():
    strata, _ = flat(1e-3, 2)
    strata.onto = lambda Y: Y[:1]
    with pytest.raises(CaptureError, match=r"what strata\.project returned has shape \(1, 2\)"):
        region_of(strata, 2).volume("wall", rng=0)


def test_a_part_that_nothing_can_be_moved_onto_is_drawn_plainly():
    strata, wanted = flat(1e-2, 2)
    strata.onto = lambda Y: Y
    found = region_of(strata, 2).volume("wall", draws=100_000, rng=0)
    assert found == pytest.approx(wanted, abs=4 * found.standard_error)
