"""Scores, membership, thresholds and cells on the GPU, against those of the processor: the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda

from capture_cp import SE2, Euclidean, Grid, GridStrata, Mahalanobis, NearestParticles
from capture_cp.conformal.on_cuda import on_cuda
from capture_cp.conformal.scores import ParticleBox
from capture_cp.cuda.conformal import scores
from capture_cp.kernels.distance import nearest_whole
from capture_cp.kernels.nearest import kth_squared
from gpu.conftest import SIMULATED

SCORES = {
    "nearest": (NearestParticles(1), 2),
    "k-th of 5 axes": (NearestParticles(3, Euclidean()), 5),
    "poses": (NearestParticles(2, SE2(0.1)), 3),
    "box": (ParticleBox(), 2),
    "ellipsoid": (Mahalanobis(), 2),
    "ellipsoid of poses": (Mahalanobis(angles=(2,)), 3),
}


def pairs(score, dims, n, rng, particles=5):
    """A prediction of n rows, and n configurations; poses go more than once around."""
    Y = rng.normal(size=(n, dims)) * ([1, 1, 4] if dims == 3 else 1)
    if isinstance(score, Mahalanobis):
        root = rng.normal(size=(n, dims, dims)) + 2 * np.eye(dims)
        return score.checked((rng.normal(size=(n, dims)), root @ root.transpose(0, 2, 1)), n, 1, dims), Y
    return rng.normal(size=(n, particles, dims)), Y


@pytest.fixture(params=SCORES)
def case(request, few):
    score, dims = SCORES[request.param]
    prediction, Y = pairs(score, dims, few, np.random.default_rng(0))
    return score, on_cuda(score), prediction, Y


def test_scores_are_those_of_the_processor(case):
    score, there, prediction, Y = case
    np.testing.assert_array_equal(there.score(prediction, Y), score.score(prediction, Y))
    if not isinstance(score, Mahalanobis):  # for arrays that are on the GPU
        found = scores(there.on_device(prediction), cuda.to_device(Y)).copy_to_host()
        np.testing.assert_allclose(found, score.score(prediction, Y), rtol=1e-13)


def test_the_point_that_sets_a_threshold_passes_it(case):
    """And no point that is farther by more than rounding."""
    _, there, prediction, Y = case
    q = there.score(prediction, Y)
    assert there.within(prediction, Y, q).all()
    assert not there.within(prediction, Y, q * (1 - 1e-10) - 1e-300)[q > 0].any()


def test_membership_is_that_of_the_processor(case):
    score, there, prediction, Y = case
    q = np.random.default_rng(1).permutation(score.score(prediction, Y))
    q[0], q[1] = np.inf, -1.0
    np.testing.assert_array_equal(there.within(prediction, Y, q), score.within(prediction, Y, q))


def test_a_prediction_serves_several_rows_in_turn(case):
    score, there, prediction, Y = case
    some = prediction[: len(Y) // 4]
    q = np.random.default_rng(2).permutation(score.score(prediction, Y))
    Y, q = Y[: 4 * len(some)], q[: 4 * len(some)]
    np.testing.assert_array_equal(there.within(some, Y, q), score.within(some, Y, q))
    assert there.within(some, Y[:0], q[:0]).shape == (0,)


def strata_of(dims, rng):
    """A small labelled grid, periodic in its angle, some of it infeasible."""
    shape, periodic = ((9, 8), ()) if dims == 2 else ((5, 6, 7), (2,))
    spacing = [0.5, 0.4, 2 * np.pi / 7][:dims]
    grid = Grid([-2.0, -1.5, -3.0][:dims], spacing, shape, periodic)
    return GridStrata(grid, rng.integers(-1, 3, size=shape), ["a", "b", "c"])


@pytest.mark.parametrize("name", [name for name in SCORES if name != "k-th of 5 axes"])
def test_cells_are_those_of_the_processor(name):
    score, dims = SCORES[name]
    rng = np.random.default_rng(3)
    n = 4 if SIMULATED else 500
    prediction, _ = pairs(score, dims, n, rng)
    q = rng.uniform(-0.2, 1.5, size=(n, 4))
    strata = strata_of(dims, rng)
    ours = on_cuda(score).count_cells(prediction, q, strata)
    np.testing.assert_array_equal(ours, score.count_cells(prediction, q, strata))
    assert ours.any()


def test_nearest_whole_number_is_that_of_numpy():
    halves = np.arange(-7, 8) / 2
    for x in [*halves, *np.nextafter(halves, -9), *np.nextafter(halves, 9), 1e9 + 0.3]:
        assert nearest_whole(x) == np.rint(x)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_kth_distance_without_sorting(k):
    rng = np.random.default_rng(k)
    for _ in range(50):
        cloud, y = rng.integers(-2, 3, size=(6, 2)).astype(float), rng.integers(-2, 3, size=2).astype(float)  # ties abound
        assert kth_squared(0, 1.0, k, y, cloud) == np.sort(((cloud - y) ** 2).sum(axis=1))[k - 1]


def test_kth_distance_of_no_numbers():
    assert math.isnan(kth_squared(0, 1.0, 2, np.zeros(2), np.full((3, 2), np.nan)))
    assert kth_squared(0, 1.0, 3, np.zeros(2), np.array([[0.0, 1.0], [np.inf, 0.0], [np.inf, np.inf]])) == np.inf
