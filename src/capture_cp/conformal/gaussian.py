"""LUCCa's score: Mahalanobis distance under the model's predicted Gaussian."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from capture_cp.base.checks import Bools, CaptureError, Floats, failure_rate, finite_array
from capture_cp.base.layouts import ELLIPSOID, Regions
from capture_cp.conformal.scores import Model, Proposed, Score
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import in_ball, wrap_angle


@dataclass(frozen=True)
class Gaussians:
    """Predicted Gaussians: `mean` (n, dc), `cov` (n, dc, dc), `whiten` (n, dc, dc) with W Σ Wᵀ = I."""

    mean: Floats
    cov: Floats
    whiten: Floats

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, rows: Any) -> Gaussians:
        return Gaussians(self.mean[rows], self.cov[rows], self.whiten[rows])


class Mahalanobis(Score):
    """Mahalanobis distance of the output under the model's predicted Gaussian; regions are ellipsoids.

    The model must have a method `gaussian(X)` that returns means (n, dc) and covariances (n, dc, dc). Ellipsoids are defined
    in ambient space: unless the groups depend on the stratum, a region may contain infeasible configurations.

    Args:
        angles: axes of the configuration that are angles, whose differences are wrapped to [-π, π].
    """

    ambient = True

    def __init__(self, angles: Sequence[int] = ()) -> None:
        self.angles = angles

    def predict(self, model: Model, X: Floats, n_particles: int, rng: np.random.Generator) -> Any:
        gaussian = getattr(model, "gaussian", None)
        if gaussian is None:
            name = getattr(model, "__name__", type(model).__name__)
            raise CaptureError(
                f"Mahalanobis (lucca) needs a Gaussian prediction, but the model {name} has no method gaussian(X); "
                "add one that returns means (n, dc) and covariances (n, dc, dc) of the next configurations."
            )
        return gaussian(X)

    def checked(self, prediction: Any, n: int, n_particles: int, dims: int) -> Gaussians:
        if isinstance(prediction, Gaussians):
            prediction = (prediction.mean, prediction.cov)
        if not (isinstance(prediction, tuple) and len(prediction) == 2):
            raise CaptureError("the model's gaussian(X) must return a tuple: means (n, dc), covariances (n, dc, dc).")
        mean = finite_array("the model's mean", prediction[0], (n, dims), "(n, dc)")
        cov = finite_array("the model's covariance", prediction[1], (n, dims, dims), "(n, dc, dc)")
        if not np.allclose(cov, cov.swapaxes(1, 2), rtol=1e-6, atol=0):
            raise CaptureError("the model's covariance is not symmetric everywhere; return (Σ + Σᵀ) / 2.")
        try:
            whiten = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(cov)))
        except np.linalg.LinAlgError:
            raise CaptureError(
                "the model's covariance is not positive definite everywhere; add a small variance to its diagonal."
            ) from None
        return Gaussians(mean, cov, whiten)

    def score(self, prediction: Any, Y: Floats) -> Floats:
        return np.sqrt(self._squared(prediction, Y))

    def within(self, prediction: Any, Y: Floats, q: Floats) -> Bools:
        from capture_cp.kernels.gaussian import squared_limits

        return np.asarray(self._squared(prediction, Y) <= squared_limits(q))

    def _squared(self, prediction: Gaussians, Y: Floats) -> Floats:
        from capture_cp.kernels.gaussian import squared_mahalanobis_pairs

        is_angle = self._is_angle(Y.shape[1])
        return np.asarray(squared_mahalanobis_pairs(Y, prediction.mean, prediction.whiten, is_angle))

    def _is_angle(self, dims: int) -> Bools:
        return np.isin(np.arange(dims), list(self.angles))

    def box(self, prediction: Any, q: Floats, dims: int) -> tuple[Floats, Floats]:
        half = q[:, None] * np.sqrt(np.diagonal(prediction.cov, axis1=1, axis2=2))
        half[:, self._is_angle(dims)] = np.inf
        return prediction.mean - half, prediction.mean + half

    def propose(self, prediction: Any, q: float, n: int, dims: int, rng: np.random.Generator) -> Proposed:
        moves, volume = in_ball(n, dims, q, rng)
        moves = moves @ np.linalg.cholesky(prediction.cov[0]).T
        angle = self._is_angle(dims)
        Y = prediction.mean + moves
        Y[:, angle] = wrap_angle(Y[:, angle])
        volume *= float(np.sqrt(np.linalg.det(prediction.cov[0])))
        return Proposed(Y, np.where(np.all(np.abs(moves[:, angle]) <= np.pi, axis=1), volume, 0.0), volume)

    def regions(self, prediction: Any) -> Regions:
        is_angle = self._is_angle(prediction.mean.shape[1])
        return Regions(ELLIPSOID, 1.0, 1, prediction.mean[:, None], prediction.whiten, is_angle)

    def check(self, n_particles: int, dims: int, grid: Grid | None) -> None:
        if any(axis not in range(dims) for axis in self.angles):
            raise CaptureError(f"Mahalanobis angles are {tuple(self.angles)}; the configuration has axes 0 to {dims - 1}.")


def calibrated_covariance(cov: Any, threshold: Any, alpha: float) -> Floats:
    """LUCCa's covariance: scaled by q²/χ²₁₋α,d so that its 1-α ellipsoid is the conformal region.

    `cov` (..., d, d) and `threshold` (...,) broadcast.
    """
    cov, q = np.asarray(cov, float), np.asarray(threshold, float)
    chi2 = scipy.special.chdtri(cov.shape[-1], failure_rate(alpha))
    return np.asarray(cov * (q**2 / chi2)[..., None, None])
