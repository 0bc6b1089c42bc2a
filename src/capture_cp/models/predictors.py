"""Models made of functions that predict one row for each input: several predictors, or a mean and a covariance.

With helpers of all adapters: predictions as arrays of particles, and noise on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array

Noise = float | Floats | None


def checked_noise(noise: Any) -> Floats | None:
    """Standard deviations of noise, a number or (dc,), as an array; None for no noise."""
    if noise is None:
        return None
    deviations = np.atleast_1d(np.asarray(noise, dtype=object))
    deviations = finite_array("noise", deviations, (None,), "a standard deviation, or (dc,): one per coordinate")
    if (deviations < 0).any() or not len(deviations):
        raise CaptureError(f"noise is {noise!r}; expected standard deviations of at least 0.")
    return deviations


def with_noise(values: Floats, noise: Floats | None, rng: np.random.Generator) -> Floats:
    """`values` (..., d) plus Gaussian noise of standard deviations (d,) or (1,)."""
    if noise is None:
        return values
    if len(noise) not in (1, values.shape[-1]):
        raise CaptureError(f"noise has {len(noise)} numbers; expected one, or one per coordinate: {values.shape[-1]}.")
    return np.asarray(values + noise * rng.standard_normal(values.shape))


def predicted_rows(source: str, values: Any, n: int) -> Floats:
    """A predictor's output for n rows as (n, dc); (n,) is treated as (n, 1)."""
    array = np.asarray(values)
    return finite_array(source, array[:, None] if array.ndim == 1 else array, (n, None), "(n, dc): one prediction per row")


class Ensemble:
    """A model from several predictors, whose disagreement is its uncertainty.

    Particles use the members in turn, so each member is used equally often, or once less.

    Args:
        predictors: callables that map X (n, dx) to Y (n, dc), or objects with `predict`, such as fitted scikit-learn
            regressors; they must not be trained on the calibration transitions.
        noise: standard deviation of Gaussian noise added to every particle, a number or (dc,).
    """

    def __init__(self, predictors: Sequence[Any], noise: Noise = None) -> None:
        if isinstance(predictors, str) or not isinstance(predictors, Sequence) or not predictors:
            raise CaptureError(f"predictors are {predictors!r}; expected a list of callables or of fitted regressors.")
        self.predictors = list(predictors)
        self.noise = checked_noise(noise)
        self._members = [_predictor(number, member) for number, member in enumerate(self.predictors)]

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc): each row uses the members in turn, in its own random order."""
        n, members = len(X), len(self._members)
        predictions = [predicted_rows(f"predictor {i}", member(X), n) for i, member in enumerate(self._members)]
        if len({rows.shape for rows in predictions}) > 1:
            raise CaptureError(f"the predictors return {[rows.shape for rows in predictions]}; expected one shape, (n, dc).")
        rounds = -(-n_particles // members)
        turns = rng.permuted(np.tile(np.arange(members), (n, rounds, 1)), axis=2)
        chosen = turns.reshape(n, rounds * members)[:, :n_particles]
        return with_noise(np.stack(predictions)[chosen, np.arange(n)[:, None]], self.noise, rng)


class Gaussian:
    """A model from a function that predicts means and covariances, such as a filter or a Gaussian process.

    The model also has a method `gaussian(X)`, so it works with `Mahalanobis`, LUCCa's score.

    Args:
        mean_and_covariance: maps X (n, dx) to means (n, dc) and covariances (n, dc, dc), or variances (n, dc).
    """

    def __init__(self, mean_and_covariance: Callable[[Floats], tuple[Any, Any]]) -> None:
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


def _predictor(number: int, member: Any) -> Callable[[Floats], Any]:
    predict = getattr(member, "predict", member)
    if isinstance(member, type) or not callable(predict):
        raise CaptureError(f"predictor {number} is {member!r}; expected a callable X -> Y or an object with predict(X).")
    found: Callable[[Floats], Any] = predict
    return found
