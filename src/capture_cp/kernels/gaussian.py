"""Mahalanobis distances under predicted Gaussians."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import nearest_whole, squared_limit


@njit(cache=True)
def squared_mahalanobis(y, mean, whiten, is_angle):
    """‖W (y - mean)‖² with lower-triangular W (dc, dc), W Σ Wᵀ = I; differences of angles are wrapped."""
    total = 0.0
    for row in range(mean.shape[0]):
        z = 0.0
        for axis in range(row + 1):
            step = y[axis] - mean[axis]
            if is_angle[axis]:
                step -= 2.0 * math.pi * nearest_whole(step / (2.0 * math.pi))
            z += whiten[row, axis] * step
        total += z * z
    return total


@parallel_kernel(cache=True)
def squared_mahalanobis_pairs(Y, mean, whiten, is_angle):
    """Squared Mahalanobis distance of each Y[i] (dc,): (n,). Each Gaussian is used for equally many consecutive rows."""
    out = np.empty(Y.shape[0])
    rows_each = Y.shape[0] // max(1, mean.shape[0])
    for i in prange(Y.shape[0]):
        row = np.int64(i) // rows_each
        out[i] = squared_mahalanobis(Y[i], mean[row], whiten[row], is_angle)
    return out


@parallel_kernel(cache=True)
def squared_limits(q):
    """Exact squared thresholds: (n,)."""
    out = np.empty(q.shape[0])
    for i in prange(q.shape[0]):
        out[i] = squared_limit(q[i])
    return out
