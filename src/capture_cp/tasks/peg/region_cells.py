"""Cells of many regions of poses, counted by stratum, and their summed cost.

Cells are looked at a column at a time, all angles of one place (x, z). There the squared SE(2) distance to a particle is
|t|² s(ω)² + (ℓω)² with s ≥ 1 and |t| the same for every cell: most columns, and all angles out of reach, are passed over.

What the kernels share: `first`, `extent` (n, 3), the index box that holds every candidate cell; `labels` and `costs`
(columns, angles), stratum (-1 infeasible) and cost of every cell; `origin`, `spacing` (3,), and `rows`, the grid's cells
along z. They return counts (n, M + 1), infeasible cells last, and summed costs (n,), the same for any number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import Floats, Ints
from capture_cp.conformal.gaussian import Gaussians
from capture_cp.conformal.scores import NearestParticles
from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.parallel import parallel_kernel
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import SE2

_HAIR = 1e-9  # relative; columns and angles are passed over only if rounding cannot matter


# -- the rules, for one column, particle or cell ---------------------------------------------------------------------------


@njit(cache=True, inline="always")
def widest_limit(limits, present, column):  # type: ignore[no-untyped-def]
    """The largest squared threshold of the strata that a column has, -1 if none of them admits anything."""
    widest = -1.0
    for m in range(present.shape[1]):
        if present[column, m] and limits[m] > widest:
            widest = limits[m]
    return widest


@njit(cache=True, inline="always")
def squared_aside(cloud, l, x, z):  # type: ignore[no-untyped-def]
    """|t|² of particle l of a cloud (L, 3) and a column."""
    dx = cloud[l, 0] - x
    dz = cloud[l, 1] - z
    return dx * dx + dz * dz


@njit(cache=True, inline="always")
def reachable_angles(angle, aside, widest, length):  # type: ignore[no-untyped-def]
    """Angles of a column between which a particle can be within squared distance `widest`, at least `aside`."""
    reach = math.sqrt(widest - aside) / length * (1.0 + _HAIR)
    return angle - reach, angle + reach


@njit(cache=True)
def cells_between(low, high, origin, spacing, cells):  # type: ignore[no-untyped-def]
    """First index and number of an axis' cells that may lie between two values, as `Grid.box` has them."""
    first = min(max(math.floor((low - origin) / spacing), 0.0), float(cells))
    last = min(math.ceil((high - origin) / spacing), cells - 1.0)
    return int(first), int(max(last - first + 1.0, 0.0))


@njit(cache=True)
def angle_cells(low, high, origin, spacing, first, extent):  # type: ignore[no-untyped-def]
    """Cells of a column between two angles: first and one past the last of those `extent` from `first` on."""
    start = max(int(math.floor((low - origin) / spacing)) - first, 0)
    return start, min(int(math.ceil((high - origin) / spacing)) + 1 - first, extent)


@njit(cache=True)
def angle_term(angle, theta, length):  # type: ignore[no-untyped-def]
    """The parts of `squared_distance` that a column's place does not change: s(ω) and (ℓω)²."""
    omega = angle - theta
    half = 0.5 * omega
    stretch = half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0
    return stretch, (length * omega) * (length * omega)


@njit(cache=True, inline="always")
def squared_apart(aside, stretch, turn):  # type: ignore[no-untyped-def]
    """Squared SE(2) distance of a particle and a cell, from their column's and their angle's parts."""
    return aside * stretch * stretch + turn


@njit(cache=True)
def whitened(W, dx, dz):  # type: ignore[no-untyped-def]
    """What W (3, 3) makes of a place: the squared length of its first two components, and its part of the third."""
    across, along, turned = W[0, 0] * dx, W[1, 0] * dx + W[1, 1] * dz, W[2, 0] * dx + W[2, 1] * dz
    return across * across + along * along, turned


# -- all cells of many regions ---------------------------------------------------------------------------------------------


@parallel_kernel(cache=True)
def nearest_cells(particles, q, k, length, present, first, extent, labels, costs, origin, spacing, rows):  # type: ignore[no-untyped-def]
    """Feasible cells whose k-th nearest of particles[i] (L, 3) is within q[i, m], m their stratum; q (n, M), -1 for none.

    `present` (columns, M) says which strata a column has.
    """
    n, strata = q.shape
    counts, sums = np.zeros((n, strata + 1), dtype=np.int64), np.zeros(n)
    for i in prange(n):
        limits = np.empty(strata + 1)
        for m in range(strata):
            limits[m] = squared_limit(q[i, m])
        limits[strata] = -1.0  # what label -1 looks up
        sums[i] = _search(
            particles[i], limits, k, length, first[i], extent[i], labels, costs, present, origin, spacing, rows, counts[i]
        )
    return counts, sums


@njit(cache=True)
def _search(cloud, limits, k, length, first, extent, labels, costs, present, origin, spacing, rows, counts):  # type: ignore[no-untyped-def]
    particles = cloud.shape[0]
    stretch, turn = np.empty((extent[2], particles)), np.empty((extent[2], particles))
    _angle_terms(cloud, length, origin[2] + first[2] * spacing[2], spacing[2], stretch, turn)
    aside, ends, total = np.empty(particles), np.empty((2, k)), 0.0
    for a in range(extent[0]):
        x = origin[0] + (first[0] + a) * spacing[0]
        for b in range(extent[1]):
            z = origin[1] + (first[1] + b) * spacing[1]
            column = (first[0] + a) * rows + first[1] + b
            widest = widest_limit(limits, present, column)
            near = 0
            for l in range(particles):
                aside[l] = squared_aside(cloud, l, x, z)
                near += aside[l] <= widest
            if near >= k:
                low, high = _angle_range(cloud, aside, widest, k, length, ends)
                start, stop = angle_cells(low, high, origin[2], spacing[2], first[2], extent[2])
                for t in range(start, stop):
                    m = labels[column, first[2] + t]
                    limit, inside = limits[m], 0
                    for l in range(particles):
                        inside += squared_apart(aside[l], stretch[t, l], turn[t, l]) <= limit
                    if inside >= k:
                        counts[m] += 1
                        total += costs[column, first[2] + t]
    return total


@njit(cache=True)
def _angle_terms(cloud, length, begin, step, stretch, turn):  # type: ignore[no-untyped-def]
    """`angle_term` of every angle of the box and every particle, both (angles, L)."""
    for t in range(stretch.shape[0]):
        for l in range(cloud.shape[0]):
            stretch[t, l], turn[t, l] = angle_term(cloud[l, 2], begin + t * step, length)


@njit(cache=True)
def _angle_range(cloud, aside, widest, k, length, ends):  # type: ignore[no-untyped-def]
    """Angles between which k particles can be within squared distance `widest`.

    A cell within reach of k particles is above the k-th lowest beginning of their reaches and below the k-th highest end.
    """
    ends[0, :], ends[1, :] = math.inf, math.inf
    for l in range(cloud.shape[0]):
        if aside[l] <= widest:
            begin, end = reachable_angles(cloud[l, 2], aside[l], widest, length)
            for side in range(2):
                value = begin if side == 0 else -end
                j = k - 1
                if value < ends[side, j]:
                    while j > 0 and ends[side, j - 1] > value:
                        ends[side, j] = ends[side, j - 1]
                        j -= 1
                    ends[side, j] = value
    return ends[0, k - 1], -ends[1, k - 1]


@parallel_kernel(cache=True)
def box_cells(low, high, strata, first, extent, labels, costs, origin, spacing, rows):  # type: ignore[no-untyped-def]
    """Feasible cells between the corners low[i] and high[i] (3,)."""
    n = low.shape[0]
    counts, sums = np.zeros((n, strata + 1), dtype=np.int64), np.zeros(n)
    for i in prange(n):
        for a in range(first[i, 0], first[i, 0] + extent[i, 0]):
            x = origin[0] + a * spacing[0]
            for b in range(first[i, 1], first[i, 1] + extent[i, 1]):
                z = origin[1] + b * spacing[1]
                if low[i, 0] <= x <= high[i, 0] and low[i, 1] <= z <= high[i, 1]:
                    for t in range(first[i, 2], first[i, 2] + extent[i, 2]):
                        theta = origin[2] + t * spacing[2]
                        m = labels[a * rows + b, t]
                        if m >= 0 and low[i, 2] <= theta <= high[i, 2]:
                            counts[i, m] += 1
                            sums[i] += costs[a * rows + b, t]
    return counts, sums


@parallel_kernel(cache=True)
def ellipsoid_cells(mean, whiten, q, feasible_only, strata, first, extent, labels, costs, origin, spacing, rows):  # type: ignore[no-untyped-def]
    """Cells, infeasible ones too unless told, with ‖W (y - mean[i])‖ at most q[i], W = whiten[i] lower triangular.

    Angles are not wrapped: neither the grid nor the peg turns that far.
    """
    n = mean.shape[0]
    counts, sums = np.zeros((n, strata + 1), dtype=np.int64), np.zeros(n)
    for i in prange(n):
        limit, W = squared_limit(q[i]), whiten[i]
        for a in range(first[i, 0], first[i, 0] + extent[i, 0]):
            dx = origin[0] + a * spacing[0] - mean[i, 0]
            for b in range(first[i, 1], first[i, 1] + extent[i, 1]):
                dz = origin[1] + b * spacing[1] - mean[i, 1]
                aside, turned = whitened(W, dx, dz)
                if aside <= limit:
                    for t in range(first[i, 2], first[i, 2] + extent[i, 2]):
                        turn = turned + W[2, 2] * (origin[2] + t * spacing[2] - mean[i, 2])
                        m = labels[a * rows + b, t]
                        if aside + turn * turn <= limit and (m >= 0 or not feasible_only):
                            counts[i, m if m >= 0 else strata] += 1
                            sums[i] += costs[a * rows + b, t]
    return counts, sums


class Cells(NamedTuple):
    """The cells of a grid of poses, asked for those of n regions: counts (n, M + 1), infeasible last, and costs (n,)."""

    labels: Any  # int16 (columns, angles)
    costs: Any  # float32 (columns, angles)
    present: Any  # bool (columns, M): which strata a column has
    totals: Floats  # summed cost of each stratum, (M,)
    grid: Grid

    @property
    def strata(self) -> int:
        return len(self.totals)

    def nearest(self, score: NearestParticles, metric: SE2, particles: Floats, q: Floats) -> tuple[Ints, Floats]:
        """Feasible cells whose score by particles[i] (L, 3) is at most q[i, m], m their stratum; q (n, M), -1 for none."""
        box = self.grid.box(*score.box(particles, np.maximum(q.max(axis=1), 0.0), 3))
        counts, costs = nearest_cells(particles, q, score.k, metric.length, self.present, *box, *self._arrays())
        return counts, costs

    def boxes(self, particles: Floats) -> tuple[Ints, Floats]:
        """Feasible cells in the axis-aligned box of particles[i] (L, 3)."""
        low, high = particles.min(axis=1), particles.max(axis=1)
        counts, costs = box_cells(low, high, self.strata, *self.grid.box(low, high), *self._arrays())
        return counts, costs

    def ellipsoids(self, prediction: Gaussians, q: Floats, feasible_only: bool) -> tuple[Ints, Floats]:
        """Cells, infeasible ones too unless told, within Mahalanobis distance q[i] of prediction[i]."""
        half = q[:, None] * np.sqrt(np.diagonal(prediction.cov, axis1=1, axis2=2))
        box = self.grid.box(prediction.mean - half, prediction.mean + half)
        chosen = prediction.mean, prediction.whiten, q, feasible_only, self.strata
        counts, costs = ellipsoid_cells(*chosen, *box, *self._arrays())
        return counts, costs

    def _arrays(self) -> tuple[Any, ...]:
        return self.labels, self.costs, self.grid.origin, self.grid.spacing, self.grid.shape[1]
