"""A model that predicts a mean and a covariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array
from capture_cp.models.particles import predicted_rows

MeanAndCovariance = Callable[[Floats], tuple[Any, Any]]


class Gaussian:
    """A model from a function that predicts means and covariances, such as a filter or a Gaussian process.

    The model also has a method `gaussian(X)`, so it works with `Mahalanobis`, LUCCa's score.

    Args:
        mean_and_covariance: maps X (n, dx) to means (n, dc) and covariances (n, dc, dc), or variances (n, dc).
    """

    def __init__(self, mean_and_covariance: MeanAndCovariance) -> None:
        if not callable(mean_and_covariance):
            raise CaptureError(f"gaussian needs a callable X -> (mean, covariance); got {mean_and_covariance!r}.")
        self.mean_and_covariance = mean_and_covariance

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """Means (n, dc) and covariances (n, dc, dc) at inputs X (n, dx)."""
        predicted = self.mean_and_covariance(X)
        if not (isinstance(predicted, tuple | list) and len(predicted) == 2):
            raise CaptureError(
                "the function passed to gaussian must return two arrays: means (n, dc), covariances (n, dc, dc)."
            )
        mean = predicted_rows("the predicted mean", predicted[0], len(X))
        n, dims = mean.shape
        spread = np.asarray(predicted[1])
        if spread.shape == mean.shape or (dims == 1 and spread.shape == (n,)):  # variances
            variances = finite_array("the predicted variance", spread.reshape(n, dims), (n, dims), "(n, dc)")
            return mean, variances[:, :, None] * np.eye(dims)
        meaning = "(n, dc, dc), or (n, dc): variances"
        return mean, finite_array("the predicted covariance", spread, (n, dims, dims), meaning)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) drawn from the Gaussians at X (n, dx)."""
        mean, covariance = self.gaussian(X)
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise CaptureError(
                "the predicted covariance is not positive definite everywhere; add a small variance to its diagonal."
            ) from None
        noise = rng.standard_normal((len(X), n_particles, mean.shape[1]))
        return np.asarray(mean[:, None] + noise @ factor.swapaxes(1, 2))
