"""Counts of the cells of regions by stratum on a GPU, with optional weights: one block per region.

A block processes as many columns at a time as it has threads. Each thread finds the cells of one column that are within
reach; then each warp processes column after column, with one cell per lane. The functions of `capture_cp.kernels.cells`
decide which cells are in a region, as on the CPU.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from capture_cp.base.layouts import ELLIPSOID, PARTICLE_BOX, SE2
from capture_cp.cuda.exact import exact_kernel
from capture_cp.kernels.cells import (
    box_corners,
    cell_at,
    cells_between,
    column_at,
    column_count,
    ellipsoid_along,
    outside_corners,
    reach_along,
    squared_aside,
    whitened,
    whitened_along,
    widest_limit,
)
from capture_cp.kernels.nearest import enough_within

#: Threads per block, a power of two, and per warp.
THREADS, WARP = 256, 32
#: Largest number of coordinates for which cells are counted: a thread's local memory has a fixed size.
MOST_DIMS = 8


@cuda.jit(device=True)
def near_range(rule, length, k, cloud, widest, centre, first, extent, columns):
    """Cells of a column that may be near k particles: the first and one past the last, counted from `first`."""
    near, low, high, last = 0, math.inf, -math.inf, cloud.shape[1] - 1
    for l in range(cloud.shape[0]):
        aside = squared_aside(cloud, l, centre)
        if aside <= widest:
            near += 1
            begin, end = reach_along(cloud[l, last], aside, widest, length)
            low, high = min(low, begin), max(high, end)
    if near < k:
        return 0, 0
    origin, spacing, cells = columns.origin[last], columns.spacing[last], columns.shape[last]
    return cells_between(low, high, rule == SE2, first[last], extent[last], origin, spacing, cells)


@cuda.jit(device=True)
def _range(regions, cloud, whiten, corners, widest, centre, first, extent, columns):
    """Cells of a column that may be in a region: the first and one past the last, counted from `first`."""
    last = cloud.shape[1] - 1
    if widest < 0.0:
        return 0, 0
    if regions.rule != ELLIPSOID and regions.rule != PARTICLE_BOX:
        return near_range(regions.rule, regions.length, regions.k, cloud, widest, centre, first, extent, columns)
    turns, low, high = False, math.inf, -math.inf
    if regions.rule == ELLIPSOID:
        aside, turned = whitened(whiten, regions.is_angle, cloud[0], centre)
        turns = regions.is_angle[last]
        if aside <= widest:
            low, high = ellipsoid_along(whiten, cloud[0], widest, aside, turned)
    else:
        aside = -math.inf
        for axis in range(last):
            aside = max(aside, outside_corners(corners, axis, centre[axis]))
        if aside <= widest:
            low, high = corners[0, last] - widest, corners[1, last] + widest
    if not low <= high:
        return 0, 0
    origin, spacing, cells = columns.origin[last], columns.spacing[last], columns.shape[last]
    return cells_between(low, high, turns, first[last], extent[last], origin, spacing, cells)


@cuda.jit(device=True)
def _holds(regions, cloud, whiten, corners, limit, centre):
    """Whether a region with this limit contains a configuration (dc,)."""
    last = cloud.shape[1] - 1
    if not limit >= 0.0:
        return False
    if regions.rule == ELLIPSOID:
        aside, turned = whitened(whiten, regions.is_angle, cloud[0], centre)
        z = turned + whitened_along(whiten, regions.is_angle, cloud[0], centre[last])
        return aside + z * z <= limit
    if regions.rule == PARTICLE_BOX:
        farthest = 0.0
        for axis in range(last + 1):
            farthest = max(farthest, outside_corners(corners, axis, centre[axis]))
        return farthest <= limit
    return enough_within(regions.rule, regions.length, regions.k, limit, centre, cloud)


@cuda.jit(device=True)
def _gathered(partial, total):
    """The sum of all threads' totals, in a fixed order."""
    partial[cuda.threadIdx.x] = total
    half = cuda.blockDim.x // 2
    while half > 0:
        cuda.syncthreads()
        if cuda.threadIdx.x < half:
            partial[cuda.threadIdx.x] += partial[cuda.threadIdx.x + half]
        half //= 2
    cuda.syncthreads()
    return partial[0]


@exact_kernel
def count_cells(regions, limits, first, extent, columns, counts, sums):
    """Add the cells of region i to counts[i] (M + 1,), infeasible ones last, and their summed weights to sums[i].

    `limits` (n, M + 1) are as in `capture_cp.kernels.cells`; `first`, `extent` (n, dc) are index boxes that contain every
    candidate cell; `sums` (n,), or (0,) if there are no weights.
    """
    i, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    cloud, infeasible, last = regions.clouds[i], limits.shape[1] - 1, first.shape[1] - 1
    whiten = regions.whiten[i if regions.rule == ELLIPSOID and regions.whiten.shape[0] > 1 else 0]
    starts = cuda.shared.array(THREADS, np.int32)
    stops = cuda.shared.array(THREADS, np.int32)
    numbers = cuda.shared.array(THREADS, np.int64)
    partial = cuda.shared.array(THREADS, np.float64)
    places = cuda.shared.array((THREADS, MOST_DIMS), np.float64)
    corners = cuda.shared.array((2, MOST_DIMS), np.float64)
    centre = cuda.local.array(MOST_DIMS, np.float64)
    for axis in range(thread, last + 1, threads):
        corners[0, axis], corners[1, axis] = box_corners(cloud, axis)
    cuda.syncthreads()
    held, run, total = 0, 0, 0.0
    for begin in range(0, column_count(extent[i]), threads):
        starts[thread], stops[thread] = 0, 0
        if begin + thread < column_count(extent[i]):
            place = places[thread, : last + 1]
            column = column_at(begin + thread, first[i], extent[i], columns.origin, columns.spacing, columns.shape, place)
            numbers[thread], widest = column, widest_limit(limits[i], columns.present, column)
            starts[thread], stops[thread] = _range(
                regions, cloud, whiten, corners, widest, place, first[i], extent[i], columns
            )
        cuda.syncthreads()
        for other in range(thread // WARP, threads, threads // WARP):
            for axis in range(last):
                centre[axis] = places[other, axis]
            for t in range(starts[other] + thread % WARP, stops[other], WARP):
                cell = cell_at(t, first[i, last], columns.shape[last])
                centre[last] = columns.origin[last] + cell * columns.spacing[last]
                m = columns.labels[numbers[other], cell]
                m = m if 0 <= m < infeasible else infeasible
                if _holds(regions, cloud, whiten, corners, limits[i, m], centre[: last + 1]):
                    if columns.weights.shape[0] > 0:
                        total += np.float64(columns.weights[numbers[other], cell])
                    if m != held:  # neighbours mostly share a stratum: sums are written out only when it changes
                        cuda.atomic.add(counts, (i, held), run)
                        held, run = m, 0
                    run += 1
        cuda.syncthreads()
    cuda.atomic.add(counts, (i, held), run)
    if sums.shape[0] > 0:
        weighed = _gathered(partial, total)
        if thread == 0:
            sums[i] += weighed
