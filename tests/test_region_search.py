"""How far a region is, and how far it reaches."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import SE3, CaptureError, FunctionStrata, Grid, Mahalanobis, NearestParticles, Torus
from capture_cp.capture.region import Region
from capture_cp.spaces.strata import one_stratum


def ball(metric=None, dims=2, q=0.5, particles=None, strata=None, k=1):
    particles = np.zeros((1, 1, dims)) if particles is None else np.asarray(particles, float)
    strata = one_stratum() if strata is None else strata
    return Region(NearestParticles(k, metric), particles, np.full(len(strata.names), q), strata, dims, 0.1, False)


def halves(grid=None):
    """Free to the right of x = 0.2, infeasible to the left; a thin layer between."""

    def labels(Y):
        return np.where(Y[:, 0] < 0.2, -1, np.where(Y[:, 0] <= 0.201, 1, 0))

    return FunctionStrata(labels, ["free", "wall"], grid=grid)


@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_distance_to_a_ball_is_exact(dims):
    rng = np.random.default_rng(0)
    Y = rng.uniform(-2, 2, (50, dims))
    np.testing.assert_allclose(ball(dims=dims).distance(Y, rng=0), np.maximum(np.linalg.norm(Y, axis=1) - 0.5, 0), atol=1e-4)


def test_angles_are_measured_the_short_way_round():
    region = ball(Torus(), 1, 0.5, particles=[[[3.0]]])
    np.testing.assert_allclose(region.distance([[-3.0], [-2.5], [0.0]], rng=0), [0.0, 2 * np.pi - 6.0, 2.5], atol=1e-4)


def test_strata_keep_away():
    """Nearest is the wall's edge, not the infeasible side."""
    found = ball(strata=halves()).distance([[-1.0, 0.0], [-1.0, 0.6]], rng=0)
    corner = np.hypot(1.2, 0.6 - np.sqrt(0.25 - 0.04))
    np.testing.assert_allclose(found, [1.2, corner], rtol=0.03)
    assert (found >= [1.2 - 1e-9, corner - 1e-9]).all()  # upper bounds


def test_on_a_grid_the_distance_is_that_of_centres():
    strata = halves(Grid.between((-1.0, -1.0), (1.0, 1.0), 0.05))
    region = ball(strata=strata)
    Y = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    centres = strata.grid.centre(region.cells())
    wanted = np.where(region.contains(Y), 0, np.linalg.norm(Y[:, None] - centres, axis=2).min(axis=1))
    np.testing.assert_allclose(region.distance(Y), wanted)
    assert ball(strata=strata, q=-1.0).distance([[0.0, 0.0]]) == np.inf


def test_other_scores_and_poses_in_space_have_distances():
    score = Mahalanobis()
    gaussian = score.checked((np.zeros((1, 2)), np.eye(2)[None]), 1, 1, 2)
    region = Region(score, gaussian, np.array([0.5]), one_stratum(), 2, 0.1, True)
    np.testing.assert_allclose(region.distance([[2.0, 0.0]], rng=0), [1.5], atol=1e-4)
    pose = np.array([[[0.0, 0, 0, 1, 0, 0, 0]]])
    away = pose[0] + [[1.0, 0, 0, 0, 0, 0, 0]]
    np.testing.assert_allclose(ball(SE3(1.0), 7, 0.3, pose).distance(away, rng=0), [0.7], atol=1e-4)


@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_a_ball_reaches_as_far_as_its_radius(dims):
    direction = np.random.default_rng(dims).standard_normal(dims)
    found = ball(dims=dims).support(direction, rng=0)
    most = 0.5 * np.linalg.norm(direction)
    assert found <= most + 1e-9
    assert found == pytest.approx(most, rel=0.01)


def test_it_reaches_into_thin_strata():
    region = ball(strata=halves())
    assert region.support((-1.0, 0.0), rng=0) == pytest.approx(-0.2, abs=0.002)
    assert region.support((0.0, 1.0), rng=0) == pytest.approx(np.sqrt(0.25 - 0.04), rel=0.02)
    assert region.support((1.0, 0.0), rng=0) == pytest.approx(0.5, rel=0.01)


def test_on_a_grid_the_largest_centre_counts():
    strata = halves(Grid.between((-1.0, -1.0), (1.0, 1.0), 0.05))
    region = ball(strata=strata)
    assert region.support((1.0, 0.0)) == pytest.approx(0.5)
    with pytest.raises(CaptureError, match="has no support"):
        ball(strata=strata, q=-1.0).support((1.0, 0.0))


def test_angles_are_taken_about_the_particles():
    region = ball(Torus(), 1, 0.5, particles=[[[3.1]]])
    assert region.support((1.0,), rng=0) == pytest.approx(3.6, rel=0.01)
    assert region.support((-1.0,), rng=0) == pytest.approx(-2.6, rel=0.01)


@pytest.mark.parametrize("direction", [(0.0, 0.0), (1.0,), "up", (np.nan, 1.0)])
def test_a_direction_that_is_none_is_refused(direction):
    with pytest.raises(CaptureError, match="direction"):
        ball().support(direction)
