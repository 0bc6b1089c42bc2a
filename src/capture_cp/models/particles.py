"""Helpers of the adapters: predictions as arrays of particles, and noise on them."""

from __future__ import annotations

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
