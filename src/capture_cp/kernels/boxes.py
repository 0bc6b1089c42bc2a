"""Exact signed distance between two boxes.

One box is axis-aligned at the origin, with half sizes (a, b, c). The other has half sizes (p, q, s), its centre at
(x, y, z), and its edges along the columns of a rotation (xx xy xz / yx yy yz / zx zy zz). All arguments are plain numbers;
no array is allocated.
"""

from __future__ import annotations

import math

from numba import njit

from capture_cp.kernels.solids import CLOSE, PARALLEL, rotated_back, seen_from, squared_from_box, squared_outside


@njit(cache=True, error_model="numpy")
def _along_faces(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz):
    """Largest gap along a face normal of either box."""
    gap = max(
        abs(x) - a - p * abs(xx) - q * abs(xy) - s * abs(xz),
        abs(y) - b - p * abs(yx) - q * abs(yy) - s * abs(yz),
        abs(z) - c - p * abs(zx) - q * abs(zy) - s * abs(zz),
    )
    return max(
        gap,
        abs(x * xx + y * yx + z * zx) - p - a * abs(xx) - b * abs(yx) - c * abs(zx),
        abs(x * xy + y * yy + z * zy) - q - a * abs(xy) - b * abs(yy) - c * abs(zy),
        abs(x * xz + y * yz + z * zz) - s - a * abs(xz) - b * abs(yz) - c * abs(zz),
    )


@njit(cache=True, error_model="numpy")
def _across(u, v, b, c, y, z, q, s, one, two, gap):
    """Gap along the direction across an edge of each box, or `gap` if it is larger.

    (u, v) are the components of the second edge across the first; (b, c) and (y, z) are the half sizes and the centre on
    those two axes; (one, two) are the components along the first edge of the second box's other edges, of half sizes (s, q).
    """
    length = math.sqrt(u * u + v * v)
    if length <= PARALLEL:
        return gap
    reach = b * abs(v) + c * abs(u) + q * abs(one) + s * abs(two)
    return max(gap, (abs(y * v - z * u) - reach) / length)


@njit(cache=True, error_model="numpy")
def _across_edges(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz, gap):
    """Largest gap along a direction across an edge of each box, or `gap` if it is larger."""
    gap = _across(yx, zx, b, c, y, z, q, s, xz, xy, gap)
    gap = _across(yy, zy, b, c, y, z, s, p, xx, xz, gap)
    gap = _across(yz, zz, b, c, y, z, p, q, xy, xx, gap)
    gap = _across(zx, xx, c, a, z, x, q, s, yz, yy, gap)
    gap = _across(zy, xy, c, a, z, x, s, p, yx, yz, gap)
    gap = _across(zz, xz, c, a, z, x, p, q, yy, yx, gap)
    gap = _across(xx, yx, a, b, x, y, q, s, zz, zy, gap)
    gap = _across(xy, yy, a, b, x, y, s, p, zx, zz, gap)
    return _across(xz, yz, a, b, x, y, p, q, zy, zx, gap)


@njit(cache=True, error_model="numpy")
def _squared_from_corners(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz):
    """Least squared distance of the corners of the second box to the first."""
    least = math.inf
    for corner in range(8):
        i, j, k = p if corner & 1 else -p, q if corner & 2 else -q, s if corner & 4 else -s
        u, v, w = x + i * xx + j * xy + k * xz, y + i * yx + j * yy + k * yz, z + i * zx + j * zy + k * zz
        least = min(least, squared_outside(u, v, w, a, b, c))
    return least


@njit(cache=True, error_model="numpy")
def _squared_from_edges(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz, least, enough):
    """Least squared distance of the second box's edges to the first, or `least` if smaller; stops once it is <= `enough`."""
    for edge in range(12):
        one, two = 1.0 if edge & 1 else -1.0, 1.0 if edge & 2 else -1.0
        i, j, k, ux, uy, uz = -p, one * q, two * s, 2.0 * p * xx, 2.0 * p * yx, 2.0 * p * zx
        if edge >= 8:
            i, j, k, ux, uy, uz = one * p, two * q, -s, 2.0 * s * xz, 2.0 * s * yz, 2.0 * s * zz
        elif edge >= 4:
            i, j, k, ux, uy, uz = one * p, -q, two * s, 2.0 * q * xy, 2.0 * q * yy, 2.0 * q * zy
        u, v, w = x + i * xx + j * xy + k * xz, y + i * yx + j * yy + k * yz, z + i * zx + j * zy + k * zz
        # the axis-aligned box around the edge is no farther away than the edge
        wide, long, high = a + 0.5 * abs(ux), b + 0.5 * abs(uy), c + 0.5 * abs(uz)
        if squared_outside(u + 0.5 * ux, v + 0.5 * uy, w + 0.5 * uz, wide, long, high) < least:
            least = min(least, squared_from_box(u, v, w, ux, uy, uz, a, b, c))
            if least <= enough:
                break
    return least


@njit(cache=True, error_model="numpy", inline="always")
def box_box(one, other, a, b, c, p, q, s, within):
    """Signed distance of boxes in frames `one` and `other`; beyond `within`, a lower bound above it."""
    x, y, z = seen_from(one, other[0], other[1], other[2])
    xx, yx, zx = rotated_back(one, other[3], other[6], other[9])
    xy, yy, zy = rotated_back(one, other[4], other[7], other[10])
    xz, yz, zz = rotated_back(one, other[5], other[8], other[11])
    gap = _along_faces(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz)
    if gap > within:
        return gap
    gap = _across_edges(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz, gap)
    if gap <= 0.0 or gap > within:
        return gap  # the depth of an overlap is the depth along one of these directions
    # apart: the gap is the distance between a corner and a face or between two edges, and less than that of other parts
    enough = gap * gap * (1.0 + CLOSE)
    u, v, w = -(x * xx + y * yx + z * zx), -(x * xy + y * yy + z * zy), -(x * xz + y * yz + z * zz)
    squared = math.inf
    for turn in range(2):  # the corners of the smaller box first: one that faces a face of the larger box settles it
        if (turn == 0) == (p + q + s < a + b + c):
            other = _squared_from_corners(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz)
        else:
            other = _squared_from_corners(p, q, s, a, b, c, u, v, w, xx, yx, zx, xy, yy, zy, xz, yz, zz)
        squared = min(squared, other)
        if squared <= enough:
            break
    if squared > enough:
        squared = _squared_from_edges(a, b, c, p, q, s, x, y, z, xx, xy, xz, yx, yy, yz, zx, zy, zz, squared, enough)
    return math.sqrt(squared)
