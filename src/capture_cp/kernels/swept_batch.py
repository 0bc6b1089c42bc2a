"""Vectorised signed distances and strata of a sphere-swept robot at many configurations.

The frames of LANES configurations are computed together, and so are the bounds that make most distances unnecessary. The
remaining distances are computed one by one. Results are bit-identical to `swept.swept_distances`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import Floats, Ints
from capture_cp.kernels.compiler import WithoutCopies, parallel_kernel
from capture_cp.kernels.lanes import LANES, place_lanes
from capture_cp.kernels.solids import point_box
from capture_cp.kernels.swept import BOX, COVER, PLANE, Swept, exact, frame_row, relative, seen_from, shifted, stratum_of

#: Configurations that one thread processes at a time.
SHARE = 4 * LANES


@njit(cache=True, error_model="numpy", inline="always")
def _lane_row(f, frames, still, l):
    """The twelve numbers of a frame in one lane."""
    if f < 0:
        return frame_row(f, still, still)
    return (
        frames[f, 0, l], frames[f, 1, l], frames[f, 2, l], frames[f, 3, l], frames[f, 4, l], frames[f, 5, l],
        frames[f, 6, l], frames[f, 7, l], frames[f, 8, l], frames[f, 9, l], frames[f, 10, l], frames[f, 11, l],
    )  # fmt: skip


@njit(cache=True, error_model="numpy", inline="always")
def _above_plane(middle, place, radius, out):
    """Lower bounds (LANES,) of the distances from balls around points (3, LANES) to a plane."""
    for l in range(LANES):
        out[l] = seen_from(place, middle[0, l], middle[1, l], middle[2, l])[2] - radius


@njit(cache=True, error_model="numpy", inline="always")
def _outside_box(middle, place, a, b, c, radius, out):
    """Lower bounds (LANES,) of the distances from balls around points (3, LANES) to a box of half sizes (a, b, c)."""
    for l in range(LANES):
        u, v, w = seen_from(place, middle[0, l], middle[1, l], middle[2, l])
        u, v, w = abs(u) - a, abs(v) - b, abs(w) - c
        i, j, k = max(u, 0.0), max(v, 0.0), max(w, 0.0)
        squared = i * i + j * j + k * k
        out[l] = (math.sqrt(squared) if squared > 0.0 else max(u, v, w)) - radius


@njit(cache=True, error_model="numpy", inline="always")
def _bounds(number, frames, still, frame, ball, items, size, middle, out):
    """Lower bounds (LANES,) of the distance of an item whose cover's ball is at `middle` (3, LANES)."""
    cover, kind, other = items[number, 0], items[number, 1], items[number, 2]
    radius = ball[cover, 3]
    if kind != COVER and other < 0:
        place = frame_row(other, still, still)
        if kind == PLANE:
            _above_plane(middle, place, radius, out)
        else:
            a, b, c = size[number, 0], size[number, 1], size[number, 2]
            _outside_box(middle, place, a, b, c, radius, out)
        return
    for l in range(LANES):
        place = _lane_row(frame[other] if kind == COVER else other, frames, still, l)
        x, y, z = seen_from(place, middle[0, l], middle[1, l], middle[2, l])
        if kind == PLANE:
            out[l] = z - radius
        elif kind == BOX:
            out[l] = point_box(x, y, z, size[number, 0], size[number, 1], size[number, 2]) - radius
        else:
            x, y, z = x - ball[other, 0], y - ball[other, 1], z - ball[other, 2]
            out[l] = math.sqrt(x * x + y * y + z * z) - ball[other, 3] - radius


@njit(cache=True, error_model="numpy", inline="always")
def _middles(cover, frames, still, frame, ball, middle):
    """Write the centre of a cover's ball in each lane to `middle` (3, LANES)."""
    f, x, y, z = frame[cover], ball[cover, 0], ball[cover, 1], ball[cover, 2]
    if f < 0:
        u, v, w = shifted(frame_row(f, still, still), x, y, z)
        middle[0, :], middle[1, :], middle[2, :] = u, v, w
        return
    for row in range(3):
        a, b, c = 3 + 3 * row, 4 + 3 * row, 5 + 3 * row
        for l in range(LANES):
            middle[row, l] = frames[f, row, l] + (frames[f, a, l] * x + frames[f, b, l] * y + frames[f, c, l] * z)


@njit(cache=True, error_model="numpy", pipeline_class=WithoutCopies)
def _some_distances(Y, swept, within, begin, end, table):
    """Rows begin to end of the table of distances. Functions of tables are inlined: references are counted once per call."""
    (
        parent, joint, entry, zero, fixed, axis, column, held,
        still, frame, ball, start, segments, items, size, _, _, _, _, _,
    ) = swept  # fmt: skip
    frames, spare, middle = np.zeros((parent.shape[0] + 1, 12, LANES)), np.empty((3, LANES)), np.empty((3, LANES))
    frames[-1, 3], frames[-1, 7], frames[-1, 11] = 1.0, 1.0, 1.0
    bound, near, out = np.empty(LANES), np.empty(LANES, dtype=np.bool_), np.empty((table.shape[1], LANES))
    for first in range(begin, end, LANES):
        lanes, last = min(LANES, end - first), -1
        place_lanes(parent, joint, entry, zero, fixed, axis, column, held, Y, first, frames, spare)
        out[:] = math.inf
        for number in range(items.shape[0]):
            cover, kind, other, pair = items[number, 0], items[number, 1], items[number, 2], items[number, 3]
            if cover != last:
                _middles(cover, frames, still, frame, ball, middle)
                last = cover
            _bounds(number, frames, still, frame, ball, items, size, middle, bound)
            for l in range(LANES):
                near[l] = bound[l] <= min(out[pair, l], within)
                out[pair, l] = out[pair, l] if near[l] else min(out[pair, l], bound[l])
            for l in range(lanes):
                if near[l]:
                    place = _lane_row(frame[other] if kind == COVER else other, frames, still, l)
                    seen = relative(_lane_row(frame[cover], frames, still, l), place)
                    out[pair, l] = min(out[pair, l], exact(number, seen, start, segments, items, size))
        for l in range(lanes):
            for p in range(table.shape[1]):
                table[first + l, p] = out[p, l]


@njit(cache=True, error_model="numpy", pipeline_class=WithoutCopies)
def _some_strata(table, swept, begin, end, found):
    """Strata of rows begin to end of the table of distances."""
    codes, numbers, rest, tolerance, depth = swept[15], swept[16], swept[17], swept[18], swept[19]
    out = np.empty(table.shape[1])
    for i in range(begin, end):
        for p in range(out.shape[0]):
            out[p] = table[i, p]
        found[i] = stratum_of(out, codes, numbers, rest, tolerance, depth)


@parallel_kernel(cache=True)
def _all_distances(Y, swept, within, table):
    n = Y.shape[0]
    for share in prange((n + SHARE - 1) // SHARE):
        _some_distances(Y, swept, within, share * SHARE, min(n, (share + 1) * SHARE), table)


def distances_of(Y: Floats, swept: Swept, pairs: int, within: float) -> Floats:
    """Signed distance of every pair at configurations Y (n, dc): (n, pairs)."""
    table = np.empty((len(Y), pairs))
    if len(Y) <= SHARE:  # waking threads would take longer
        _some_distances(Y, swept, within, 0, len(Y), table)
    else:
        _all_distances(Y, swept, within, table)
    return table


def strata_of(Y: Floats, swept: Swept, pairs: int) -> Ints:
    """Stratum of each configuration Y (n, dc), -1 where infeasible: (n,)."""
    found, table = np.empty(len(Y), dtype=np.int64), distances_of(Y, swept, pairs, swept.tolerance)
    _some_strata(table, swept, 0, len(Y), found)
    return found
