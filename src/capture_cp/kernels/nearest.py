"""k-th-nearest-particle scores, and the equivalent membership test.

The k-th nearest of L particles is within q exactly when at least k particles are within q, so the membership test sorts
nothing. The two kernels agree exactly because they compare the same squared distances.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from capture_cp.base.layouts import BLOCKS, EUCLIDEAN
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import squared_distance, squared_limit, table_distances

CHUNK = 1024


def find_distances(metric, scale, y, cloud, rows, out):
    """Squared distances of y (dc,) from the particles of `cloud` (L, dc), into out (L,); rows (dc, L) is a work array."""
    for l in range(cloud.shape[0]):
        out[l] = squared_distance(metric, scale, y, cloud[l])


@overload(find_distances)
def _find_distances(metric, scale, y, cloud, rows, out):
    if isinstance(scale, types.Array):  # type: ignore[attr-defined]
        return lambda metric, scale, y, cloud, rows, out: table_distances(scale, y, cloud, rows, out)

    def one_by_one(metric, scale, y, cloud, rows, out):
        if metric == EUCLIDEAN and y.shape[0] == 2:
            # the same sum as below, written out: without the loop over axes the compiler vectorises the loop over particles
            for l in range(cloud.shape[0]):
                dx = y[0] - cloud[l, 0]
                dy = y[1] - cloud[l, 1]
                out[l] = dx * dx + dy * dy
        else:
            for l in range(cloud.shape[0]):
                out[l] = squared_distance(metric, scale, y, cloud[l])

    return one_by_one


@njit(cache=True)
def kth_smallest(values, k):
    """The k-th smallest of some numbers; infinite where fewer than k are finite.

    It counts how many are smaller than one of them, which the compiler vectorises, and drops those on the wrong side.
    """
    low, high = -math.inf, math.inf
    for i in range(len(values)):
        value = values[i]
        if value <= low or value >= high:
            continue
        less, up_to = 0, 0
        for j in range(len(values)):
            less += values[j] < value
            up_to += values[j] <= value
        if less >= k:
            high = value
        elif up_to < k:
            low = value
        else:
            return value
    return high


@njit(cache=True)
def _scores(metric, length, k, Y, particles, out, start, stop):
    distances = np.empty(particles.shape[1])
    rows = np.empty((particles.shape[2], particles.shape[1]))
    for i in range(start, stop):
        find_distances(metric, length, Y[i], particles[i], rows, distances)
        out[i] = math.sqrt(kth_smallest(distances, k))


@parallel_kernel(cache=True)
def kth_nearest(metric, length, k, Y, particles):
    """Distance of each Y[i] (dc,) to the k-th nearest of particles[i] (L, dc): (n,)."""
    n = Y.shape[0]
    out = np.empty(n)
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        _scores(metric, length, k, Y, particles, out, chunk * CHUNK, min(n, (chunk + 1) * CHUNK))
    return out


@njit(cache=True)
def kth_squared(metric, length, k, y, cloud):
    """Squared distance of y (dc,) to the k-th nearest particle of `cloud` (L, dc), without a work array.

    It steps from one distance to the next larger one and counts ties. This is slower than keeping the k nearest, but a
    GPU thread has very little memory. NaN where a distance is NaN.
    """
    reached, squared = 0, -1.0
    while reached < k:
        nearest, equal = math.inf, 0
        for l in range(cloud.shape[0]):
            d = squared_distance(metric, length, y, cloud[l])
            if d > squared and d < nearest:
                nearest, equal = d, 1
            elif d == nearest:
                equal += 1
        if equal == 0:
            return math.nan
        reached, squared = reached + equal, nearest
    return squared


@njit(cache=True, inline="always")
def enough_within(metric, length, k, limit, y, cloud):
    """Whether at least k particles of `cloud` (L, dc) lie within squared distance `limit` of y (dc,)."""
    count = 0
    if metric == EUCLIDEAN and y.shape[0] == 2:
        # the same sum as below, written out: without the loop over axes the compiler vectorises the loop over particles
        for l in range(cloud.shape[0]):
            dx = y[0] - cloud[l, 0]
            dy = y[1] - cloud[l, 1]
            count += dx * dx + dy * dy <= limit
    else:
        for l in range(cloud.shape[0]):
            count += squared_distance(metric, length, y, cloud[l]) <= limit
    return count >= k


@njit(cache=True)
def _within(metric, length, k, Y, particles, q, out, start, stop):
    rows_each, distances = Y.shape[0] // max(1, particles.shape[0]), np.empty(particles.shape[1])
    rows = np.empty((particles.shape[2], particles.shape[1]))
    for i in range(start, stop):
        limit, cloud = squared_limit(q[i]), particles[i // rows_each]
        if metric == BLOCKS:
            find_distances(metric, length, Y[i], cloud, rows, distances)
            count = 0
            for l in range(cloud.shape[0]):
                count += distances[l] <= limit
            out[i] = count >= k
        else:
            out[i] = enough_within(metric, length, k, limit, Y[i], cloud)


@parallel_kernel(cache=True)
def within_pairs(metric, length, k, Y, particles, q):
    """Whether Y[i] has its k-th nearest particle within q[i]: bool (n,). Each cloud is used for equally many rows."""
    n = Y.shape[0]
    out = np.empty(n, dtype=np.bool_)
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        _within(metric, length, k, Y, particles, q, out, chunk * CHUNK, min(n, (chunk + 1) * CHUNK))
    return out
