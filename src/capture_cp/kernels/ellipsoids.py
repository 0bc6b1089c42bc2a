"""Bent ellipsoids: how many of them contain a configuration, and its least radius over all of them.

A bent ellipsoid has a centre c (dc,), axes W (dc, dc) and bends F (dc, P). With z = W (y - c), its first T axes are u_i =
z_i; the others are u_i = G_i (z_i - F_i · f), where f holds 1, the first T axes and their products. It is where ‖u‖ <= 1.
The bends preserve volume.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import nearest_whole


@njit(cache=True)
def _bend(u, bends, tangent):
    """F_i · f of one axis, from the first T entries of u."""
    total, next_product = bends[0], 1 + tangent
    for a in range(tangent):
        total += bends[1 + a] * u[a]
        for b in range(a, tangent):
            total += bends[next_product] * u[a] * u[b]
            next_product += 1
    return total


@njit(cache=True)
def _squared_radius(y, centre, whiten, gains, bends, tangent, is_angle, most, u):
    """‖u‖² of one configuration, or any number above `most` if it exceeds that; `u` (2 dc,) is a work array."""
    total, dims = 0.0, centre.shape[0]
    for axis in range(dims):
        step = y[axis] - centre[axis]
        if is_angle[axis]:
            step -= 2.0 * math.pi * nearest_whole(step / (2.0 * math.pi))
        u[dims + axis] = step
    for row in range(dims):
        z = 0.0
        for axis in range(dims):
            z += whiten[row, axis] * u[dims + axis]
        u[row] = z if row < tangent else gains[row] * (z - _bend(u, bends[row], tangent))
        total += u[row] * u[row]
        if total > most:
            break
    return total


@parallel_kernel(cache=True)
def count_holding(Y, centres, whiten, gains, bends, tangent, is_angle):
    """How many of the K ellipsoids contain each Y[i] (dc,): (n,)."""
    out = np.empty(Y.shape[0], dtype=np.int64)
    for i in prange(Y.shape[0]):
        u, found = np.empty(2 * Y.shape[1]), 0
        for j in range(centres.shape[0]):
            if _squared_radius(Y[i], centres[j], whiten[j], gains[j], bends[j], tangent, is_angle, 1.0, u) <= 1.0:
                found += 1
        out[i] = found
    return out


@parallel_kernel(cache=True)
def which_hold(Y, centres, whiten, gains, bends, tangent, is_angle):
    """Whether each of the K ellipsoids contains each Y[i] (dc,): (n, K)."""
    out = np.empty((Y.shape[0], centres.shape[0]), dtype=np.bool_)
    for i in prange(Y.shape[0]):
        u = np.empty(2 * Y.shape[1])
        for j in range(centres.shape[0]):
            found = _squared_radius(Y[i], centres[j], whiten[j], gains[j], bends[j], tangent, is_angle, 1.0, u)
            out[i, j] = found <= 1.0
    return out


@parallel_kernel(cache=True)
def least_squared(Y, centres, whiten, gains, bends, tangent, is_angle):
    """Least ‖u‖² over the ellipsoids, for each Y[i] (dc,): (n,)."""
    out = np.empty(Y.shape[0])
    for i in prange(Y.shape[0]):
        u, least = np.empty(2 * Y.shape[1]), np.inf
        for j in range(centres.shape[0]):
            found = _squared_radius(Y[i], centres[j], whiten[j], gains[j], bends[j], tangent, is_angle, least, u)
            least = min(least, found)
        out[i] = least
    return out
