"""Traversable distance: the length of the shortest feasible path on a grid, to one goal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.kernels.scalar import clip

#: Moves to sixteen surrounding cells: path lengths are then at most 2.8% too long in any direction.
_MOVES = [(0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]


def traversable_distance(passable: Any, goal: tuple[int, int], spacing: float) -> Floats:
    """Path length from every cell of a 2D grid (nx, ny) to the cell `goal` through `passable` cells (nx, ny).

    Cells that are not passable, or not connected to the goal, get the distance of the nearest cell that is, plus the length
    of the way there, so that interpolation next to a wall uses finite values.
    """
    from scipy import ndimage
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    free = np.asarray(passable, dtype=bool)
    if free.ndim != 2 or not (0 <= goal[0] < free.shape[0] and 0 <= goal[1] < free.shape[1]):
        raise CaptureError(f"the goal {goal} is not a cell of a grid of shape {free.shape}.")
    if not free[goal]:
        raise CaptureError("the goal lies in an obstacle; move it to a feasible cell.")
    number = np.arange(free.size, dtype=np.int32).reshape(free.shape)  # SciPy 1.13 requires int32
    ends, lengths = [], []
    for dx, dy in _MOVES:
        a, b = _overlap(free.shape, dx, dy)
        open_way = free[a] & free[b]
        for mx, my in _between(dx, dy):
            middle = _shift(a, mx, my)
            open_way &= free[middle]
        ends.append(np.stack([number[a][open_way], number[b][open_way]]))
        lengths.append(np.full(int(open_way.sum()), spacing * math.hypot(dx, dy)))
    (rows, columns), weights = np.concatenate(ends, axis=1), np.concatenate(lengths)
    graph = coo_array((weights, (rows, columns)), shape=(free.size, free.size)).tocsr()
    found = np.asarray(dijkstra(graph, directed=False, indices=np.array([number[goal]]))).reshape(free.shape)
    known = np.isfinite(found)
    away, nearest = ndimage.distance_transform_edt(~known, sampling=spacing, return_indices=True)
    return np.asarray(found[tuple(nearest)] + away)


def _overlap(shape: tuple[int, ...], dx: int, dy: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    nx, ny = shape
    rows = slice(0, nx - dx), slice(dx, nx)
    columns = (slice(0, ny - dy), slice(dy, ny)) if dy >= 0 else (slice(-dy, ny), slice(0, ny + dy))
    return (rows[0], columns[0]), (rows[1], columns[1])


def _between(dx: int, dy: int) -> list[tuple[int, int]]:
    """Cells that a move crosses and that must also be free."""
    sign = 1 if dy >= 0 else -1
    if (abs(dx), abs(dy)) == (1, 2):
        return [(0, sign), (1, sign)]
    if (abs(dx), abs(dy)) == (2, 1):
        return [(1, 0), (1, sign)]
    if (abs(dx), abs(dy)) == (1, 1):
        return [(1, 0), (0, sign)]
    return []


def _shift(region: tuple[slice, slice], dx: int, dy: int) -> tuple[slice, slice]:
    rows, columns = region
    return slice(rows.start + dx, rows.stop + dx), slice(columns.start + dy, columns.stop + dy)


@njit(cache=True, inline="always")
def interpolate(field, origin, spacing, x, y):
    """Bilinear value of a field (nx, ny) given at cell centres, constant beyond the outermost ones."""
    u = clip((x - origin[0]) / spacing[0], 0.0, field.shape[0] - 1.0)
    v = clip((y - origin[1]) / spacing[1], 0.0, field.shape[1] - 1.0)
    i, j = np.uint32(max(min(int(u), field.shape[0] - 2), 0)), np.uint32(max(min(int(v), field.shape[1] - 2), 0))
    i1, j1 = np.uint32(min(i + 1, field.shape[0] - 1)), np.uint32(min(j + 1, field.shape[1] - 1))
    a, b = u - i, v - j
    low = (1.0 - b) * field[i, j] + b * field[i, j1]
    return (1.0 - a) * low + a * ((1.0 - b) * field[i1, j] + b * field[i1, j1])
