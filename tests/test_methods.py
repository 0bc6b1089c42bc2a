"""The six methods: made of the documented parts, and doing what the paper says they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from capture_cp import (
    SE2,
    CaptureError,
    Euclidean,
    Mahalanobis,
    NearestParticles,
    OneGroup,
    Tree,
    conformal_quantile,
    method,
)
from capture_cp.conformal.gaussian import calibrated_covariance
from capture_cp.conformal.groups import Uncalibrated
from capture_cp.conformal.scores import ParticleBox
from worlds import PARTICLES, fit

PAPER_TREE = Tree(per_stratum=False)
BLIND_TREE = Tree(per_stratum=False, stratum_input="none")


@pytest.mark.parametrize(
    ("name", "score", "groups"),
    [
        ("particles", ParticleBox(), Uncalibrated()),
        ("pcp", NearestParticles(1), OneGroup()),
        ("lucca", Mahalanobis(), BLIND_TREE),
        ("no-strata", NearestParticles(8), BLIND_TREE),
        ("capture-k1", NearestParticles(1), PAPER_TREE),
        ("capture", NearestParticles(8), PAPER_TREE),
    ],
)
def test_a_method_is_made_of_its_documented_parts(box, name, score, groups):
    cap = method(name, box, box.strata)
    assert cap.score == score
    assert cap.groups == groups
    assert cap.n_particles == 16
    assert cap.model is box


def test_settings_reach_the_parts(box):
    tree = Tree(min_leaf=7, per_stratum=True, max_leaves=3)
    for name in ("no-strata", "lucca"):
        blind = method(name, box, box.strata, tree=tree).groups
        assert blind == Tree(min_leaf=7, per_stratum=False, max_leaves=3, stratum_input="none")
    cap = method("capture", box, box.strata, n_particles=10, k=3, metric=SE2(0.2), tree=tree, seed=4)
    assert (cap.score, cap.groups, cap.n_particles, cap.seed) == (NearestParticles(3, SE2(0.2)), tree, 10, 4)
    assert method("capture-k1", box, box.strata, k=3, metric=SE2(0.2)).score == NearestParticles(1, SE2(0.2))
    assert method("capture", box, box.strata, n_particles=1).score.k == 1
    assert method("capture", box, box.strata, n_particles=9).score.k == 4


def test_lucca_wraps_the_angle_of_planar_poses(box):
    assert method("lucca", box, box.strata, metric=SE2(0.2)).score == Mahalanobis((2,))
    assert method("lucca", box, box.strata, metric=Euclidean()).score == Mahalanobis(())


@pytest.mark.parametrize(("given", "meant"), [("captrue", "capture"), ("LUCCa", "lucca"), ("no_strata", "no-strata")])
def test_an_unknown_method_is_an_error_with_the_nearest_name(box, given, meant):
    with pytest.raises(CaptureError, match=f"unknown method {given!r}; known: particles, pcp.*Did you mean {meant!r}"):
        method(given, box, box.strata)


def test_particles_region_is_their_bounding_box_within_feasible_space(fitted, fresh):
    cap, strata = fitted["particles"], fresh.box.strata
    centres = strata.grid.centre(np.arange(strata.grid.size))
    for row in range(0, 200, 10):
        low, high = fresh.particles[row].min(axis=0), fresh.particles[row].max(axis=0)
        inside = ((centres >= low) & (centres <= high)).all(axis=1) & (strata.labels >= 0)
        region = cap.region(fresh.X[row], prediction=fresh.particles[row])
        assert np.array_equal(region.cells(), np.flatnonzero(inside))
        assert region.contains(fresh.particles[row]).all()


def test_particles_have_nothing_to_save(fitted, tmp_path):
    with pytest.raises(CaptureError, match="nothing to save: this method is not calibrated"):
        fitted["particles"].save(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_pcp_threshold_is_the_quantile_of_all_nearest_distances(world, fitted, fresh):
    nearest = np.linalg.norm(world.Y[:, None] - world.particles, axis=2).min(axis=1)
    assert fitted["pcp"].thresholds(fresh.X, 0.1) == pytest.approx(conformal_quantile(nearest, 0.1), rel=1e-12)


def test_only_methods_with_strata_give_them_thresholds_of_their_own(fitted, fresh):
    for name in ("pcp", "no-strata", "lucca", "capture", "capture-k1"):
        q = fitted[name].thresholds(fresh.X, 0.2)
        assert (q == q[:, :1]).all() == (not name.startswith("capture"))


@pytest.fixture(scope="module")
def lucca_regions(fitted, fresh):
    """Rows with their predicted Gaussians, thresholds and regions at alpha = 0.2."""
    cap = fitted["lucca"]
    mean, cov = fresh.box.gaussian(fresh.X)
    return [
        (mean[row], cov[row], cap.thresholds(fresh.X[row : row + 1], 0.2)[0, 0], cap.region(fresh.X[row], 0.2))
        for row in range(0, 200, 5)
    ]


def test_lucca_region_is_the_chi2_ellipsoid_of_the_calibrated_covariance(lucca_regions, fresh):
    grid = fresh.box.strata.grid
    centres = grid.centre(np.arange(grid.size))
    level = stats.chi2.ppf(0.8, df=2)
    for mean, cov, q, region in lucca_regions:
        scaled = calibrated_covariance(cov, q, 0.2)
        assert scaled == pytest.approx(cov * q**2 / level, rel=1e-12)
        squared = np.einsum("ni,ij,nj->n", centres - mean, np.linalg.inv(scaled), centres - mean)
        assert np.array_equal(region.cells(), np.flatnonzero(squared <= level))


def test_lucca_regions_may_hold_infeasible_cells_and_their_volume_counts_them(lucca_regions, fresh):
    strata = fresh.box.strata
    blocked = [np.sum(strata.labels[region.cells()] < 0) for *_, region in lucca_regions]
    assert max(blocked) > 0
    for count, (*_, region) in zip(blocked, lucca_regions):
        volumes = region.volumes()
        assert volumes["infeasible"] == pytest.approx(count * strata.grid.cell_volume)
        assert region.volume() == pytest.approx(sum(volumes.values()))


def test_lucca_grouped_by_stratum_stays_in_feasible_space(world, fresh):
    """Ellipsoids that differ between strata have no one size for infeasible space."""
    cap = clone(fit("lucca", world)).set_params(groups=Tree(min_leaf=40)).fit(world.X, world.Y)
    region = cap.region(fresh.X[0], 0.2)
    assert not region.ambient
    assert (fresh.box.strata.labels[region.cells()] >= 0).all()


def test_lucca_needs_a_gaussian_model(world):
    cap = method("lucca", lambda X, n, rng: world.box.model(X, n, rng), world.box.strata, n_particles=PARTICLES)
    with pytest.raises(CaptureError, match=r"needs a Gaussian prediction, but the model .* has no method gaussian\(X\)"):
        cap.fit(world.X, world.Y)


@pytest.mark.parametrize(
    ("prediction", "sentence"),
    [
        (lambda mean, cov: mean, "must return a tuple"),
        (lambda mean, cov: (mean[:, :1], cov), "the model's mean has shape"),
        (lambda mean, cov: (mean, cov[:, 0]), "the model's covariance has shape"),
        (lambda mean, cov: (mean, -cov), "not positive definite everywhere; add a small variance"),
        (lambda mean, cov: (mean, 0 * cov), "not positive definite everywhere"),
        (lambda mean, cov: (mean * np.nan, cov), "the model's mean has .* NaN"),
        (lambda mean, cov: (mean, cov + np.array([[0, 1e-4], [0, 0]])), "symmetric"),
    ],
    ids=["no tuple", "mean", "covariance", "negative", "singular", "nan", "not symmetric"],
)
def test_bad_gaussians_are_refused(world, prediction, sentence):
    cap = method("lucca", world.box, world.box.strata)
    with pytest.raises(CaptureError, match=sentence):
        cap.fit(world.X, world.Y, prediction=prediction(*world.box.gaussian(world.X)))


def test_mahalanobis_angles_must_exist(world):
    cap = clone(method("lucca", world.box, world.box.strata)).set_params(score=Mahalanobis((2,)))
    with pytest.raises(CaptureError, match=r"angles are \(2,\); the configuration has axes 0 to 1"):
        cap.fit(world.X, world.Y)
