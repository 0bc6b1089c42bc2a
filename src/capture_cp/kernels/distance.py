"""Scalar distance rules. No square root is compared: thresholds are squared once, exactly."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

EUCLIDEAN = 0
SE2 = 1


@njit(cache=True, inline="always")
def nearest_whole(x):
    """The whole number nearest to x, as `np.rint` finds it, which GPUs lack: beside 1.5 · 2⁵² a fraction has no room."""
    return (x + 6755399441055744.0) - 6755399441055744.0


@njit(cache=True, inline="always")
def squared_distance(metric, length, y, p):
    """Squared distance of configurations `y` and `p`, both (dc,).

    SE(2): with ω the wrapped angle between the poses and t the translation between them, the logarithm-map distance is
    ‖(ρ, ℓω)‖ with ‖ρ‖ = ‖t‖ · (ω/2)/sin(ω/2); the rotation of the first pose drops out.
    """
    if metric == EUCLIDEAN:
        total = 0.0
        for axis in range(y.shape[0]):
            step = y[axis] - p[axis]
            total += step * step
        return total
    omega = p[2] - y[2]
    omega -= 2.0 * math.pi * nearest_whole(omega / (2.0 * math.pi))
    half = 0.5 * omega
    stretch = half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0
    dx = p[0] - y[0]
    dz = p[1] - y[1]
    turn = length * omega
    return (dx * dx + dz * dz) * stretch * stretch + turn * turn


@njit(cache=True)
def outside_box(y, cloud):
    """How far y (dc,) lies outside the bounding box of `cloud` (L, dc) along its worst axis, 0 inside."""
    farthest = 0.0
    for axis in range(y.shape[0]):
        low, high = cloud[0, axis], cloud[0, axis]
        for l in range(1, cloud.shape[0]):
            low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        farthest = max(farthest, max(low - y[axis], y[axis] - high))
    return farthest


@njit(cache=True)
def squared_limit(q):
    """The largest t with √t ≤ q, so that `t <= squared_limit(q)` is exactly `√t <= q` in floating point."""
    if q < 0.0:
        return -1.0
    if not q < math.inf:
        return math.inf
    t = q * q
    while t > 0.0 and math.sqrt(t) > q:
        t = np.nextafter(t, 0.0)
    while math.sqrt(np.nextafter(t, math.inf)) <= q:
        t = np.nextafter(t, math.inf)
    return t
