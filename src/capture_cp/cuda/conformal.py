"""Scores, membership, thresholds and cells of regions on the GPU, with the scalar functions of the CPU.

Arrays are on the GPU, by default float64, and so are the results. Regions are those of `capture_cp.kernels.cells`.

A GPU fuses a product and a sum into one instruction, which rounds once where the CPU rounds twice. So scores agree with the
CPU's to about 1e-15, and a region is larger by `HAIR`: a point that sets a threshold must pass it on any machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import CaptureError
from capture_cp.base.layouts import ELLIPSOID, PARTICLE_BOX, Columns, Regions
from capture_cp.cuda.arrays import THREADS, blocks
from capture_cp.kernels.cells import cell_at, column_at, column_count, index_box
from capture_cp.kernels.distance import outside_box
from capture_cp.kernels.gaussian import squared_mahalanobis
from capture_cp.kernels.loop import passes
from capture_cp.kernels.nearest import kth_squared
from capture_cp.kernels.tree import find_leaf

HAIR = 1e-12  # relative, of a squared threshold
#: Largest number of coordinates for which cells are counted: a thread's local memory has a fixed size.
MOST_DIMS = 8
#: Threads that count the cells of one region: along its columns, and columns at a time.
ALONG, ASIDE = 32, 4

# -- kernels ----------------------------------------------------------------------------------------------------------


@cuda.jit(device=True)
def _is_inside(regions, i, limit, y):
    """Whether y (dc,) is within a limit of region i; a negative limit admits nothing."""
    if not limit >= 0.0:
        return False
    limit *= 1.0 + HAIR
    if regions.rule == ELLIPSOID:
        whiten = regions.whiten[min(i, regions.whiten.shape[0] - 1)]
        return squared_mahalanobis(y, regions.clouds[i, 0], whiten, regions.is_angle) <= limit
    return passes(regions.rule, regions.length, regions.k, limit, y, regions.clouds[i])


@cuda.jit(cache=True)
def _scores(regions, Y, out):
    i = cuda.grid(1)
    if i < Y.shape[0]:
        if regions.rule == PARTICLE_BOX:
            out[i] = outside_box(Y[i], regions.clouds[i])
        else:
            out[i] = math.sqrt(kth_squared(regions.rule, regions.length, regions.k, Y[i], regions.clouds[i]))


@cuda.jit(cache=True)
def _within(regions, Y, labels, limits, out):
    row = cuda.grid(1)
    if row < Y.shape[0]:
        i, m = row // (Y.shape[0] // limits.shape[0]), labels[row]
        m = m if 0 <= m < limits.shape[1] else limits.shape[1] - 1  # never out of bounds
        out[row] = _is_inside(regions, i, limits[i, m], Y[row])


@cuda.jit(cache=True)
def _count_inside(regions, Y, labels, limits, counts):
    i = cuda.blockIdx.x
    each = Y.shape[0] // limits.shape[0]
    for m in range(counts.shape[1]):
        found = 0
        for row in range(i * each + cuda.threadIdx.x, (i + 1) * each, cuda.blockDim.x):
            if labels[row] == m and _is_inside(regions, i, limits[i, m], Y[row]):
                found += 1
        if found > 0:
            cuda.atomic.add(counts, (i, m), found)


@cuda.jit(cache=True)
def _look_up(nodes, roots, stratum_features, values, X, out):
    i = cuda.grid(1)
    if i < X.shape[0]:
        for m in range(roots.shape[0]):
            out[i, m] = values[find_leaf(nodes, roots[m], stratum_features, m, X[i])]
        for column in range(roots.shape[0], out.shape[1]):
            out[i, column] = -1.0


@cuda.jit(cache=True)
def _find_boxes(regions, sizes, thresholds, limits, columns, first, extent, counts):
    i = cuda.grid(1)
    if i < limits.shape[0]:
        reach, cloud = -1.0, regions.clouds[i]
        for m in range(sizes.shape[0]):
            if thresholds[i, m] == math.inf:  # the whole stratum
                limits[i, m], counts[i, m] = -1.0, sizes[m]
            else:
                reach = max(reach, thresholds[i, m])
        index_box(regions.rule, regions.length, reach, cloud[0], cloud, columns, first[i], extent[i])


@cuda.jit(cache=True)
def _count_cells(regions, limits, first, extent, columns, counts):
    i, infeasible, last = cuda.blockIdx.x, limits.shape[1] - 1, first.shape[1] - 1
    centre = cuda.local.array(MOST_DIMS, np.float64)
    for number in range(cuda.threadIdx.y, column_count(extent[i]), cuda.blockDim.y):
        column = column_at(number, first[i], extent[i], columns.origin, columns.spacing, columns.shape, centre)
        for t in range(cuda.threadIdx.x, extent[i, last], cuda.blockDim.x):
            cell = cell_at(t, first[i, last], columns.shape[last])
            centre[last] = columns.origin[last] + cell * columns.spacing[last]
            m = columns.labels[column, cell]
            m = m if 0 <= m < infeasible else infeasible
            if _is_inside(regions, i, limits[i, m], centre[: last + 1]):
                cuda.atomic.add(counts, (i, m), 1)


# -- called from the host ----------------------------------------------------------------------------------------------


def scores(regions: Regions, Y: Any) -> Any:
    """Score of each Y[i] (dc,), by particles: (n,)."""
    out = cuda.device_array(Y.shape[0], np.float64)
    _each_row(_scores, Y.shape[0], regions, Y, out)
    return out


def within(regions: Regions, Y: Any, labels: Any, limits: Any) -> Any:
    """Whether each row of Y (n * r, dc) is in its region, with r consecutive rows per region: bool (n * r,).

    `labels` (n * r,) are the strata of Y; `limits` (n, M + 1) are the limits of each stratum, infeasible space last.
    """
    out = cuda.device_array(Y.shape[0], np.bool_)
    _each_row(_within, Y.shape[0], regions, Y, labels, limits, out)
    return out


def count_inside(regions: Regions, Y: Any, labels: Any, limits: Any, counts: Any) -> None:
    """Add the number of rows of Y in each region, by stratum, to counts (n, M); other arguments as in `within`."""
    _count_inside[counts.shape[0], 2 * THREADS](regions, Y, labels, limits, counts)


def count_cells(regions: Regions, limits: Any, first: Any, extent: Any, columns: Columns, counts: Any = None) -> Any:
    """Cells of each region, by stratum, infeasible ones last: int64 (n, M + 1), added to `counts` if it is passed.

    `limits` are as in `within`; `first`, `extent` (n, dc) are index boxes that contain the candidates.
    """
    if first.shape[1] > MOST_DIMS:
        raise CaptureError(f"a GPU counts cells with up to {MOST_DIMS} axes, but these have {first.shape[1]}; use the CPU.")
    counts = zeros(limits.shape, np.int64) if counts is None else counts
    if limits.shape[0]:
        _count_cells[limits.shape[0], (ALONG, ASIDE)](regions, limits, first, extent, columns, counts)
    return counts


def find_boxes(regions: Regions, sizes: Any, thresholds: Any, limits: Any, columns: Columns) -> tuple[Any, Any, Any]:
    """Index boxes, first index and extent (n, dc), of the cells within thresholds (n, M), and counts (n, M + 1) so far.

    A stratum with an infinite threshold is in its region as a whole: its size, of `sizes` (M,), is counted, and in `limits`
    (n, M + 1) it is set to admit nothing more.
    """
    n, shape = limits.shape[0], (limits.shape[0], regions.clouds.shape[2])
    first, extent = (cuda.device_array(shape, np.int64) for _ in range(2))
    counts = zeros(limits.shape, np.int64)
    _each_row(_find_boxes, n, regions, sizes, thresholds, limits, columns, first, extent, counts)
    return first, extent, counts


def look_up(tree: tuple[Any, ...], values: Any, X: Any, columns: int) -> Any:
    """Value of the leaf of each input X (n, dx) in every stratum: (n, columns), -1 in columns beyond the strata.

    `tree` holds the nodes, the roots (M,) and the features of the strata (M, df); `values` has shape (nodes,).
    """
    out = cuda.device_array((X.shape[0], columns), np.float64)
    _each_row(_look_up, X.shape[0], *tree, values, X, out)
    return out


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros on the GPU."""
    return cuda.to_device(np.zeros(shape, dtype=dtype))


def _each_row(kernel: Any, rows: int, *arguments: Any) -> None:
    """Launch a kernel with one thread per row; without rows there is nothing to launch."""
    if rows:
        kernel[blocks(rows), THREADS](*arguments)
