"""Signed distances and strata of a robot made of balls and capsules, for use inside compiled rollouts.

`swept_distances` and `swept_stratum` run in any function that numba compiles, on the CPU or as part of a GPU kernel. They
allocate nothing: the caller passes `frames`, a table for the links (links, 12), and `out`, one number per pair.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from capture_cp.kernels.kinematics import place_each
from capture_cp.kernels.solids import point_box, segment_box, segment_segment

#: Kinds of objects that a cover is measured against.
PLANE, BOX, COVER = range(3)


class Swept(NamedTuple):
    """A robot and the objects it may touch. A cover is balls and capsules on one link; an item is a cover and one object.

    A frame is identified by the number of its link, or by -1 - i for row i of `still`.
    """

    parent: Any  #: (k,) links, as in `kinematics.Links`, down to `held`
    joint: Any  #: (k,)
    entry: Any  #: (k,)
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
def frame_row(f, frames, still):
    """The twelve numbers of a frame."""
    if f >= 0:
        return (
            frames[f, 0], frames[f, 1], frames[f, 2], frames[f, 3], frames[f, 4], frames[f, 5],
            frames[f, 6], frames[f, 7], frames[f, 8], frames[f, 9], frames[f, 10], frames[f, 11],
        )  # fmt: skip
    s = -1 - f
    return (
        still[s, 0], still[s, 1], still[s, 2], still[s, 3], still[s, 4], still[s, 5],
        still[s, 6], still[s, 7], still[s, 8], still[s, 9], still[s, 10], still[s, 11],
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def relative(one, other):
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


@njit(cache=True, error_model="numpy")
def shifted(frame, x, y, z):
    """A point given in a frame, in the frame's parent coordinates."""
    u, v, w = rotated(frame, x, y, z)
    return frame[0] + u, frame[1] + v, frame[2] + w


@njit(cache=True, error_model="numpy")
def seen_from(frame, x, y, z):
    """A point given in the frame's parent coordinates, in the frame."""
    x, y, z = x - frame[0], y - frame[1], z - frame[2]
    return (
        frame[3] * x + frame[6] * y + frame[9] * z,
        frame[4] * x + frame[7] * y + frame[10] * z,
        frame[5] * x + frame[8] * y + frame[11] * z,
    )


@njit(cache=True, error_model="numpy")
def rotated(frame, x, y, z):
    """A direction given in a frame, in the frame's parent coordinates."""
    return (
        frame[3] * x + frame[4] * y + frame[5] * z,
        frame[6] * x + frame[7] * y + frame[8] * z,
        frame[9] * x + frame[10] * y + frame[11] * z,
    )


@njit(cache=True, error_model="numpy", inline="always")
def _from_plane(first, last, segments, seen, best):
    """Least signed distance of segments to the plane z = 0, or `best` if it is less."""
    for i in range(first, last):
        low = seen[2] + seen[9] * segments[i, 0] + seen[10] * segments[i, 1] + seen[11] * segments[i, 2]
        rise = seen[9] * segments[i, 3] + seen[10] * segments[i, 4] + seen[11] * segments[i, 5]
        best = min(best, low + min(rise, 0.0) - segments[i, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def _from_box(first, last, segments, seen, a, b, c, best):
    """Least signed distance of segments to a box of half sizes (a, b, c), or `best` if it is less."""
    for i in range(first, last):
        x, y, z = shifted(seen, segments[i, 0], segments[i, 1], segments[i, 2])
        ux, uy, uz = segments[i, 3], segments[i, 4], segments[i, 5]
        if ux == 0.0 and uy == 0.0 and uz == 0.0:
            best = min(best, point_box(x, y, z, a, b, c) - segments[i, 6])
        else:
            ux, uy, uz = rotated(seen, ux, uy, uz)
            best = min(best, segment_box(x, y, z, ux, uy, uz, a, b, c) - segments[i, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def _from_cover(first, last, segments, seen, begin, end, best):
    """Least signed distance of segments to the segments begin to end, or `best` if it is less."""
    for i in range(first, last):
        x, y, z = shifted(seen, segments[i, 0], segments[i, 1], segments[i, 2])
        ux, uy, uz = rotated(seen, segments[i, 3], segments[i, 4], segments[i, 5])
        for j in range(begin, end):
            wx, wy, wz = x - segments[j, 0], y - segments[j, 1], z - segments[j, 2]
            apart = segment_segment(wx, wy, wz, ux, uy, uz, segments[j, 3], segments[j, 4], segments[j, 5])
            best = min(best, apart - segments[i, 6] - segments[j, 6])
    return best


@njit(cache=True, error_model="numpy", inline="always")
def exact(number, seen, start, segments, items, size):
    """Signed distance of an item; `seen` is the frame of its cover relative to its object."""
    cover, kind, other = items[number, 0], items[number, 1], items[number, 2]
    first, last = start[cover], start[cover + 1]
    if kind == PLANE:
        return _from_plane(first, last, segments, seen, math.inf)
    if kind == BOX:
        return _from_box(first, last, segments, seen, size[number, 0], size[number, 1], size[number, 2], math.inf)
    return _from_cover(first, last, segments, seen, start[other], start[other + 1], math.inf)


@njit(cache=True, error_model="numpy", inline="always")
def item_distance(number, x, y, z, frames, still, frame, ball, start, segments, items, size, best):
    """Signed distance of an item whose cover's ball is at (x, y, z); beyond `best`, any number above `best`."""
    cover, kind, other = items[number, 0], items[number, 1], items[number, 2]
    place = frame_row(frame[other] if kind == COVER else other, frames, still)
    x, y, z = seen_from(place, x, y, z)
    a, b, c = size[number, 0], size[number, 1], size[number, 2]
    if kind == PLANE:
        bound = z
    elif kind == BOX:
        bound = point_box(x, y, z, a, b, c)
    else:
        x, y, z = x - ball[other, 0], y - ball[other, 1], z - ball[other, 2]
        bound = math.sqrt(x * x + y * y + z * z) - ball[other, 3]
    bound -= ball[cover, 3]
    if bound > best:
        return bound
    seen = relative(frame_row(frame[cover], frames, still), place)
    return exact(number, seen, start, segments, items, size)


@njit(cache=True, error_model="numpy", inline="always")
def distances_at(
    parent, joint, entry, zero, fixed, axis, column, held,
    still, frame, ball, start, segments, items, size, y, frames, within, out,
):  # fmt: skip
    """`swept_distances`, with the fields of `Swept` as separate arguments."""
    place_each(parent, joint, entry, zero, fixed, axis, column, held, y, frames)
    for p in range(out.shape[0]):
        out[p] = math.inf
    last, bx, by, bz = -1, 0.0, 0.0, 0.0
    for number in range(items.shape[0]):
        cover, pair = items[number, 0], items[number, 3]
        if cover != last:
            row = frame_row(frame[cover], frames, still)
            last = cover
            bx, by, bz = shifted(row, ball[cover, 0], ball[cover, 1], ball[cover, 2])
        best = min(out[pair], within)
        apart = item_distance(number, bx, by, bz, frames, still, frame, ball, start, segments, items, size, best)
        out[pair] = min(out[pair], apart)


@njit(cache=True, error_model="numpy", inline="always")
def swept_distances(swept, y, frames, within, out):
    """Write the signed distance of every pair at a configuration y (dc,) into `out` (pairs,).

    Beyond `within` any larger number may be written; pass `math.inf` for exact distances. `frames` (links, 12) is
    overwritten.
    """
    distances_at(
        swept.parent, swept.joint, swept.entry, swept.zero, swept.fixed, swept.axis, swept.column, swept.held,
        swept.still, swept.frame, swept.ball, swept.start, swept.segments, swept.items, swept.size,
        y, frames, within, out,
    )  # fmt: skip


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
