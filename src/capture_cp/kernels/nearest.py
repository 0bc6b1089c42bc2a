"""k-th-nearest-particle scores, and the rule that replaces them wherever membership is asked.

The k-th nearest of L particles is within q exactly when at least k particles are within q: nothing is sorted to decide
membership, and the two kernels agree to the last bit because they compare the same squared distances.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import EUCLIDEAN, squared_distance, squared_limit

CHUNK = 1024


@njit(cache=True)
def _scores(metric, length, k, Y, particles, out, start, stop):
    nearest = np.empty(k)
    for i in range(start, stop):
        for j in range(k):
            nearest[j] = math.inf
        for l in range(particles.shape[1]):
            d = squared_distance(metric, length, Y[i], particles[i, l])
            if d < nearest[k - 1]:
                j = k - 1
                while j > 0 and nearest[j - 1] > d:
                    nearest[j] = nearest[j - 1]
                    j -= 1
                nearest[j] = d
        out[i] = math.sqrt(nearest[k - 1])


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
    """Squared distance of y (dc,) to the k-th nearest particle of `cloud` (L, dc), with no room to sort in.

    From one distance to the next larger one, counting equal ones: slower than keeping the k nearest, but a GPU's threads
    have no memory of their own to speak of. NaN where distances are.
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
        # the same sum as below, spelt out: without the loop over axes the compiler vectorises the one over particles
        for l in range(cloud.shape[0]):
            dx = y[0] - cloud[l, 0]
            dy = y[1] - cloud[l, 1]
            count += dx * dx + dy * dy <= limit
    else:
        for l in range(cloud.shape[0]):
            count += squared_distance(metric, length, y, cloud[l]) <= limit
    return count >= k


@parallel_kernel(cache=True)
def within_pairs(metric, length, k, Y, particles, q):
    """Whether Y[i] has its k-th nearest particle within q[i]: bool (n,). Each cloud serves equally many rows in turn."""
    n = Y.shape[0]
    rows_each = n // max(1, particles.shape[0])
    out = np.empty(n, dtype=np.bool_)
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        for i in range(np.int64(chunk) * CHUNK, min(n, (np.int64(chunk) + 1) * CHUNK)):
            out[i] = enough_within(metric, length, k, squared_limit(q[i]), Y[i], particles[i // rows_each])
    return out
