"""Signed distances of many pairs of geoms at many configurations; pairs without a simple formula are left to MuJoCo.

Geoms are numbered by the row of `frames` (rows, 12) that holds their frame: links first, then the geoms attached to them,
then static geoms. Kinds and sizes are MuJoCo's.
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
from capture_cp.kernels.kinematics import Links, place_each
from capture_cp.kernels.solids import (
    box_reach,
    height,
    inward,
    outward,
    point_box,
    segment_box,
    segment_segment,
    turned_back,
)

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
#: Configurations that one thread processes at a time, with one table of frames.
CHUNK = 64


class Geoms(NamedTuple):
    """Geoms and their pairs."""

    kind: Any  #: (rows,) MuJoCo's type of geom; -1 for a link
    size: Any  #: (rows, 3)
    bound: Any  #: (rows,) radius of a ball around the frame's origin that contains the geom
    still: Any  #: (s, 12) frames of the last s rows, which do not move
    vertices: Any  #: (v, 3) corners of meshes, each in its geom's frame
    start: Any  #: (rows + 1,) first corner of each row
    pairs: Any  #: (p, 2) rows, the smaller kind first
    group: Any  #: (p,) number of the contact that a pair belongs to; the pairs of one contact are consecutive


@njit(cache=True, error_model="numpy", inline="always")
def lower_bound(i, j, frames, kind, size, bound):
    """A lower bound of the signed distance of two geoms, from their bounding balls, half spaces and boxes."""
    x, y, z = frames[j, 0], frames[j, 1], frames[j, 2]
    if kind[i] == PLANE:
        return height(frames, i, x, y, z) - bound[j]
    if kind[i] == HFIELD or kind[j] == HFIELD:
        return -math.inf
    dx, dy, dz = x - frames[i, 0], y - frames[i, 1], z - frames[i, 2]
    gap = math.sqrt(dx * dx + dy * dy + dz * dz) - bound[i] - bound[j]
    if kind[i] == BOX:
        u, v, w = turned_back(frames, i, dx, dy, dz)
        gap = max(gap, point_box(u, v, w, size[i, 0], size[i, 1], size[i, 2]) - bound[j])
    if kind[j] == BOX:
        u, v, w = turned_back(frames, j, dx, dy, dz)
        gap = max(gap, point_box(u, v, w, size[j, 0], size[j, 1], size[j, 2]) - bound[i])
    return gap


@njit(cache=True, error_model="numpy", inline="always")
def _above_plane(i, j, frames, kind, size, vertices, start):
    """Signed distance of geom j to plane i, and whether it is known."""
    nx, ny, nz = frames[i, 5], frames[i, 8], frames[i, 11]
    middle = height(frames, i, frames[j, 0], frames[j, 1], frames[j, 2])
    if kind[j] == SPHERE:
        return middle - size[j, 0], True
    if kind[j] == CAPSULE:
        along = nx * frames[j, 5] + ny * frames[j, 8] + nz * frames[j, 11]
        return middle - size[j, 1] * abs(along) - size[j, 0], True
    if kind[j] == BOX:
        return middle - box_reach(frames, j, size[j, 0], size[j, 1], size[j, 2], nx, ny, nz), True
    lowest = math.inf
    for v in range(start[j], start[j + 1]):
        x, y, z = outward(frames, j, vertices[v, 0], vertices[v, 1], vertices[v, 2])
        lowest = min(lowest, height(frames, i, x, y, z))
    return lowest, lowest < math.inf


@njit(cache=True, error_model="numpy", inline="always")
def _half_axis(j, frames, kind, size):
    """Half the axis of a capsule, in the world; 0 for a ball."""
    half = size[j, 1] if kind[j] == CAPSULE else 0.0
    return half * frames[j, 5], half * frames[j, 8], half * frames[j, 11]


@njit(cache=True, error_model="numpy", inline="always")
def _round_round(i, j, frames, kind, size):
    """Signed distance of two geoms that are balls or capsules."""
    ux, uy, uz = _half_axis(i, frames, kind, size)
    vx, vy, vz = _half_axis(j, frames, kind, size)
    wx, wy, wz = frames[i, 0] - frames[j, 0], frames[i, 1] - frames[j, 1], frames[i, 2] - frames[j, 2]
    wx, wy, wz = wx - ux + vx, wy - uy + vy, wz - uz + vz  # from the start of one axis to the start of the other
    apart = segment_segment(wx, wy, wz, 2.0 * ux, 2.0 * uy, 2.0 * uz, 2.0 * vx, 2.0 * vy, 2.0 * vz)
    return apart - size[i, 0] - size[j, 0]


@njit(cache=True, error_model="numpy", inline="always")
def _round_box(i, j, frames, kind, size):
    """Signed distance of a ball or a capsule to a box."""
    x, y, z = inward(frames, j, frames[i, 0], frames[i, 1], frames[i, 2])
    a, b, c = size[j, 0], size[j, 1], size[j, 2]
    if kind[i] == SPHERE:
        return point_box(x, y, z, a, b, c) - size[i, 0]
    ux, uy, uz = _half_axis(i, frames, kind, size)
    ux, uy, uz = turned_back(frames, j, ux, uy, uz)
    return segment_box(x - ux, y - uy, z - uz, 2.0 * ux, 2.0 * uy, 2.0 * uz, a, b, c) - size[i, 0]


@njit(cache=True, error_model="numpy", inline="always")
def pair_distance(i, j, frames, kind, size, bound, vertices, start, within):
    """Signed distance of two geoms, and whether it is known; if not, or beyond `within`, a lower bound."""
    least = lower_bound(i, j, frames, kind, size, bound)
    if least > within:
        return least, True
    one, other = kind[i], kind[j]
    if one == PLANE:
        apart, known = _above_plane(i, j, frames, kind, size, vertices, start)
        return (apart, True) if known else (least, False)
    is_round = one in (SPHERE, CAPSULE)
    if is_round and other in (SPHERE, CAPSULE):
        return _round_round(i, j, frames, kind, size), True
    if is_round and other == BOX:
        return _round_box(i, j, frames, kind, size), True
    if one == BOX and other == BOX:
        return box_box(i, j, frames, size, within), True
    return least, False


@njit(cache=True, error_model="numpy", inline="always")
def _measure(i, frames, kind, size, bound, vertices, start, pairs, group, within, distances, known):
    """Row i of the table of distances."""
    best, current = within, -1
    for p in range(pairs.shape[0]):
        if group[p] != current:
            best, current = within, group[p]
        # a pair farther away than another pair of the same contact does not matter
        apart, sure = pair_distance(pairs[p, 0], pairs[p, 1], frames, kind, size, bound, vertices, start, best)
        distances[i, p], known[i, p] = apart, sure
        if sure:
            best = min(best, apart)


@njit(cache=True, error_model="numpy")
def _measure_some(qpos, links, geoms, within, frames, first, last, distances, known):
    """Rows first to last of the table of distances."""
    qpos, frames, distances, known = borrowed((qpos, frames, distances, known))
    parent, joint, entry, zero, fixed, axis, column, held = borrowed(links)
    kind, size, bound, still, vertices, start, pairs, group = borrowed(geoms)
    frames[parent.shape[0] :] = still
    for i in range(first, last):
        place_each(parent, joint, entry, zero, fixed, axis, column, held, qpos[i], frames)
        _measure(i, frames, kind, size, bound, vertices, start, pairs, group, within, distances, known)


@parallel_kernel(cache=True)
def _measure_all(qpos, links, geoms, within, distances, known):
    n = qpos.shape[0]
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        frames, first = np.empty((geoms.kind.shape[0], 12)), chunk * CHUNK
        _measure_some(qpos, links, geoms, within, frames, first, min(n, first + CHUNK), distances, known)


def geom_distances(qpos: Floats, links: Links, geoms: Geoms, within: float) -> tuple[Floats, Bools]:
    """Signed distances of all pairs at configurations (n, nq), and whether they are known: (n, p) and (n, p).

    Unknown entries are lower bounds. Of the pairs of one contact, only the least distance is exact, and only up to `within`.
    """
    n, pairs = len(qpos), len(geoms.pairs)
    distances, known = np.empty((n, pairs)), np.empty((n, pairs), dtype=np.bool_)
    if n <= CHUNK:  # waking threads would take longer
        _measure_some(qpos, links, geoms, within, np.empty((len(geoms.kind), 12)), 0, n, distances, known)
    else:
        _measure_all(qpos, links, geoms, within, distances, known)
    return distances, known
