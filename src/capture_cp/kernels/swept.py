"""Signed distances and strata of a robot made of balls and capsules, inside compiled rollouts and at many configurations.

`swept_distances` and `swept_stratum` run in any function that numba compiles, on the CPU or as part of a GPU kernel. They
allocate nothing: the caller passes `frames`, a table for the links (links, 12), and `out`, one number per pair.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import Bools, Floats
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.boxes import box_box
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.kinematics import place_links
from capture_cp.kernels.solids import frame_at, point_box, rotated, seen_from, segment_box, segment_segment, shifted

#: Kinds of objects that a cover is measured against.
PLANE, BOX, COVER = range(3)
#: Configurations that one thread processes at a time, with one table of frames.
SHARE = 256


class Swept(NamedTuple):
    """A robot and the objects it may touch. A cover is balls and capsules on one link; an item is a cover and one object.

    A frame is identified by the number of its link, or by -1 - i for row i of `still`.
    """

    parent: Any  #: (k,) links, as in `kinematics.Links`, down to `held`
    kind: Any  #: (k,)
    first: Any  #: (k,)
    zero: Any  #: (k,)
    fixed: Any  #: (k, 12)
    axis: Any  #: (k, 3)
    column: Any  #: (nq,)
    held: Any  #: (nq,)
    still: Any  #: (s, 12) frames that do not move
    frame: Any  #: (c,) frame of each cover
    ball: Any  #: (c, 4) a ball that contains the cover: centre, radius
    start: Any  #: (c + 1,) first segment of each cover
    segments: Any  #: (b, 7) start, vector to the end (0 for a ball), radius
    items: Any  #: (i, 4) cover; PLANE, BOX or COVER; frame of the plane or box, or number of the other cover; pair
    size: Any  #: (i, 3) half sizes of the box
    codes: Any  #: (m,) contacts of strata, ascending, bit p for pair p
    numbers: Any  #: (m,) stratum of each code
    rest: int  #: stratum of other codes, -1 if there are none
    tolerance: float
    depth: float


@njit(cache=True, error_model="numpy", inline="always")
def frame_of(f, frames, still):
    """The frame of link f, or a frame that does not move."""
    return frame_at(frames, f) if f >= 0 else frame_at(still, -1 - f)


@njit(cache=True, error_model="numpy")
def _relative(one, other):
    """Frame `one` relative to frame `other`: twelve numbers."""
    x, y, z, a, b, c, d, e, f, g, h, i = one
    u, v, w, p, q, r, s, t, k, l, m, n = other
    x, y, z = x - u, y - v, z - w
    return (
        p * x + s * y + l * z, q * x + t * y + m * z, r * x + k * y + n * z,
        p * a + s * d + l * g, p * b + s * e + l * h, p * c + s * f + l * i,
        q * a + t * d + m * g, q * b + t * e + m * h, q * c + t * f + m * i,
        r * a + k * d + n * g, r * b + k * e + n * h, r * c + k * f + n * i,
    )  # fmt: skip


@njit(cache=True, error_model="numpy", inline="always")
def _from_plane(cover, swept, seen):
    """Least signed distance of a cover's segments to the plane z = 0; `seen` is its frame relative to the plane's."""
    segments, best = swept.segments, math.inf
    for i in range(swept.start[cover], swept.start[cover + 1]):
        low = seen[2] + seen[9] * segments[i, 0] + seen[10] * segments[i, 1] + seen[11] * segments[i, 2]
        rise = seen[9] * segments[i, 3] + seen[10] * segments[i, 4] + seen[11] * segments[i, 5]
        best = min(best, low + min(rise, 0.0) - segments[i, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def _from_box(cover, swept, seen, a, b, c):
    """Least signed distance of a cover's segments to a box of half sizes (a, b, c)."""
    segments, best = swept.segments, math.inf
    for i in range(swept.start[cover], swept.start[cover + 1]):
        x, y, z = shifted(seen, segments[i, 0], segments[i, 1], segments[i, 2])
        ux, uy, uz = segments[i, 3], segments[i, 4], segments[i, 5]
        if ux == 0.0 and uy == 0.0 and uz == 0.0:
            best = min(best, point_box(x, y, z, a, b, c) - segments[i, 6])
        else:
            ux, uy, uz = rotated(seen, ux, uy, uz)
            best = min(best, segment_box(x, y, z, ux, uy, uz, a, b, c) - segments[i, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def _from_cover(cover, other, swept, seen):
    """Least signed distance of a cover's segments to those of another cover."""
    segments, best = swept.segments, math.inf
    for i in range(swept.start[cover], swept.start[cover + 1]):
        x, y, z = shifted(seen, segments[i, 0], segments[i, 1], segments[i, 2])
        ux, uy, uz = rotated(seen, segments[i, 3], segments[i, 4], segments[i, 5])
        for j in range(swept.start[other], swept.start[other + 1]):
            wx, wy, wz = x - segments[j, 0], y - segments[j, 1], z - segments[j, 2]
            apart = segment_segment(wx, wy, wz, ux, uy, uz, segments[j, 3], segments[j, 4], segments[j, 5])
            best = min(best, apart - segments[i, 6] - segments[j, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def item_distance(number, x, y, z, frames, swept, best):
    """Signed distance of an item whose cover's ball is at (x, y, z); beyond `best`, a lower bound above `best`.

    Infinite if the distance is at most `best` as far as the balls can tell, and a cover has no segments.
    """
    cover, kind, other = swept.items[number, 0], swept.items[number, 1], swept.items[number, 2]
    a, b, c = swept.size[number, 0], swept.size[number, 1], swept.size[number, 2]
    place = frame_of(swept.frame[other] if kind == COVER else other, frames, swept.still)
    x, y, z = seen_from(place, x, y, z)
    if kind == PLANE:
        bound = z
    elif kind == BOX:
        bound = point_box(x, y, z, a, b, c)
    else:
        x, y, z = x - swept.ball[other, 0], y - swept.ball[other, 1], z - swept.ball[other, 2]
        bound = math.sqrt(x * x + y * y + z * z) - swept.ball[other, 3]
    bound -= swept.ball[cover, 3]
    if bound > best:
        return bound
    seen = _relative(frame_of(swept.frame[cover], frames, swept.still), place)
    if kind == PLANE:
        return _from_plane(cover, swept, seen)
    if kind == BOX:
        return _from_box(cover, swept, seen, a, b, c)
    return _from_cover(cover, other, swept, seen)


@njit(cache=True, error_model="numpy", inline="always")
def swept_distances(swept, y, frames, within, out):
    """Write the signed distance of every pair at a configuration y (dc,) into `out` (pairs,).

    Beyond `within` any larger number may be written; pass `math.inf` for exact distances. `frames` (links, 12) is
    overwritten.
    """
    swept = borrowed(swept)
    place_links(swept, y, frames)
    for p in range(out.shape[0]):
        out[p] = math.inf
    last, bx, by, bz = -1, 0.0, 0.0, 0.0
    for number in range(swept.items.shape[0]):
        cover, pair = swept.items[number, 0], swept.items[number, 3]
        if cover != last:
            row = frame_of(swept.frame[cover], frames, swept.still)
            last = cover
            bx, by, bz = shifted(row, swept.ball[cover, 0], swept.ball[cover, 1], swept.ball[cover, 2])
        apart = item_distance(number, bx, by, bz, frames, swept, min(out[pair], within))
        out[pair] = min(out[pair], apart)


@njit(cache=True, error_model="numpy", inline="always")
def stratum_of(out, codes, numbers, rest, tolerance, depth):
    """Stratum of signed distances (pairs,), -1 where infeasible."""
    code, bit = 0, 1
    for p in range(out.shape[0]):
        if out[p] < -depth:
            return -1
        if out[p] <= tolerance:
            code += bit
        bit *= 2
    low, high = 0, codes.shape[0]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return numbers[low] if low < codes.shape[0] and codes[low] == code else rest


@njit(cache=True, error_model="numpy", inline="always")
def swept_stratum(swept, y, frames, out):
    """Stratum of a configuration y (dc,), -1 where infeasible. `frames` (links, 12) and `out` (pairs,) are overwritten."""
    swept_distances(swept, y, frames, swept.tolerance, out)
    return stratum_of(out, swept.codes, swept.numbers, swept.rest, swept.tolerance, swept.depth)


# -- many configurations --------------------------------------------------------------------------------------------------


class Boxes(NamedTuple):
    """The first box of every item that is a pair of two boxes, without a cover; the second is the item's object."""

    frame: Any  #: (i,) its frame, as in `Swept`
    half: Any  #: (i, 3) its half sizes; 0 for other items


@njit(cache=True, error_model="numpy")
def _some_items(Y, swept, boxes, within, begin, end, table, known, frames):
    """Rows begin to end of the tables of distances of items and whether they are known; `frames` is overwritten."""
    Y, swept, boxes, table, known, frames = borrowed((Y, swept, boxes, table, known, frames))
    for i in range(begin, end):
        place_links(swept, Y[i], frames)
        for number in range(swept.items.shape[0]):
            cover, half = swept.items[number, 0], boxes.half[number]
            row = frame_of(swept.frame[cover], frames, swept.still)
            x, y, z = shifted(row, swept.ball[cover, 0], swept.ball[cover, 1], swept.ball[cover, 2])
            apart = item_distance(number, x, y, z, frames, swept, within)
            known[i, number] = apart < math.inf or half[0] > 0.0
            if apart == math.inf and half[0] > 0.0:
                size = swept.size[number]
                one = frame_of(boxes.frame[number], frames, swept.still)
                other = frame_of(swept.items[number, 2], frames, swept.still)
                apart = box_box(one, other, half[0], half[1], half[2], size[0], size[1], size[2], within)
            elif apart == math.inf:  # with the limit -inf, a lower bound
                apart = item_distance(number, x, y, z, frames, swept, -math.inf)
            table[i, number] = apart


@parallel_kernel(cache=True)
def _all_items(Y, swept, boxes, within, table, known):
    n = Y.shape[0]
    for share in prange((n + SHARE - 1) // SHARE):
        frames = np.empty((swept.parent.shape[0], 12))
        _some_items(Y, swept, boxes, within, share * SHARE, min(n, (share + 1) * SHARE), table, known, frames)


def item_distances(Y: Floats, swept: Swept, boxes: Boxes, within: float) -> tuple[Floats, Bools]:
    """Signed distance of every item at configurations Y (n, dc), and whether it is known: (n, i) and (n, i).

    Beyond `within`, and where they are unknown for lack of a cover, distances are lower bounds.
    """
    table, known = np.empty((len(Y), len(swept.items))), np.empty((len(Y), len(swept.items)), dtype=np.bool_)
    if len(Y) <= SHARE:  # waking threads would take longer
        _some_items(Y, swept, boxes, within, 0, len(Y), table, known, np.empty((len(swept.parent), 12)))
    else:
        _all_items(Y, swept, boxes, within, table, known)
    return table, known
