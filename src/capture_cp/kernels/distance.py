"""Scalar distance rules. Distances are compared squared, against thresholds that are squared once, exactly."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

from capture_cp.base.layouts import EUCLIDEAN, PLANAR, SPATIAL
from capture_cp.kernels.trig import arc

TURN, PER_TURN = 2.0 * math.pi, 1.0 / (2.0 * math.pi)


@njit(cache=True, inline="always")
def nearest_whole(x):
    """x rounded to the nearest integer like `np.rint`, which GPUs lack: adding 1.5 · 2⁵² discards the fraction."""
    return (x + 6755399441055744.0) - 6755399441055744.0


@njit(cache=True, inline="always")
def _plain(metric, length, y, p):
    """Squared Euclidean distance, or squared SE(2) distance with a characteristic length."""
    if metric == EUCLIDEAN:
        total = 0.0
        for axis in range(y.shape[0]):
            step = y[axis] - p[axis]
            total += step * step
        return total
    return _planar(length, y, p, 0)


@njit(cache=True, inline="always")
def _planar(length, y, p, first):
    """Squared logarithm-map distance of SE(2) poses, whose three numbers start at index `first`.

    With ω the wrapped angle between the poses and t the translation between them, it is ‖(ρ, ℓω)‖² with ‖ρ‖ = ‖t‖ ·
    (ω/2)/sin(ω/2); the rotation of the first pose drops out.
    """
    omega = p[first + 2] - y[first + 2]
    omega -= 2.0 * math.pi * nearest_whole(omega / (2.0 * math.pi))
    half = 0.5 * omega
    stretch = _stretch(half)
    dx = p[first] - y[first]
    dz = p[first + 1] - y[first + 1]
    turn = length * omega
    return (dx * dx + dz * dz) * stretch * stretch + turn * turn


@njit(cache=True, inline="always")
def _stretch(half):
    """Ratio of an arc to its chord, for half the angle between its ends: half / sin(half)."""
    return half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0


@njit(cache=True, inline="always")
def _spatial(length, dx, dy, dz, a, b, c, d, e, f, g, h):
    """Squared logarithm-map distance of SE(3) poses, from their translation and their quaternions (w, x, y, z).

    With a rotation by ω about an axis between the poses, the part of the translation along that axis is unchanged, and the
    part across it is stretched by (ω/2)/sin(ω/2), as in the plane. q and -q are the same rotation. The code has no branch,
    so that loops over particles are vectorised.
    """
    w = e * a + f * b + g * c + h * d  # of the product of the second quaternion and the conjugate of the first
    u = -e * b + f * a - g * d + h * c
    v = -e * c + f * d + g * a - h * b
    z = -e * d - f * c + g * b + h * a
    squares = u * u + v * v + z * z
    half = arc(math.sqrt(squares), abs(w))
    turned = half > 1e-4
    one_over = 1.0 / (squares if turned else 1.0)
    along = dx * u + dy * v + dz * z
    along = along * along * one_over if turned else 0.0
    # the square of half / sin(half), from the known sine, for quaternions of any length
    stretch = half * half * (1.0 + w * w * one_over) if turned else 1.0 + half * half / 3.0
    across = dx * dx + dy * dy + dz * dz - along
    turn = 2.0 * length * half
    return along + (across if across > 0.0 else 0.0) * stretch + turn * turn


@njit(cache=True, inline="always")
def _blocks(blocks, y, p):
    """Squared distance on a product of spaces: `blocks` (dc, 3) holds the kind, weight and length of each axis.

    The length of a circle is a full turn; the length of a line is 0.
    """
    total, axis = 0.0, 0
    while axis < y.shape[0]:
        kind, weight = blocks[axis, 0], blocks[axis, 1]
        if kind == PLANAR:
            total += weight * weight * _planar(blocks[axis, 2], y, p, axis)
            axis += 3
        elif kind == SPATIAL:
            total += weight * weight * _spatial(
                blocks[axis, 2], p[axis] - y[axis], p[axis + 1] - y[axis + 1], p[axis + 2] - y[axis + 2],
                y[axis + 3], y[axis + 4], y[axis + 5], y[axis + 6], p[axis + 3], p[axis + 4], p[axis + 5], p[axis + 6],
            )  # fmt: skip
            axis += 7
        else:
            step = y[axis] - p[axis]
            step = weight * (step - blocks[axis, 2] * nearest_whole(step * PER_TURN))
            total += step * step
            axis += 1
    return total


def squared_distance(metric, scale, y, p):
    """Squared distance of configurations `y` and `p`, both (dc,), inside compiled code.

    `scale` is a characteristic length of the metric EUCLIDEAN or SE2, a table (dc, 3) of the axes of a product of spaces, or
    a compiled function `(y, p) -> squared distance`.
    """
    if callable(scale):
        return scale(y, p)
    return _blocks(scale, y, p) if np.ndim(scale) else _plain(metric, scale, y, p)


@overload(squared_distance)
def _squared_distance(metric, scale, y, p):
    if isinstance(scale, types.Array):  # type: ignore[attr-defined]
        return lambda metric, scale, y, p: _blocks(scale, y, p)
    if isinstance(scale, types.Callable):  # type: ignore[attr-defined]
        return lambda metric, scale, y, p: scale(y, p)
    return lambda metric, scale, y, p: _plain(metric, scale, y, p)


@njit(cache=True, error_model="numpy")
def table_distances(blocks, y, cloud, rows, out):
    """Squared distances of y (dc,) from all particles of `cloud` (L, dc) on a product of spaces, into out (L,).

    Bit-identical to `_blocks`, but computed one axis at a time for all particles; rows (dc, L) is a work array.
    """
    particles, axis = cloud.shape[0], 0
    for l in range(particles):
        out[l] = 0.0
        for s in range(y.shape[0]):
            rows[s, l] = cloud[l, s]
    while axis < y.shape[0]:
        kind, weight, length = blocks[axis, 0], blocks[axis, 1], blocks[axis, 2]
        if kind == PLANAR:
            for l in range(particles):
                out[l] += weight * weight * _planar(length, y, cloud[l], axis)
            axis += 3
        elif kind == SPATIAL:
            x, b, c, d, e, f, g = y[axis], y[axis + 1], y[axis + 2], y[axis + 3], y[axis + 4], y[axis + 5], y[axis + 6]
            for l in range(particles):
                out[l] += weight * weight * _spatial(
                    length, rows[axis, l] - x, rows[axis + 1, l] - b, rows[axis + 2, l] - c, d, e, f, g,
                    rows[axis + 3, l], rows[axis + 4, l], rows[axis + 5, l], rows[axis + 6, l],
                )  # fmt: skip
            axis += 7
        else:
            here = y[axis]
            for l in range(particles):
                step = here - rows[axis, l]
                step = weight * (step - length * nearest_whole(step * PER_TURN))
                out[l] += step * step
            axis += 1


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
