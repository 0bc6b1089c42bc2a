"""`Capture` on a GPU, and calibrations compiled for arrays that are there."""

from __future__ import annotations

import warnings
from copy import copy
from operator import attrgetter

import numpy as np
import pytest
from numba import cuda
from sklearn.base import clone

from capture_cp import (
    Capture,
    CaptureError,
    CaptureWarning,
    Euclidean,
    Mahalanobis,
    NearestParticles,
    PerStratum,
    Product,
    Score,
    Torus,
)
from capture_cp.cuda.arrays import is_on_device
from capture_lab.tasks.box import Box
from gpu.conftest import SIMULATED

ALPHA = 0.2
BOX = Box()


class Farthest(Score):
    """A score of the user's own."""

    def score(self, prediction, Y):
        return np.linalg.norm(prediction - Y[:, None], axis=2).max(axis=1)


class City(Euclidean):
    """A metric of the user's own."""

    def distance(self, a, b):
        return np.abs(np.asarray(a) - np.asarray(b)).sum(axis=-1)


@pytest.fixture(scope="module")
def log():
    return BOX.transitions(1500, np.random.default_rng(1))


@pytest.fixture(scope="module")
def new():
    return BOX.transitions(8 if SIMULATED else 4000, np.random.default_rng(2))


def fitted(log, device, score=None, rows=None):
    return Capture(BOX, BOX.strata, score=score, n_particles=6, device=device).fit(log.X[:rows], log.Y[:rows])


@pytest.fixture(scope="module")
def both(log):
    """One calibration, asked on the processor and on the GPU."""
    cap = fitted(log, "cpu")
    return cap, copy(cap).set_params(device="cuda")


def test_answers_are_those_of_the_processor(both, new):
    here, there = both
    np.testing.assert_array_equal(there.thresholds(new.X, ALPHA), here.thresholds(new.X, ALPHA))
    np.testing.assert_array_equal(there.contains(new.X, new.Y, ALPHA, rng=0), here.contains(new.X, new.Y, ALPHA, rng=0))
    several = np.stack([new.Y, new.Y[::-1], new.Y + 10], axis=1)
    np.testing.assert_array_equal(there.contains(new.X, several, ALPHA, rng=0), here.contains(new.X, several, ALPHA, rng=0))
    np.testing.assert_array_equal(there.count_cells(new.X[:3], ALPHA, rng=0), here.count_cells(new.X[:3], ALPHA, rng=0))
    found = [cap.coverage(new.X, new.Y, ALPHA, volumes=False, rng=0) for cap in both]
    assert found[0] == found[1]


def test_device_is_a_parameter_like_others(both):
    cap = Capture(BOX, BOX.strata, device="cuda")
    assert "device='cuda'" in repr(cap)
    assert clone(cap).device == "cuda"
    assert cap.set_params(device="cpu").device == "cpu"


def test_a_calibration_made_on_a_gpu_loads_anywhere(both, new, tmp_path):
    here, there = both
    there.save(tmp_path / "box.capture")
    loaded = Capture.load(tmp_path / "box.capture", BOX, BOX.strata)
    assert loaded.device == "cpu"
    np.testing.assert_array_equal(loaded.thresholds(new.X, ALPHA), here.thresholds(new.X, ALPHA))


@pytest.mark.parametrize("score", [Farthest(), NearestParticles(2, City())], ids=repr)
def test_parts_of_the_users_own_stay_on_the_processor(log, score):
    with pytest.raises(CaptureError, match="has no GPU version"):
        fitted(log, "cuda", score)
    cap = fitted(log, "auto", score, 500)
    assert cap.computed_score is cap.score_


# -- compiled ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(both):
    return both[0].compile(ALPHA, device="cuda")


def test_compiled_answers_are_those_of_the_processor(both, compiled, new):
    cap, _ = both
    particles, labels = cap.predict(new.X), BOX.strata.index(new.Y)
    np.testing.assert_array_equal(compiled.thresholds(new.X), cap.thresholds(new.X, ALPHA))
    inside = cap.contains(new.X, new.Y, ALPHA, prediction=particles)
    np.testing.assert_array_equal(compiled.contains(new.X, new.Y, particles, labels), inside)
    np.testing.assert_array_equal(compiled.scores(new.Y, particles), cap.score_.score(particles, new.Y))
    cells = cap.count_cells(new.X[:3], ALPHA, prediction=particles[:3])
    np.testing.assert_array_equal(compiled.count_cells(new.X[:3], particles[:3]), cells)
    assert repr(compiled) == "CompiledCuda(alpha=0.2: free, edge, corner)"


def test_regions_for_all_steps_of_an_episode_are_those_of_the_processor(log, new):
    here = Capture(BOX, BOX.strata, groups=PerStratum(), n_particles=6).fit(log.X, log.Y, episodes=np.arange(1500) // 10)
    there, particles = copy(here).set_params(device="cuda"), here.predict(new.X, 0)
    compiled = here.compile(ALPHA, device="cuda", simultaneous=True)
    q, labels = here.thresholds(new.X, ALPHA, simultaneous=True), BOX.strata.index(new.Y)
    np.testing.assert_array_equal(there.thresholds(new.X, ALPHA, simultaneous=True), q)
    np.testing.assert_array_equal(compiled.thresholds(new.X), q)
    inside = here.contains(new.X, new.Y, ALPHA, prediction=particles, simultaneous=True)
    np.testing.assert_array_equal(compiled.contains(new.X, new.Y, particles, labels), inside)
    np.testing.assert_array_equal(there.contains(new.X, new.Y, ALPHA, prediction=particles, simultaneous=True), inside)


def test_whole_strata_count_whole(log, new):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        cap = fitted(log, "cpu", rows=40)
        particles = cap.predict(new.X)[:3]
        ours = cap.compile(0.01, device="cuda").count_cells(new.X[:3], particles)
        np.testing.assert_array_equal(ours, cap.count_cells(new.X[:3], 0.01, prediction=particles))


def test_what_is_on_the_gpu_stays_there(compiled, new):
    X = cuda.to_device(new.X)
    answer = compiled.thresholds(X)
    assert is_on_device(answer)
    np.testing.assert_array_equal(answer.copy_to_host(), compiled.thresholds(new.X))
    assert isinstance(compiled.thresholds(new.X), np.ndarray)


def test_strata_that_do_not_exist_are_infeasible(both, compiled, new):
    particles = both[0].predict(new.X)
    for label in (-1, 3, 10**9, -(10**9)):
        labels = np.full(len(new.X), label)
        assert not compiled.contains(new.X, particles[:, 0].copy(), particles, labels).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((4, 3))}, "X is float64 of shape"),
        ({"Y": np.zeros((5, 2))}, "Y is float64 of shape"),
        ({"particles": np.zeros((4, 5, 2))}, "particles is float64 of shape"),
        ({"labels": np.zeros(3, dtype=int)}, "labels is int64 of shape"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(compiled, change, message):
    good = {"X": np.zeros((4, 4)), "Y": np.zeros((4, 2)), "particles": np.zeros((4, 6, 2)), "labels": np.zeros(4, dtype=int)}
    with pytest.raises(CaptureError, match=message):
        compiled.contains(**good | change)


def test_what_cannot_be_compiled_is_refused(log):
    cap = fitted(log, "cpu", Mahalanobis())
    with pytest.raises(CaptureError, match="cannot be compiled"):
        cap.compile(ALPHA, device="cuda")
    with pytest.raises(CaptureError, match="unknown device of a compiled calibration 'auto'"):
        cap.compile(ALPHA, device="auto")


@pytest.mark.skipif(SIMULATED, reason="needs a GPU")
@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
def test_arrays_of_others_go_in_and_come_out_without_a_copy(library, compiled, new):
    there = pytest.importorskip(library)
    if library == "jax":
        there.config.update("jax_enable_x64", True)
    asarray = {"torch": "as_tensor", "cupy": "asarray", "jax": "numpy.asarray"}[library]
    taken_over = attrgetter(asarray)(there)
    X = taken_over(new.X, device="cuda") if library == "torch" else taken_over(new.X)
    found = compiled.thresholds(X)
    answer = taken_over(found)
    assert answer.__cuda_array_interface__["data"][0] == found.__cuda_array_interface__["data"][0]
    values = answer.cpu() if library == "torch" else answer.get() if library == "cupy" else answer
    np.testing.assert_array_equal(np.asarray(values), compiled.thresholds(new.X))


@pytest.mark.parametrize(
    "metric", [Torus((1.0, 0.5)), Euclidean((1.0, 2.0)), Product((Euclidean(), Torus()), (1, 1))], ids=repr
)
def test_metrics_of_axes_are_those_of_the_processor(log, new, metric):
    here, there = (fitted(log, device, NearestParticles(3, metric), 200) for device in ("cpu", "cuda"))
    prediction = BOX(new.X, here.n_particles, np.random.default_rng(6))
    wanted = here.contains(new.X, new.Y, ALPHA, prediction=prediction)
    np.testing.assert_array_equal(there.contains(new.X, new.Y, ALPHA, prediction=prediction), wanted)
    np.testing.assert_allclose(there.scores(prediction, new.Y), here.scores(prediction, new.Y), rtol=1e-13)
    found = here.compile(ALPHA, device="cuda").contains(new.X, new.Y, prediction, here.index(new.Y))
    np.testing.assert_array_equal(found, wanted)
