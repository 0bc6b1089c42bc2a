"""Metrics of joint spaces, poses and products against independent oracles: scipy's rotations and matrix logarithms."""

import numpy as np
import pytest
from numba import njit
from scipy.linalg import logm
from scipy.spatial.transform import Rotation

from capture_cp import SE2, SE3, Capture, CaptureError, Euclidean, NearestParticles, OneGroup, Product, Torus
from capture_cp.spaces.metrics import FunctionMetric
from capture_cp.spaces.strata import one_stratum


@njit
def manhattan_squared(y, p):
    total = 0.0
    for axis in range(y.shape[0]):
        total += abs(y[axis] - p[axis])
    return total * total


def poses(n, rng, angle=np.pi):
    """Positions and quaternions (w, x, y, z) of rotations up to an angle, of either sign."""
    axes = rng.standard_normal((n, 3))
    turns = axes / np.linalg.norm(axes, axis=1, keepdims=True) * rng.uniform(0, angle, (n, 1))
    quaternions = Rotation.from_rotvec(turns).as_quat(scalar_first=True) * rng.choice([-1.0, 1.0], (n, 1))
    return np.hstack([rng.uniform(-1, 1, (n, 3)), quaternions])


def matrix(pose):
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat(pose[3:], scalar_first=True).as_matrix()
    T[:3, 3] = pose[:3]
    return T


def logarithm(a, b):
    """(ρ, ω) of log(T₁⁻¹T₂), by the logarithm of a matrix."""
    L = np.real(logm(np.linalg.inv(matrix(a)) @ matrix(b)))
    return np.array([*L[:3, 3], L[2, 1], L[0, 2], L[1, 0]])


CASES = {
    "weighted": (Euclidean((1.0, 2.0, 0.5)), lambda n, rng: rng.uniform(-3, 3, (n, 3))),
    "torus": (Torus((1.0, 0.5, 2.0, 1.0, 1.0, 0.1)), lambda n, rng: rng.uniform(-9, 9, (n, 6))),
    "plain torus": (Torus(), lambda n, rng: rng.uniform(-9, 9, (n, 4))),
    "se2": (SE2(0.3), lambda n, rng: rng.uniform(-4, 4, (n, 3))),
    "se3": (SE3(0.3), poses),
    "product": (
        Product((SE2(0.4), Torus((1.0, 0.5))), (3, 2), weights=(1.0, 0.2)),
        lambda n, rng: rng.uniform(-4, 4, (n, 5)),
    ),
    "nested": (
        Product((Product((SE3(0.2), Euclidean()), (7, 2)), Torus()), (9, 1), weights=(2.0, 0.3)),
        lambda n, rng: np.hstack([poses(n, rng), rng.uniform(-4, 4, (n, 3))]),
    ),
    "function": (FunctionMetric(manhattan_squared), lambda n, rng: rng.uniform(-3, 3, (n, 3))),
}
EVERY = pytest.mark.parametrize("name", CASES)


@EVERY
def test_compiled_scores_and_membership_are_those_of_the_plain_distance(name):
    metric, draw = CASES[name]
    rng = np.random.default_rng(0)
    Y, particles = draw(200, rng), np.stack([draw(200, rng) for _ in range(5)], axis=1)
    score = NearestParticles(3, metric)
    plain = np.sort(metric.distance(Y[:, None], particles), axis=1)[:, 2]
    found = score.score(particles, Y)
    np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-12)
    assert score.within(particles, Y, found).all()
    assert not score.within(particles, Y, np.nextafter(found, 0)).any()


@EVERY
def test_metrics_are_symmetric_and_vanish_only_at_the_same_place(name):
    metric, draw = CASES[name]
    a, b = draw(100, np.random.default_rng(1)), draw(100, np.random.default_rng(2))
    np.testing.assert_allclose(metric.distance(a, b), metric.distance(b, a), rtol=1e-9)
    np.testing.assert_allclose(metric.distance(a, a), 0.0, atol=1e-7)
    turned = a + 2 * np.pi * np.isin(np.arange(a.shape[1]), metric.angles(a.shape[1]))
    np.testing.assert_allclose(metric.distance(a, turned), 0.0, atol=1e-7)
    assert (metric.distance(a, b) > 1e-3).all()


@EVERY
def test_nothing_near_is_outside_the_box(name):
    metric, draw = CASES[name]
    a, b = draw(300, np.random.default_rng(3)), draw(300, np.random.default_rng(4))
    a, b = (_wrapped(metric, part) for part in (a, b))
    low, high = metric.box(a, a, metric.distance(a, b) * (1 + 1e-9))
    assert ((low <= b) & (b <= high)).all()


def _wrapped(metric, points):
    points = points.copy()
    for axis in metric.angles(points.shape[1]):
        points[:, axis] -= 2 * np.pi * np.rint(points[:, axis] / (2 * np.pi))
    return points


@pytest.mark.parametrize("angle", [np.pi, 0.1, 1e-3, 1e-6])
def test_se3_is_the_logarithm_of_a_matrix(angle):
    rng, length = np.random.default_rng(5), 0.3
    for a, b in zip(poses(25, rng), poses(25, rng, angle)):
        turned = Rotation.from_quat(a[3:], scalar_first=True) * Rotation.from_quat(b[3:], scalar_first=True)
        b = np.append(a[:3] + b[:3], turned.as_quat(scalar_first=True))
        wanted = np.linalg.norm(logarithm(a, b) * [1, 1, 1, length, length, length])
        assert SE3(length).distance(a, b) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_se3_near_half_a_turn():
    """Where the axis flips, the angle is still the short way round; q, -q and q of any length are the same."""
    rng = np.random.default_rng(6)
    a = poses(200, rng)
    turns = Rotation.from_quat(a[:, 3:], scalar_first=True)
    for angle in (np.pi - 1e-7, np.pi, np.pi + 1e-7):
        b = a.copy()
        b[:, 3:] = (turns * Rotation.from_rotvec([0, 0, angle])).as_quat(scalar_first=True)
        wanted = 0.3 * min(angle, 2 * np.pi - angle)
        np.testing.assert_allclose(SE3(0.3).distance(a, b), wanted, rtol=1e-9)
        np.testing.assert_allclose(SE3(0.3).distance(a, b * [1, 1, 1, -7, -7, -7, -7]), wanted, rtol=1e-9)


def test_calibrations_with_every_metric_are_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(8)
    for name in ("weighted", "torus", "se3", "product", "nested"):
        metric, draw = CASES[name]
        X, Y = rng.uniform(size=(300, 2)), draw(300, rng)
        strata = one_stratum()

        def model(X, n_particles, rng, draw=draw):
            return draw(len(X) * n_particles, rng).reshape(len(X), n_particles, -1)

        cap = Capture(model, strata, NearestParticles(2, metric), OneGroup(), 4).fit(X, Y)
        cap.save(tmp_path / "a.capture")
        loaded = Capture.load(tmp_path / "a.capture", model=model, strata=strata)
        assert loaded.score.metric == metric
        np.testing.assert_array_equal(loaded.contains(X, Y, rng=0), cap.contains(X, Y, rng=0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Torus((1.0, -1.0)), "positive number"),
        (lambda: Torus(2.0), "one positive number per axis"),
        (lambda: SE3(0), "SE3 length"),
        (lambda: SE3(1.0).check(6, None), "7 numbers"),
        (lambda: Product((SE2(1.0),), (3, 2)), "one metric and one size per block"),
        (lambda: Product((FunctionMetric(manhattan_squared),), (3,)), "cannot be a block"),
        (lambda: Product((SE2(1.0),), (3,)).check(4, None), "3 axes in total"),
        (lambda: Product((SE2(1.0),), (4,)).check(4, None), "3 numbers"),
        (lambda: Torus((1.0, 1.0)).check(3, None), "2 weights"),
        (lambda: FunctionMetric(abs), "numba.njit"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(CaptureError, match=words):
        make()


class Doubled(Torus):
    """A metric that inherits from another and measures something else."""

    def distance(self, a, b):
        return 2 * super().distance(a, b)


def test_a_metric_with_its_own_distance_does_not_inherit_a_kernel():
    rng = np.random.default_rng(0)
    Y, P = rng.random((50, 3)), rng.random((50, 4, 3))
    assert Doubled().kernel(3) is None
    np.testing.assert_allclose(
        NearestParticles(2, Doubled()).score(P, Y), 2 * NearestParticles(2, Torus()).score(P, Y), rtol=1e-12
    )
    assert not Doubled().finds_cells
    found = NearestParticles(2, Doubled()).score(P, Y)
    assert NearestParticles(2, Doubled()).within(P, Y, found).all()
    assert not NearestParticles(2, Doubled()).within(P, Y, np.nextafter(found, 0)).any()
