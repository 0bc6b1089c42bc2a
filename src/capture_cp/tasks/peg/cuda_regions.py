"""Cells of many regions of poses on a GPU, counted by stratum, and their summed cost: a block a region.

A block takes as many columns at a time as it has threads. Each thread finds the angles of one column that are within reach;
then each warp takes column after column, its lanes a cell each. Counts and sums meet in shared memory. Which cells a region
holds is decided by the functions of `region_cells`, as on the processor.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from capture_cp.base.checks import Floats, Ints
from capture_cp.conformal.gaussian import Gaussians
from capture_cp.conformal.scores import NearestParticles
from capture_cp.cuda.exact import exact_kernel
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.spaces.metrics import SE2
from capture_cp.tasks.peg.cuda import buffer, fetched, start, uploaded
from capture_cp.tasks.peg.region_cells import (
    Cells,
    angle_cells,
    angle_term,
    cells_between,
    reachable_angles,
    squared_apart,
    squared_aside,
    whitened,
    widest_limit,
)

#: Threads of a block, a power of two, and of a warp.
THREADS, WARP = 256, 32
TALLIES = 257  # as many strata as there are fingerprints, and what is infeasible
#: What a region is: near k particles, in the box of its particles, in an ellipsoid.
NEAREST, BOX, ELLIPSOID = range(3)


class GridCells(NamedTuple):
    """The fields of `Cells` that the kernel needs, on the GPU."""

    labels: Any
    costs: Any
    present: Any
    origin: tuple[float, ...]
    spacing: tuple[float, ...]
    shape: tuple[int, ...]


@cuda.jit(device=True)
def column_angles(kind, x, z, column, cloud, limits, whiten, corners, k, length, cells, first, extent):  # type: ignore[no-untyped-def]
    """Cells of a column that may be in the region: the first and one past the last, counted from `first`."""
    if kind == BOX:
        inside = corners[0, 0] <= x <= corners[1, 0] and corners[0, 1] <= z <= corners[1, 1]
        return 0, extent if inside else 0
    if kind == ELLIPSOID:
        inside = whitened(whiten, x - cloud[0, 0], z - cloud[0, 1])[0] <= limits[0]
        return 0, extent if inside else 0
    widest = widest_limit(limits, cells.present, column)
    near, low, high = 0, math.inf, -math.inf
    for l in range(cloud.shape[0]):
        aside = squared_aside(cloud, l, x, z)
        if aside <= widest:
            near += 1
            begin, end = reachable_angles(cloud[l, 2], aside, widest, length)
            low, high = min(low, begin), max(high, end)
    if near < k:
        return 0, 0
    return angle_cells(low, high, cells.origin[2], cells.spacing[2], first, extent)


@cuda.jit(device=True)
def holds(kind, x, z, theta, t, limit, cloud, whiten, corners, k, terms):  # type: ignore[no-untyped-def]
    """Whether a region holds a cell whose squared threshold is `limit`; `terms` (2, L, angles) are `angle_term`."""
    if limit < 0.0:
        return False
    if kind == BOX:
        return corners[0, 2] <= theta <= corners[1, 2]
    if kind == ELLIPSOID:
        aside, turned = whitened(whiten, x - cloud[0, 0], z - cloud[0, 1])
        turn = turned + whiten[2, 2] * (theta - cloud[0, 2])
        return aside + turn * turn <= limit
    inside = 0
    for l in range(cloud.shape[0]):
        aside = squared_aside(cloud, l, x, z)
        inside += squared_apart(aside, terms[0, l, t], terms[1, l, t]) <= limit
    return inside >= k


@cuda.jit(device=True)
def grown_corners(cloud, grow, corners):  # type: ignore[no-untyped-def]
    """The box (2, 3) of a cloud (L, 3), grown on all sides by grow (3,): three threads, an axis each."""
    axis = cuda.threadIdx.x
    if axis < 3:
        low = high = cloud[0, axis]
        for l in range(1, cloud.shape[0]):
            low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        corners[0, axis], corners[1, axis] = low - grow[axis], high + grow[axis]


@cuda.jit(device=True)
def gathered(partial, total):  # type: ignore[no-untyped-def]
    """The sum of every thread's total, in an order that does not change."""
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
def count_cells(kind, clouds, asked, whitening, k, length, cells, tables, found):  # type: ignore[no-untyped-def]
    """Cells of region i by stratum, infeasible ones last, then their summed cost, in found[i] (M + 2,).

    `clouds` (n, L, 3), one pose for an ellipsoid; `asked` (n, 3 + M + 1): how far the region may reach beyond its cloud,
    then the squared thresholds, infeasible last; `whitening` (n, 3, 3) for ellipsoids; `tables` (n, 2, L, angles) for work.
    """
    i, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    strata = found.shape[1] - 2
    tally = cuda.shared.array(TALLIES, np.int32)
    starts = cuda.shared.array(THREADS, np.int32)
    stops = cuda.shared.array(THREADS, np.int32)
    columns = cuda.shared.array(THREADS, np.int32)
    places = cuda.shared.array((2, THREADS), np.float64)
    partial = cuda.shared.array(THREADS, np.float64)
    corners = cuda.shared.array((2, 3), np.float64)
    cloud, limits, terms = clouds[i], asked[i, 3:], tables[i]
    whiten = whitening[i] if kind == ELLIPSOID else whitening[0]
    for m in range(thread, strata + 1, threads):
        tally[m] = 0
    grown_corners(cloud, asked[i], corners)
    cuda.syncthreads()
    (ox, oz, ot), (dx, dz, dt), (nx, nz, nt) = cells.origin, cells.spacing, cells.shape
    first_x, wide = cells_between(corners[0, 0], corners[1, 0], ox, dx, nx)
    first_z, tall = cells_between(corners[0, 1], corners[1, 1], oz, dz, nz)
    first, extent = cells_between(corners[0, 2], corners[1, 2], ot, dt, nt)
    if kind == NEAREST:
        for pair in range(thread, cloud.shape[0] * extent, threads):
            l, t = pair // extent, pair % extent
            terms[0, l, t], terms[1, l, t] = angle_term(cloud[l, 2], ot + first * dt + t * dt, length)
    held, run, total = 0, 0, 0.0
    for begin in range(0, wide * tall, threads):
        number = begin + thread
        starts[thread], stops[thread] = 0, 0
        if number < wide * tall:
            a, b = first_x + number // tall, first_z + number % tall
            x, z, column = ox + a * dx, oz + b * dz, a * nz + b
            places[0, thread], places[1, thread], columns[thread] = x, z, column
            starts[thread], stops[thread] = column_angles(
                kind, x, z, column, cloud, limits, whiten, corners, k, length, cells, first, extent
            )
        cuda.syncthreads()
        for other in range(thread // WARP, threads, threads // WARP):
            x, z, column = places[0, other], places[1, other], columns[other]
            for t in range(starts[other] + thread % WARP, stops[other], WARP):
                m = cells.labels[column, first + t]
                m = m if m >= 0 else strata
                if holds(kind, x, z, ot + (first + t) * dt, t, limits[m], cloud, whiten, corners, k, terms):
                    total += np.float64(cells.costs[column, first + t])
                    if m != held:  # neighbours mostly share a stratum: one addition to the tally serves many of them
                        cuda.atomic.add(tally, held, run)
                        held, run = m, 0
                    run += 1
        cuda.syncthreads()
    cuda.atomic.add(tally, held, run)
    cost = gathered(partial, total)
    for m in range(thread, strata + 1, threads):
        found[i, m] = tally[m]
    if thread == 0:
        found[i, strata + 1] = cost


class DeviceCells:
    """The cells of a grid on the GPU; asked as `Cells` are, with the same answers. Clouds may be there already."""

    def __init__(self, cells: Cells) -> None:
        self.cells, self.totals = cells, cells.totals

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "totals": self.totals}  # another process has a copy of its own

    @cached_property
    def _there(self) -> GridCells:
        cells, grid = self.cells, self.cells.grid
        origin, spacing = (tuple(map(float, part)) for part in (grid.origin, grid.spacing))
        labels, costs, present = map(cuda.to_device, (cells.labels, cells.costs, cells.present))
        return GridCells(labels, costs, present, origin, spacing, grid.shape)

    def nearest(self, score: NearestParticles, metric: SE2, particles: Any, q: Floats) -> tuple[Ints, Floats]:
        """See `Cells.nearest`."""
        grow = metric.reach(np.maximum(q.max(axis=1), 0.0), 3)
        limits = np.hstack([squared_limits(q.ravel()).reshape(q.shape), np.full((len(q), 1), -1.0)])
        return self._count(NEAREST, particles, grow, limits, None, score.k, float(metric.length))

    def boxes(self, particles: Any) -> tuple[Ints, Floats]:
        """See `Cells.boxes`."""
        limits = np.zeros((len(particles), self.cells.strata + 1))
        limits[:, -1] = -1.0
        return self._count(BOX, particles, np.zeros((len(particles), 3)), limits, None)

    def ellipsoids(self, prediction: Gaussians, q: Floats, feasible_only: bool) -> tuple[Ints, Floats]:
        """See `Cells.ellipsoids`."""
        grow = q[:, None] * np.sqrt(np.diagonal(prediction.cov, axis1=1, axis2=2))
        limits = np.repeat(squared_limits(q)[:, None], self.cells.strata + 1, axis=1)
        if feasible_only:
            limits[:, -1] = -1.0
        return self._count(ELLIPSOID, prediction.mean.reshape(-1, 1, 3), grow, limits, prediction.whiten)

    def _count(
        self, kind: int, clouds: Any, grow: Floats, limits: Floats, whiten: Any, k: int = 1, length: float = 1.0
    ) -> tuple[Ints, Floats]:
        n, particles, _ = clouds.shape
        if n == 0:
            return np.zeros(limits.shape, dtype=np.int64), np.zeros(0)
        there = uploaded("region clouds", clouds) if isinstance(clouds, np.ndarray) else clouds
        asked = uploaded("asked", np.hstack([grow, limits]))
        whitening = buffer("no whitening", (1, 3, 3)) if whiten is None else uploaded("whitening", whiten)
        tables = buffer("tables", (n, 2, particles, self.cells.grid.shape[2]) if kind == NEAREST else (n, 2, 1, 1))
        found = buffer("found", (n, limits.shape[1] + 1))
        chosen = kind, there, asked, whitening, k, length, self._there, tables, found
        start(count_cells, n, *chosen, threads=THREADS)
        result = fetched(found)
        return result[:, :-1].astype(np.int64), result[:, -1]
