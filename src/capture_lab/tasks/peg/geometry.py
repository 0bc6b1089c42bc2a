"""The peg against its surroundings, exact and compiled: overlap area, contacts, and the contact fingerprint.

The peg is a rectangle about its pose (x, z, theta). Table and receptacle are three columns, unbounded below: the table up
to z = -depth, and the two blocks next to the hole up to z = 0. Extending the blocks down through the table changes nothing
but removes a buried face. All lengths in metres; kernels take `c, s`, the cosine and sine of theta.

Vertices v1 to v4 run counterclockwise from the lower left one of an upright peg, edges e1 to e4 from its base: e1 joins v1
and v2, e2 joins v2 and v3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_lab.tasks.peg.settings import PegSettings

#: Area (m²) of overlap allowed in a feasible pose: simulated contacts are slightly soft.
MAX_OVERLAP = 1e-8
#: Radius (m) of the disks around vertices and the tubes around edges. The extra nanometre makes grid poses at exactly the
#: paper's 0.75 mm count as touching, however their distance is rounded.
TOUCH = 0.75e-3 + 1e-9
#: Stands for an infinite half width (m): infinity times zero is NaN.
FAR = 1e3

#: The ways out of a column: over its top, past its left or right side, along the width or the length of the peg.
TOP, LEFT, RIGHT, ACROSS, ALONG = range(5)
_PARALLEL = 1e-9  # m; of two parallel faces, the column's is used
_FLAT = 1e-6  # m; vertices whose depths differ by less touch together

#: The columns.
TABLE, LEFT_BLOCK, RIGHT_BLOCK = range(3)


class Shape(NamedTuple):
    """Sizes in the form the kernels need (m). Any tuple with these fields works."""

    half_width: float  # of the peg
    half_length: float  # of the peg
    hole: float  # half width of the hole
    block: float  # half width of the receptacle
    depth: float  # of the hole
    radius: float  # of the peg: the length that weighs a turn


def shape_of(settings: PegSettings) -> Shape:
    """The sizes relevant to contact."""
    return Shape(
        half_width=settings.peg_width / 2,
        half_length=settings.peg_length / 2,
        hole=settings.hole_width / 2,
        block=min(settings.block_width / 2, FAR),
        depth=settings.hole_depth,
        radius=settings.radius,
    )


@njit(cache=True)
def vertex(i, x, z, c, s, g):
    """Position of vertex i, counted from 0."""
    across = g.half_width if i == 1 or i == 2 else -g.half_width
    along = g.half_length if i >= 2 else -g.half_length
    return x + c * across - s * along, z + s * across + c * along


@njit(cache=True)
def extent(c, s, g):
    """Half width and half height of the upright box around the turned peg."""
    return abs(c) * g.half_width + abs(s) * g.half_length, abs(s) * g.half_width + abs(c) * g.half_length


@njit(cache=True)
def column(number, g):
    """Left side, right side and top of a column."""
    if number == LEFT_BLOCK:
        return -g.block, -g.hole, 0.0
    if number == RIGHT_BLOCK:
        return g.hole, g.block, 0.0
    return -FAR, FAR, -g.depth


# -- overlap --------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _under_edge(ax, az, bx, bz, left, right, top):
    """∫ min(z - top, 0) dx along the edge from a to b, between left and right."""
    low, high = max(min(ax, bx), left), min(max(ax, bx), right)
    if high <= low:
        return 0.0
    slope = (bz - az) / (bx - ax)
    first, last = az + slope * (low - ax) - top, az + slope * (high - ax) - top
    least, most = min(first, last), max(first, last)
    if least >= 0.0:
        return 0.0
    width = high - low if most <= 0.0 else (high - low) * least / (least - most)
    integral = 0.5 * width * (least + min(most, 0.0))
    return integral if bx > ax else -integral


@njit(cache=True)
def _area_within(x, z, c, s, left, right, top, g):
    """Area of the peg below `top` and between left and right, by Green's theorem: -∮ min(z - top, 0) dx."""
    wide, tall = extent(c, s, g)
    if z - tall >= top or x - wide >= right or x + wide <= left:
        return 0.0
    area = 0.0
    ax, az = vertex(3, x, z, c, s, g)
    for i in range(4):
        bx, bz = vertex(i, x, z, c, s, g)
        area -= _under_edge(ax, az, bx, bz, left, right, top)
        ax, az = bx, bz
    return area


@njit(cache=True)
def overlap(x, z, c, s, g):
    """Exact area (m²) of the peg's overlap with receptacle and table."""
    if z - extent(c, s, g)[1] >= 0.0:
        return 0.0
    blocks = _area_within(x, z, c, s, -g.block, -g.hole, 0.0, g) + _area_within(x, z, c, s, g.hole, g.block, 0.0, g)
    beside = _area_within(x, z, c, s, -FAR, -g.block, -g.depth, g) + _area_within(x, z, c, s, g.block, FAR, -g.depth, g)
    return blocks + beside + _area_within(x, z, c, s, -g.hole, g.hole, -g.depth, g)


@njit(cache=True)
def is_feasible(x, z, c, s, g):
    """Whether a pose is in the configuration space."""
    return overlap(x, z, c, s, g) <= MAX_OVERLAP


@parallel_kernel(cache=True)
def overlaps(poses, g):
    """Overlap area (m²) of each pose (n, 3): (n,)."""
    areas = np.empty(poses.shape[0])
    for i in prange(poses.shape[0]):
        areas[i] = overlap(poses[i, 0], poses[i, 1], math.cos(poses[i, 2]), math.sin(poses[i, 2]), g)
    return areas


# -- contacts -------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def depth_along(way, number, x, z, c, s, g):
    """How far the peg must move to leave a column by one way out, and the direction: depth, nx, nz; negative when apart.

    Separating axes: the ways out of the column's own faces move a vertex of the peg, those along the peg's faces move a
    face of it off a corner of the column. A column has no bottom, so only upward directions lead out.
    """
    left, right, top = column(number, g)
    wide, tall = extent(c, s, g)
    if way == TOP:
        return top - (z - tall), 0.0, 1.0
    if way == LEFT:
        return x + wide - left, -1.0, 0.0
    if way == RIGHT:
        return right - (x - wide), 1.0, 0.0
    nx, nz = (c, s) if way == ACROSS else (-s, c)
    half = g.half_width if way == ACROSS else g.half_length
    if nz < 0.0:
        nx, nz = -nx, -nz
    corner = right if nx > 0.0 else left
    return (corner - x) * nx + (top - z) * nz + half, nx, nz


@njit(cache=True)
def way_out(number, x, z, c, s, g):
    """The shortest way out of a column, and its depth, which is positive exactly when the peg is in the column."""
    best, shortest = TOP, depth_along(TOP, number, x, z, c, s, g)[0]
    for way in range(1, 5):
        depth = depth_along(way, number, x, z, c, s, g)[0]
        if depth < shortest - _PARALLEL:
            best, shortest = way, depth
    return best, shortest


@njit(cache=True, error_model="numpy")
def contact_point(way, number, x, z, c, s, g):
    """Where a column pushes on the peg: the column's corner, or the peg's vertices in it, weighted by their depths.

    When apart, it is the point where they would first touch.
    """
    left, right, top = column(number, g)
    depth, nx, nz = depth_along(way, number, x, z, c, s, g)
    if way >= ACROSS:
        return right if nx > 0.0 else left, top
    level = top if way == TOP else (-left if way == LEFT else right)
    surface = min(depth - _FLAT, 0.0)
    total, px, pz = 0.0, 0.0, 0.0
    for i in range(4):
        vx, vz = vertex(i, x, z, c, s, g)
        weight = max(level - (nx * vx + nz * vz) - surface, 0.0)
        total += weight
        # the column does not push on the part of a flat face beyond the column's end
        px += weight * min(max(vx, left), right)
        pz += weight * min(vz, top)
    return px / total, pz / total


# -- fingerprint ----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _squared_from_point(px, pz, left, right, top):
    dx, dz = max(max(left - px, px - right), 0.0), max(pz - top, 0.0)
    return dx * dx + dz * dz


@njit(cache=True, error_model="numpy")
def _squared_from_corner(ax, az, bx, bz, px, pz):
    ux, uz = bx - ax, bz - az
    squared = max(ux * ux + uz * uz, 1e-300)  # a segment may be a single point
    t = min(max(((px - ax) * ux + (pz - az) * uz) / squared, 0.0), 1.0)
    dx, dz = ax + t * ux - px, az + t * uz - pz
    return dx * dx + dz * dz


@njit(cache=True, error_model="numpy")
def segment_distance(ax, az, bx, bz, left, right, top):
    """Distance of the segment from a to b to a column, 0 if they intersect.

    The nearest points of two disjoint convex bodies include an end of the segment or a corner of the column.
    """
    low, high = max(min(ax, bx), left), min(max(ax, bx), right)
    if low <= high:
        least = min(az, bz)
        if ax != bx:
            slope = (bz - az) / (bx - ax)
            least = min(az + slope * (low - ax), az + slope * (high - ax))
        if least <= top:
            return 0.0
    ends = min(_squared_from_point(ax, az, left, right, top), _squared_from_point(bx, bz, left, right, top))
    corners = min(_squared_from_corner(ax, az, bx, bz, left, top), _squared_from_corner(ax, az, bx, bz, right, top))
    return math.sqrt(min(ends, corners))


@njit(cache=True)
def _touches(ax, az, bx, bz, g):
    for number in range(3):
        left, right, top = column(number, g)
        if min(az, bz) <= top + TOUCH and segment_distance(ax, az, bx, bz, left, right, top) <= TOUCH:
            return True
    return False


@njit(cache=True)
def fingerprint(x, z, c, s, trim, g):
    """Contact fingerprint as a number: bit i is v(i+1), bit 4 + i is e(i+1).

    A bit is set if the disk around the vertex, or the tube around the edge, intersects receptacle or table.
    `trim` (m) shortens the segment inside a tube at both ends.
    """
    if z - extent(c, s, g)[1] > TOUCH:
        return 0
    code = 0
    ax, az = vertex(0, x, z, c, s, g)
    for i in range(4):
        bx, bz = vertex((i + 1) % 4, x, z, c, s, g)
        share = trim / (2.0 * (g.half_width if i % 2 == 0 else g.half_length))
        ux, uz = share * (bx - ax), share * (bz - az)
        if _touches(ax, az, ax, az, g):
            code |= 1 << i
        if _touches(ax + ux, az + uz, bx - ux, bz - uz, g):
            code |= 16 << i
        ax, az = bx, bz
    return code
