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
from capture_cp.kernels.kinematics import Links, place_links
from capture_cp.kernels.solids import (
    box_reach,
    frame_at,
    height,
    point_box,
    rotated_back,
    seen_from,
    segment_box,
    segment_segment,
    shifted,
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
def _lower_bound(i, j, frames, geoms):
    """A lower bound of the signed distance of two geoms, from their bounding balls, half spaces and boxes."""
    kind, size, bound = geoms.kind, geoms.size, geoms.bound
    x, y, z = frames[j, 0], frames[j, 1], frames[j, 2]
    if kind[i] == PLANE:
        return height(frame_at(frames, i), x, y, z) - bound[j]
    if kind[i] == HFIELD or kind[j] == HFIELD:
        return -math.inf
    dx, dy, dz = x - frames[i, 0], y - frames[i, 1], z - frames[i, 2]
    gap = math.sqrt(dx * dx + dy * dy + dz * dz) - bound[i] - bound[j]
    if kind[i] == BOX:
        u, v, w = rotated_back(frame_at(frames, i), dx, dy, dz)
        gap = max(gap, point_box(u, v, w, size[i, 0], size[i, 1], size[i, 2]) - bound[j])
    if kind[j] == BOX:
        u, v, w = rotated_back(frame_at(frames, j), dx, dy, dz)
        gap = max(gap, point_box(u, v, w, size[j, 0], size[j, 1], size[j, 2]) - bound[i])
    return gap


@njit(cache=True, error_model="numpy", inline="always")
def _above_plane(i, j, frames, geoms):
    """Signed distance of geom j to plane i, and whether it is known."""
    kind, size, plane, frame = geoms.kind, geoms.size, frame_at(frames, i), frame_at(frames, j)
    nx, ny, nz = plane[5], plane[8], plane[11]
    middle = height(plane, frame[0], frame[1], frame[2])
    if kind[j] == SPHERE:
        return middle - size[j, 0], True
    if kind[j] == CAPSULE:
        along = nx * frame[5] + ny * frame[8] + nz * frame[11]
        return middle - size[j, 1] * abs(along) - size[j, 0], True
    if kind[j] == BOX:
        return middle - box_reach(frame, size[j, 0], size[j, 1], size[j, 2], nx, ny, nz), True
    lowest = math.inf
    for v in range(geoms.start[j], geoms.start[j + 1]):
        x, y, z = shifted(frame, geoms.vertices[v, 0], geoms.vertices[v, 1], geoms.vertices[v, 2])
        lowest = min(lowest, height(plane, x, y, z))
    return lowest, lowest < math.inf


@njit(cache=True, error_model="numpy", inline="always")
def _half_axis(j, frames, geoms):
    """Half the axis of a capsule, in the world; 0 for a ball."""
    half = geoms.size[j, 1] if geoms.kind[j] == CAPSULE else 0.0
    return half * frames[j, 5], half * frames[j, 8], half * frames[j, 11]


@njit(cache=True, error_model="numpy", inline="always")
def _round_round(i, j, frames, geoms):
    """Signed distance of two geoms that are balls or capsules."""
    ux, uy, uz = _half_axis(i, frames, geoms)
    vx, vy, vz = _half_axis(j, frames, geoms)
    wx, wy, wz = frames[i, 0] - frames[j, 0], frames[i, 1] - frames[j, 1], frames[i, 2] - frames[j, 2]
    wx, wy, wz = wx - ux + vx, wy - uy + vy, wz - uz + vz  # from the start of one axis to the start of the other
    apart = segment_segment(wx, wy, wz, 2.0 * ux, 2.0 * uy, 2.0 * uz, 2.0 * vx, 2.0 * vy, 2.0 * vz)
    return apart - geoms.size[i, 0] - geoms.size[j, 0]


@njit(cache=True, error_model="numpy", inline="always")
def _round_box(i, j, frames, geoms):
    """Signed distance of a ball or a capsule to a box."""
    box, size = frame_at(frames, j), geoms.size
    x, y, z = seen_from(box, frames[i, 0], frames[i, 1], frames[i, 2])
    a, b, c = size[j, 0], size[j, 1], size[j, 2]
    if geoms.kind[i] == SPHERE:
        return point_box(x, y, z, a, b, c) - size[i, 0]
    ux, uy, uz = _half_axis(i, frames, geoms)
    ux, uy, uz = rotated_back(box, ux, uy, uz)
    return segment_box(x - ux, y - uy, z - uz, 2.0 * ux, 2.0 * uy, 2.0 * uz, a, b, c) - size[i, 0]


@njit(cache=True, error_model="numpy", inline="always")
def _pair_distance(i, j, frames, geoms, within):
    """Signed distance of two geoms, and whether it is known; if not, or beyond `within`, a lower bound."""
    least = _lower_bound(i, j, frames, geoms)
    if least > within:
        return least, True
    one, other = geoms.kind[i], geoms.kind[j]
    if one == PLANE:
        apart, known = _above_plane(i, j, frames, geoms)
        return (apart, True) if known else (least, False)
    is_round = one in (SPHERE, CAPSULE)
    if is_round and other in (SPHERE, CAPSULE):
        return _round_round(i, j, frames, geoms), True
    if is_round and other == BOX:
        return _round_box(i, j, frames, geoms), True
    if one == BOX and other == BOX:
        return box_box(i, j, frames, geoms.size, within), True
    return least, False


@njit(cache=True, error_model="numpy")
def _measure_some(qpos, links, geoms, within, frames, first, last, distances, known):
    """Rows first to last of the table of distances."""
    qpos, links, geoms, frames, distances, known = borrowed((qpos, links, geoms, frames, distances, known))
    frames[links.parent.shape[0] :] = geoms.still
    for i in range(first, last):
        place_links(links, qpos[i], frames)
        best, current = within, -1
        for p in range(geoms.pairs.shape[0]):
            if geoms.group[p] != current:
                best, current = within, geoms.group[p]
            # a pair farther away than another pair of the same contact does not matter
            apart, sure = _pair_distance(geoms.pairs[p, 0], geoms.pairs[p, 1], frames, geoms, best)
            distances[i, p], known[i, p] = apart, sure
            if sure:
                best = min(best, apart)


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
