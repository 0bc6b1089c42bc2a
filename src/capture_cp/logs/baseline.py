"""The model for those who have none: a straight line through part of the log, and what it left unexplained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, Floats, finite_array

MOST_RESIDUALS = 512


@dataclass(frozen=True)
class LinearModel:
    """Next configurations as an affine function of the input, plus residuals drawn from its training transitions.

    It knows no walls and no friction. Regions around it are valid, and larger than those of a better model.

    Attributes:
        coefficients: of a one and the input, (1 + dx, dc).
        residuals: what training transitions had beyond it, (r, dc).
    """

    coefficients: Floats
    residuals: Floats

    @classmethod
    def trained(cls, X: Floats, Y: Floats) -> Self:
        """Least squares on transitions X (n, dx), Y (n, dc) that are used for nothing else."""
        centre, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        slopes = np.linalg.lstsq((X - centre) / scale, Y - Y.mean(axis=0), rcond=None)[0] / scale[:, None]
        coefficients = np.vstack([Y.mean(axis=0) - centre @ slopes, slopes])
        residuals = Y - coefficients[0] - X @ slopes
        return cls(coefficients, residuals[:: -(-len(residuals) // MOST_RESIDUALS)])

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) of inputs X (n, dx)."""
        mean = self.coefficients[0] + X @ self.coefficients[1:]
        return np.asarray(mean[:, None] + self.residuals[rng.integers(len(self.residuals), size=(len(X), n_particles))])

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """Mean (n, dc) and covariance (n, dc, dc), for LUCCa."""
        covariance = np.cov(self.residuals, rowvar=False).reshape(2 * self.residuals.shape[1:])
        tiny = 1e-12 * max(float(np.trace(covariance)), 1e-300) * np.eye(len(covariance))
        return self.coefficients[0] + X @ self.coefficients[1:], np.tile(covariance + tiny, (len(X), 1, 1))

    def fingerprint(self) -> str:
        """Digest of its numbers."""
        return digest(self.coefficients, self.residuals)

    def facts(self) -> dict[str, Any]:
        """Its numbers as JSON can hold them, to the last bit."""
        return {"coefficients": self.coefficients.tolist(), "residuals": self.residuals.tolist()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """The model that `facts` came from."""
        try:
            coefficients = finite_array("coefficients", facts["coefficients"], (None, None), "(1 + dx, dc)")
            residuals = finite_array("residuals", facts["residuals"], (None, coefficients.shape[1]), "(r, dc)")
        except (KeyError, TypeError, CaptureError) as error:
            raise CaptureError(f"the linear model in the calibration is damaged ({error}); calibrate again.") from None
        return cls(coefficients, residuals)
