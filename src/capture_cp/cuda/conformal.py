"""Scores, membership, thresholds and cells of regions on the GPU, by the functions that the processor uses.

Arrays are on the GPU, float64 unless said otherwise, and so are the answers. Two kinds of regions have the same three
kernels: `PARTICLES`, told by (rule, length, k, particles (n, L, dc)) with a metric or `PARTICLE_BOX` for a rule, and
`ELLIPSOIDS`, told by (mean (n, dc), whiten (n, dc, dc), is_angle (dc,)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, njit

from capture_cp.base.checks import CaptureError
from capture_cp.cuda.arrays import THREADS, blocks
from capture_cp.cuda.exact import exact_kernel, launch
from capture_cp.kernels.cells import box_cell, box_size
from capture_cp.kernels.distance import outside_box
from capture_cp.kernels.gaussian import squared_mahalanobis
from capture_cp.kernels.loop import PARTICLE_BOX, index_box, passes
from capture_cp.kernels.nearest import kth_squared
from capture_cp.kernels.tree import find_leaf

#: Most numbers of a configuration whose cells are counted: a thread's own memory has a fixed size.
MOST_DIMS = 8


class Kernels(NamedTuple):
    """What regions of one kind are asked: scores of pairs, membership, and cells by stratum."""

    scores: Any
    within: Any
    cells: Any


# -- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _column(stratum, columns):  # type: ignore[no-untyped-def]
    """The column of a stratum, the last for what is infeasible; no number leads out of the table."""
    return stratum if 0 <= stratum < columns else columns - 1


@exact_kernel
def _particle_scores(rule, length, k, particles, Y, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < Y.shape[0]:
        if rule == PARTICLE_BOX:
            out[i] = outside_box(Y[i], particles[i])
        else:
            out[i] = math.sqrt(kth_squared(rule, length, k, Y[i], particles[i]))


@exact_kernel
def _ellipsoid_scores(mean, whiten, is_angle, Y, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < Y.shape[0]:
        out[i] = math.sqrt(squared_mahalanobis(Y[i], mean[i], whiten[i], is_angle))


@exact_kernel
def _within_particles(rule, length, k, particles, Y, labels, limits, out):  # type: ignore[no-untyped-def]
    row = cuda.grid(1)
    if row < Y.shape[0]:
        i = row // (Y.shape[0] // limits.shape[0])
        m = _column(labels[row], limits.shape[1])
        out[row] = limits[i, m] >= 0.0 and passes(rule, length, k, limits[i, m], Y[row], particles[i])


@exact_kernel
def _within_ellipsoids(mean, whiten, is_angle, Y, labels, limits, out):  # type: ignore[no-untyped-def]
    row = cuda.grid(1)
    if row < Y.shape[0]:
        i = row // (Y.shape[0] // limits.shape[0])
        m = _column(labels[row], limits.shape[1])
        out[row] = squared_mahalanobis(Y[row], mean[i], whiten[i], is_angle) <= limits[i, m]


@exact_kernel
def _particle_cells(  # type: ignore[no-untyped-def]
    rule, length, k, particles, limits, first, extent, strata, origin, spacing, shape, out
):
    i = cuda.blockIdx.x
    own = cuda.local.array(MOST_DIMS, np.float64)
    centre = own[: origin.shape[0]]
    current, found = 0, 0
    for t in range(cuda.threadIdx.x, box_size(extent[i]), cuda.blockDim.x):
        m = _column(strata[box_cell(t, first[i], extent[i], origin, spacing, shape, centre)], limits.shape[1])
        if limits[i, m] >= 0.0 and passes(rule, length, k, limits[i, m], centre, particles[i]):
            if m != current:  # neighbours are mostly of one stratum: sums leave the thread when it changes
                cuda.atomic.add(out, (i, current), found)
                current, found = m, 0
            found += 1
    cuda.atomic.add(out, (i, current), found)


@exact_kernel
def _ellipsoid_cells(  # type: ignore[no-untyped-def]
    mean, whiten, is_angle, limits, first, extent, strata, origin, spacing, shape, out
):
    i = cuda.blockIdx.x
    own = cuda.local.array(MOST_DIMS, np.float64)
    centre = own[: origin.shape[0]]
    current, found = 0, 0
    for t in range(cuda.threadIdx.x, box_size(extent[i]), cuda.blockDim.x):
        m = _column(strata[box_cell(t, first[i], extent[i], origin, spacing, shape, centre)], limits.shape[1])
        if limits[i, m] >= 0.0 and squared_mahalanobis(centre, mean[i], whiten[i], is_angle) <= limits[i, m]:
            if m != current:
                cuda.atomic.add(out, (i, current), found)
                current, found = m, 0
            found += 1
    cuda.atomic.add(out, (i, current), found)


@exact_kernel
def _look_up(nodes, roots, stratum_features, values, X, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < X.shape[0]:
        for m in range(roots.shape[0]):
            out[i, m] = values[find_leaf(nodes, roots[m], stratum_features, m, X[i])]
        for column in range(roots.shape[0], out.shape[1]):
            out[i, column] = -1.0


@exact_kernel
def _whole_strata(sizes, limits, thresholds, reach, counts):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < limits.shape[0]:
        reach[i] = -1.0
        for m in range(sizes.shape[0]):
            if thresholds[i, m] == math.inf:
                limits[i, m], counts[i, m] = -1.0, sizes[m]
            else:
                reach[i] = max(reach[i], thresholds[i, m])


@exact_kernel
def _index_boxes(rule, length, particles, reach, origin, spacing, shape, periodic, first, extent):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < particles.shape[0]:
        index_box(rule, length, reach[i], particles[i], origin, spacing, shape, periodic, first[i], extent[i])


@exact_kernel
def _tally(labels, chosen, out):  # type: ignore[no-untyped-def]
    i = cuda.blockIdx.x
    each = labels.shape[0] // out.shape[0]
    for m in range(out.shape[1]):
        found = 0
        for row in range(i * each + cuda.threadIdx.x, (i + 1) * each, cuda.blockDim.x):
            if labels[row] == m and chosen[row]:
                found += 1
        if found > 0:
            cuda.atomic.add(out, (i, m), found)


PARTICLES = Kernels(_particle_scores, _within_particles, _particle_cells)
ELLIPSOIDS = Kernels(_ellipsoid_scores, _within_ellipsoids, _ellipsoid_cells)


# -- what the host calls ----------------------------------------------------------------------------------------------


def scores(kernels: Kernels, told: tuple[Any, ...], Y: Any) -> Any:
    """Score of each Y[i] (dc,): (n,)."""
    out = cuda.device_array(Y.shape[0], np.float64)
    launch(kernels.scores, some_blocks(Y.shape[0]), *told, Y, out)
    return out


def within(kernels: Kernels, told: tuple[Any, ...], Y: Any, labels: Any, limits: Any, out: Any = None) -> Any:
    """Whether each row of Y (n * r, dc) is in its region, r rows for each in turn: bool (n * r,).

    `labels` (n * r,) are the strata of Y; `limits` (n, M + 1) those of each stratum, squared unless for a box, and of what
    is infeasible; negative ones admit nothing.
    """
    out = cuda.device_array(Y.shape[0], np.bool_) if out is None else out
    launch(kernels.within, some_blocks(Y.shape[0]), *told, Y, labels, limits, out)
    return out


def count_cells(
    kernels: Kernels, told: tuple[Any, ...], limits: Any, first: Any, extent: Any, grid: tuple[Any, ...], out: Any = None
) -> Any:
    """Cells of each region, by stratum, infeasible ones last: int64 (n, M + 1), added to `out` if it is given.

    `limits` as in `within`; `first`, `extent` (n, dc) the index boxes that hold the candidates; `grid` the strata of the
    cells (cells,), its origin, spacing and shape (dc,).
    """
    if first.shape[1] > MOST_DIMS:
        raise CaptureError(f"a GPU counts cells of up to {MOST_DIMS} axes, and these have {first.shape[1]}; use the CPU.")
    out = zeros(limits.shape, np.int64) if out is None else out
    launch(kernels.cells, limits.shape[0], *told, limits, first, extent, *grid, out)
    return out


def whole_strata(sizes: Any, limits: Any, thresholds: Any) -> tuple[Any, Any]:
    """Strata that belong as a whole need not be looked through: reach (n,) of the others, and counts (n, M + 1) so far.

    `sizes` (M,) of the strata in cells, `thresholds` (n, M); in `limits` (n, M + 1) whole strata are set to admit nothing.
    """
    reach, counts = cuda.device_array(limits.shape[0], np.float64), zeros(limits.shape, np.int64)
    launch(_whole_strata, some_blocks(limits.shape[0]), sizes, limits, thresholds, reach, counts)
    return reach, counts


def index_boxes(rule: int, length: float, particles: Any, reach: Any, grid: tuple[Any, ...]) -> tuple[Any, Any]:
    """First index and extent, both int64 (n, dc), of the cells within `reach` (n,) of particles (n, L, dc).

    `grid` is origin, spacing, shape and whether an axis is periodic, each (dc,).
    """
    first, extent = (cuda.device_array((particles.shape[0], particles.shape[2]), np.int64) for _ in range(2))
    launch(_index_boxes, some_blocks(particles.shape[0]), rule, length, particles, reach, *grid, first, extent)
    return first, extent


def look_up(tree: tuple[Any, ...], values: Any, X: Any, columns: int) -> Any:
    """Value of the leaf of each input X (n, dx) in every stratum: (n, columns), -1 in those beyond the strata.

    `tree` is nodes, roots (M,) and features of the strata (M, df); `values` (nodes,).
    """
    out = cuda.device_array((X.shape[0], columns), np.float64)
    launch(_look_up, some_blocks(X.shape[0]), *tree, values, X, out)
    return out


def tally(labels: Any, chosen: Any, out: Any) -> None:
    """Add to out (n, M), int64, how many of the chosen rows each input has in each stratum; `labels`, `chosen` (n * r,)."""
    launch(_tally, out.shape[0], labels, chosen, out, threads=2 * THREADS)


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros on the GPU."""
    return cuda.to_device(np.zeros(shape, dtype=dtype))


def some_blocks(rows: int) -> int:
    """Blocks with a thread for each row, none for no rows."""
    return blocks(rows) if rows else 0
