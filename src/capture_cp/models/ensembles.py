"""A model whose particles are the predictions of several predictors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.models.particles import Noise, checked_noise, predicted_rows, with_noise

Predictor = Callable[[Floats], Any]


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


def _predictor(number: int, member: Any) -> Predictor:
    predict = getattr(member, "predict", member)
    if isinstance(member, type) or not callable(predict):
        raise CaptureError(f"predictor {number} is {member!r}; expected a callable X -> Y or an object with predict(X).")
    found: Predictor = predict
    return found
