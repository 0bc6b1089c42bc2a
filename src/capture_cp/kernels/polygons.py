"""A footprint among polygons: gaps, and how many polygons it touches at each cell.

A polygon is given by its edges (e, 4): x, y of one end, x, y of the other, all rings together. A point is inside if a ray
starting there crosses an odd number of edges, so a hole is a ring like any other. A footprint is given by its corners (v,
2); a single corner is a point.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel

#: Directions in which an overlapping footprint is moved to free it, and step lengths as fractions of the tolerance.
DIRECTIONS, LENGTHS = 32, 2
#: Depth of an overlap that contains no corner.
TINY = 1e-300
#: Fraction of the tolerance by which comparisons are relaxed: grid lines often coincide with obstacle edges.
SLACK = 1e-6


@njit(cache=True)
def squared_from_segment(px, py, ax, ay, bx, by):
    """Squared distance of a point to a segment."""
    ux, uy = bx - ax, by - ay
    squared = max(ux * ux + uy * uy, 1e-300)  # a segment may be a single point
    t = min(max(((px - ax) * ux + (py - ay) * uy) / squared, 0.0), 1.0)
    dx, dy = ax + t * ux - px, ay + t * uy - py
    return dx * dx + dy * dy


@njit(cache=True)
def inside(px, py, edges):
    """Whether a point is inside the polygon of these edges (e, 4)."""
    odd = False
    for i in range(edges.shape[0]):
        ax, ay, bx, by = edges[i, 0], edges[i, 1], edges[i, 2], edges[i, 3]
        if (ay > py) != (by > py) and px < ax + (py - ay) / (by - ay) * (bx - ax):
            odd = not odd
    return odd


@njit(cache=True)
def _side(ax, ay, bx, by, px, py):
    return (bx - ax) * (py - ay) - (by - ay) * (px - ax)


@njit(cache=True)
def cross(ax, ay, bx, by, cx, cy, dx, dy):
    """Whether two segments cross at an inner point of both."""
    one, two = _side(ax, ay, bx, by, cx, cy), _side(ax, ay, bx, by, dx, dy)
    three, four = _side(cx, cy, dx, dy, ax, ay), _side(cx, cy, dx, dy, bx, by)
    return one * two < 0.0 and three * four < 0.0


@njit(cache=True)
def first_crossing(ring):
    """Two edges of a ring (v, 2) that cross, by the numbers of their first corners; -1, -1 if there are none."""
    n = ring.shape[0]
    for i in range(n):
        a, b = ring[i], ring[(i + 1) % n]
        for j in range(i + 2, n):
            c, d = ring[j], ring[(j + 1) % n]
            if cross(a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]):
                return i, j
    return -1, -1


@njit(cache=True)
def overlaps(foot, edges, radius):
    """Whether a footprint, its edges (v, 4) in place, grown by `radius`, overlaps a polygon."""
    squared = radius * radius
    for i in range(foot.shape[0]):
        ax, ay, bx, by = foot[i, 0], foot[i, 1], foot[i, 2], foot[i, 3]
        for j in range(edges.shape[0]):
            cx, cy, dx, dy = edges[j, 0], edges[j, 1], edges[j, 2], edges[j, 3]
            if cross(ax, ay, bx, by, cx, cy, dx, dy):
                return True
            if squared > 0.0 and (
                squared_from_segment(ax, ay, cx, cy, dx, dy) < squared
                or squared_from_segment(cx, cy, ax, ay, bx, by) < squared
            ):
                return True
    # no edges cross: one polygon contains the other, or they are apart
    return inside(foot[0, 0], foot[0, 1], edges) or inside(edges[0, 0], edges[0, 1], foot)


@njit(cache=True)
def _corners(one, other):
    """Least distance of the corners of one polygon to the edges of another, and the largest of those inside it."""
    least, deepest = math.inf, 0.0
    for i in range(one.shape[0]):
        nearest = math.inf
        for j in range(other.shape[0]):
            nearest = min(
                nearest, squared_from_segment(one[i, 0], one[i, 1], other[j, 0], other[j, 1], other[j, 2], other[j, 3])
            )
        least = min(least, nearest)
        if nearest > deepest and inside(one[i, 0], one[i, 1], other):
            deepest = nearest
    return math.sqrt(least), math.sqrt(deepest)


@njit(cache=True)
def gap(foot, edges, radius):
    """Distance of a footprint, its edges (v, 4) in place, grown by `radius`, to a polygon.

    Negative where they overlap. The depth is never overestimated: no corner inside the other can leave it on a shorter path.
    """
    (one, inner), (two, outer) = _corners(foot, edges), _corners(edges, foot)
    if overlaps(foot, edges, 0.0):
        return -max(inner, outer, TINY) - radius
    return min(one, two) - radius


@njit(cache=True)
def _placed(corners, x, y):
    """Edges (v, 4) of the footprint with corners (v, 2) about (x, y)."""
    v = corners.shape[0]
    edges = np.empty((v, 4))
    for i in range(v):
        edges[i, 0], edges[i, 1] = x + corners[i, 0], y + corners[i, 1]
        edges[i, 2], edges[i, 3] = x + corners[(i + 1) % v, 0], y + corners[(i + 1) % v, 1]
    return edges


@njit(cache=True)
def _contacts(x, y, corners, edges, starts, boxes, radius, tolerance):
    """Polygons within the tolerance of a footprint, and the smallest gap."""
    count, least = 0, math.inf
    foot = _placed(corners, x, y)
    for i in range(len(starts) - 1):
        if boxes[i, 0] <= x <= boxes[i, 2] and boxes[i, 1] <= y <= boxes[i, 3]:
            apart = gap(foot, edges[starts[i] : starts[i + 1]], radius)
            count += apart <= tolerance
            least = min(least, apart)
    return count, least


@njit(cache=True)
def _is_free(x, y, corners, edges, starts, boxes, radius):
    foot = _placed(corners, x, y)
    for i in range(len(starts) - 1):
        near = boxes[i, 0] <= x <= boxes[i, 2] and boxes[i, 1] <= y <= boxes[i, 3]
        if near and overlaps(foot, edges[starts[i] : starts[i + 1]], radius):
            return False
    return True


@njit(cache=True)
def _can_leave(x, y, corners, edges, starts, boxes, radius, reach):
    """Whether some displacement of up to `reach` frees the footprint from all polygons."""
    for length in range(LENGTHS, 0, -1):
        for k in range(DIRECTIONS):
            step, angle = reach * length / LENGTHS, 2.0 * math.pi * k / DIRECTIONS
            if _is_free(x + step * math.cos(angle), y + step * math.sin(angle), corners, edges, starts, boxes, radius):
                return True
    return False


@parallel_kernel(cache=True)
def touched(xs, ys, corners, edges, starts, boxes, radius, tolerance):
    """How many polygons the footprint touches at every (xs[i], ys[j]), -1 where it overlaps by more than the tolerance.

    Args:
        xs, ys: coordinates, (a,) and (b,).
        corners: of the footprint at this heading, (v, 2).
        edges: of all polygons, (e, 4); the edges of polygon i are starts[i] to starts[i + 1].
        boxes: least and greatest x and y outside which the footprint cannot touch a polygon: (polygons, 4).
        radius: by which the footprint is grown.
        tolerance: largest gap and largest depth of a contact.
    """
    counts = np.empty((len(xs), len(ys)), dtype=np.int64)
    reach = tolerance * (1.0 + SLACK)
    # shifted off the lines that grid and obstacles share, so that rounding does not decide whether equal edges cross
    nudge_x, nudge_y = 0.13 * SLACK * tolerance, 0.07 * SLACK * tolerance
    for i in prange(len(xs)):
        for j in range(len(ys)):
            x, y = xs[i] + nudge_x, ys[j] + nudge_y
            count, least = _contacts(x, y, corners, edges, starts, boxes, radius, reach)
            feasible = least >= 0.0
            if not feasible and least >= -reach:
                feasible = _can_leave(x, y, corners, edges, starts, boxes, radius, reach)
            counts[i, j] = count if feasible else -1
    return counts
