"""Mahalanobis distances under predicted Gaussians, and the cells of their ellipsoids."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.cells import box_cell, box_size
from capture_cp.kernels.distance import nearest_whole, squared_limit
from capture_cp.kernels.parallel import parallel_kernel


@njit(cache=True)
def squared_mahalanobis(y, mean, whiten, is_angle):  # type: ignore[no-untyped-def]
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
def squared_mahalanobis_pairs(Y, mean, whiten, is_angle):  # type: ignore[no-untyped-def]
    """Squared Mahalanobis distance of each Y[i] (dc,): (n,). Each Gaussian serves equally many rows in turn."""
    out = np.empty(Y.shape[0])
    rows_each = Y.shape[0] // max(1, mean.shape[0])
    for i in prange(Y.shape[0]):
        row = np.int64(i) // rows_each
        out[i] = squared_mahalanobis(Y[i], mean[row], whiten[row], is_angle)
    return out


@parallel_kernel(cache=True)
def squared_limits(q):  # type: ignore[no-untyped-def]
    """Exact squared thresholds: (n,)."""
    out = np.empty(q.shape[0])
    for i in prange(q.shape[0]):
        out[i] = squared_limit(q[i])
    return out


@parallel_kernel(cache=True)
def count_ellipsoid_cells(mean, whiten, is_angle, q, first, extent, labels, origin, spacing, shape):  # type: ignore[no-untyped-def]
    """Cells inside each ellipsoid, by stratum: (n, M + 1), infeasible cells last; arguments as in `count_cells`."""
    n, dims = first.shape
    columns = q.shape[1]
    counts = np.zeros((n, columns), dtype=np.int64)
    for i in prange(n):
        limit = np.empty(columns)
        for m in range(columns):
            limit[m] = squared_limit(q[i, m])
        centre = np.empty(dims)
        for t in range(box_size(extent[i])):
            cell = box_cell(t, first[i], extent[i], origin, spacing, shape, centre)
            m = labels[cell] if labels[cell] >= 0 else columns - 1
            if squared_mahalanobis(centre, mean[i], whiten[i], is_angle) <= limit[m]:
                counts[i, m] += 1
    return counts
