"""Scores, membership, thresholds and cells of regions on the GPU, with the same functions as on the CPU.

Arrays are on the GPU, by default float64, and so are the results. Regions are those of `capture_cp.kernels.cells`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, njit

from capture_cp.base.checks import CaptureError
from capture_cp.base.layouts import ELLIPSOID, PARTICLE_BOX, Columns, Regions
from capture_cp.cuda import cells
from capture_cp.cuda.arrays import THREADS, blocks
from capture_cp.cuda.exact import exact_kernel, launch
from capture_cp.kernels.cells import index_box
from capture_cp.kernels.distance import outside_box
from capture_cp.kernels.gaussian import squared_mahalanobis
from capture_cp.kernels.loop import passes
from capture_cp.kernels.nearest import kth_squared
from capture_cp.kernels.tree import find_leaf

# -- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _column(stratum, columns):
    """The column of a stratum, the last one if infeasible; the result is never out of bounds."""
    return stratum if 0 <= stratum < columns else columns - 1


@exact_kernel
def _scores(regions, Y, out):
    i = cuda.grid(1)
    if i < Y.shape[0]:
        cloud = regions.clouds[i]
        if regions.rule == ELLIPSOID:
            out[i] = math.sqrt(squared_mahalanobis(Y[i], cloud[0], regions.whiten[i], regions.is_angle))
        elif regions.rule == PARTICLE_BOX:
            out[i] = outside_box(Y[i], cloud)
        else:
            out[i] = math.sqrt(kth_squared(regions.rule, regions.length, regions.k, Y[i], cloud))


@exact_kernel
def _within(regions, Y, labels, limits, out):
    row = cuda.grid(1)
    if row < Y.shape[0]:
        i = row // (Y.shape[0] // limits.shape[0])
        limit, cloud = limits[i, _column(labels[row], limits.shape[1])], regions.clouds[i]
        if regions.rule == ELLIPSOID:
            out[row] = squared_mahalanobis(Y[row], cloud[0], regions.whiten[i], regions.is_angle) <= limit
        else:
            out[row] = limit >= 0.0 and passes(regions.rule, regions.length, regions.k, limit, Y[row], cloud)


@exact_kernel
def _look_up(nodes, roots, stratum_features, values, X, out):
    i = cuda.grid(1)
    if i < X.shape[0]:
        for m in range(roots.shape[0]):
            out[i, m] = values[find_leaf(nodes, roots[m], stratum_features, m, X[i])]
        for column in range(roots.shape[0], out.shape[1]):
            out[i, column] = -1.0


@exact_kernel
def _whole_strata(sizes, limits, thresholds, reach, counts):
    i = cuda.grid(1)
    if i < limits.shape[0]:
        reach[i] = -1.0
        for m in range(sizes.shape[0]):
            if thresholds[i, m] == math.inf:
                limits[i, m], counts[i, m] = -1.0, sizes[m]
            else:
                reach[i] = max(reach[i], thresholds[i, m])


@exact_kernel
def _index_boxes(regions, reach, columns, first, extent):
    i = cuda.grid(1)
    if i < first.shape[0]:
        cloud = regions.clouds[i]
        index_box(regions.rule, regions.length, reach[i], cloud[0], cloud, columns, first[i], extent[i])


@exact_kernel
def _tally(labels, chosen, out):
    i = cuda.blockIdx.x
    each = labels.shape[0] // out.shape[0]
    for m in range(out.shape[1]):
        found = 0
        for row in range(i * each + cuda.threadIdx.x, (i + 1) * each, cuda.blockDim.x):
            if labels[row] == m and chosen[row]:
                found += 1
        if found > 0:
            cuda.atomic.add(out, (i, m), found)


# -- called from the host ----------------------------------------------------------------------------------------------


def scores(regions: Regions, Y: Any) -> Any:
    """Score of each Y[i] (dc,): (n,)."""
    out = cuda.device_array(Y.shape[0], np.float64)
    launch(_scores, some_blocks(Y.shape[0]), regions, Y, out)
    return out


def within(regions: Regions, Y: Any, labels: Any, limits: Any, out: Any = None) -> Any:
    """Whether each row of Y (n * r, dc) is in its region, with r consecutive rows per region: bool (n * r,).

    `labels` (n * r,) are the strata of Y; `limits` (n, M + 1) are the limits of each stratum, infeasible space last.
    """
    out = cuda.device_array(Y.shape[0], np.bool_) if out is None else out
    launch(_within, some_blocks(Y.shape[0]), regions, Y, labels, limits, out)
    return out


def count_cells(regions: Regions, limits: Any, first: Any, extent: Any, columns: Columns, out: Any = None) -> Any:
    """Cells of each region, by stratum, infeasible ones last: int64 (n, M + 1), added to `out` if it is passed.

    `limits` are as in `within`; `first`, `extent` (n, dc) are the index boxes that contain the candidates.
    """
    if first.shape[1] > cells.MOST_DIMS:
        raise CaptureError(
            f"a GPU counts cells with up to {cells.MOST_DIMS} axes, but these have {first.shape[1]}; use the CPU."
        )
    out = zeros(limits.shape, np.int64) if out is None else out
    nothing = cuda.device_array(0, np.float64)
    launch(
        cells.count_cells, limits.shape[0], regions, limits, first, extent, columns, out, nothing, threads=cells.THREADS
    )  # fmt: skip
    return out


def whole_strata(sizes: Any, limits: Any, thresholds: Any) -> tuple[Any, Any]:
    """Handle strata that are in a region as a whole: reach (n,) of the others, and counts (n, M + 1) so far.

    `sizes` (M,) are the numbers of cells of the strata, `thresholds` (n, M). In `limits` (n, M + 1) whole strata are set to
    admit nothing.
    """
    reach, counts = cuda.device_array(limits.shape[0], np.float64), zeros(limits.shape, np.int64)
    launch(_whole_strata, some_blocks(limits.shape[0]), sizes, limits, thresholds, reach, counts)
    return reach, counts


def index_boxes(regions: Regions, reach: Any, columns: Columns) -> tuple[Any, Any]:
    """First index and extent, both int64 (n, dc), of the cells within `reach` (n,) of the particles of regions."""
    shape = regions.clouds.shape[0], regions.clouds.shape[2]
    first, extent = (cuda.device_array(shape, np.int64) for _ in range(2))
    launch(_index_boxes, some_blocks(shape[0]), regions, reach, columns, first, extent)
    return first, extent


def look_up(tree: tuple[Any, ...], values: Any, X: Any, columns: int) -> Any:
    """Value of the leaf of each input X (n, dx) in every stratum: (n, columns), -1 in columns beyond the strata.

    `tree` holds the nodes, the roots (M,) and the features of the strata (M, df); `values` has shape (nodes,).
    """
    out = cuda.device_array((X.shape[0], columns), np.float64)
    launch(_look_up, some_blocks(X.shape[0]), *tree, values, X, out)
    return out


def tally(labels: Any, chosen: Any, out: Any) -> None:
    """Add the number of chosen rows of each input in each stratum to out (n, M), int64; `labels`, `chosen` (n * r,)."""
    launch(_tally, out.shape[0], labels, chosen, out, threads=2 * THREADS)


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros on the GPU."""
    return cuda.to_device(np.zeros(shape, dtype=dtype))


def some_blocks(rows: int) -> int:
    """Number of blocks with one thread per row, 0 for no rows."""
    return blocks(rows) if rows else 0
