"""Cells of many regions of poses, counted by stratum, and their summed cost.

Cells are looked at a column at a time, all angles of one place (x, z). There the squared SE(2) distance to a particle is
|t|² s(ω)² + (ℓω)² with s ≥ 1 and |t| the same for every cell: most columns, and all angles out of reach, are passed over.

What the kernels share: `first`, `extent` (n, 3), the index box that holds every candidate cell; `labels` and `costs`
(columns, angles), stratum (-1 infeasible) and cost of every cell; `origin`, `spacing` (3,), and `rows`, the grid's cells
along z. They return counts (n, M + 1), infeasible cells last, and summed costs (n,), the same for any number of threads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.distance import squared_limit

_HAIR = 1e-9  # relative; columns and angles are passed over only if rounding cannot matter


@njit(cache=True, parallel=True, nogil=True)
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
    particles, strata = cloud.shape[0], limits.shape[0] - 1
    stretch, turn = np.empty((extent[2], particles)), np.empty((extent[2], particles))
    _angle_terms(cloud, length, origin[2] + first[2] * spacing[2], spacing[2], stretch, turn)
    aside, ends, total = np.empty(particles), np.empty((2, k)), 0.0
    for a in range(extent[0]):
        x = origin[0] + (first[0] + a) * spacing[0]
        for b in range(extent[1]):
            z = origin[1] + (first[1] + b) * spacing[1]
            column = (first[0] + a) * rows + first[1] + b
            widest = -1.0
            for m in range(strata):
                if present[column, m] and limits[m] > widest:
                    widest = limits[m]
            near = 0
            for l in range(particles):
                dx = cloud[l, 0] - x
                dz = cloud[l, 1] - z
                aside[l] = dx * dx + dz * dz
                near += aside[l] <= widest
            if near >= k:
                low, high = _angle_range(cloud, aside, widest, k, length, ends)
                start = max(int(math.floor((low - origin[2]) / spacing[2])) - first[2], 0)
                stop = min(int(math.ceil((high - origin[2]) / spacing[2])) + 1 - first[2], extent[2])
                for t in range(start, stop):
                    m = labels[column, first[2] + t]
                    limit, inside = limits[m], 0
                    for l in range(particles):
                        inside += aside[l] * stretch[t, l] * stretch[t, l] + turn[t, l] <= limit
                    if inside >= k:
                        counts[m] += 1
                        total += costs[column, first[2] + t]
    return total


@njit(cache=True)
def _angle_terms(cloud, length, begin, step, stretch, turn):  # type: ignore[no-untyped-def]
    """The parts of `squared_distance` that a column's place does not change: s(ω) and (ℓω)², both (angles, L)."""
    for t in range(stretch.shape[0]):
        for l in range(cloud.shape[0]):
            omega = cloud[l, 2] - (begin + t * step)
            half = 0.5 * omega
            stretch[t, l] = half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0
            turn[t, l] = (length * omega) * (length * omega)


@njit(cache=True)
def _angle_range(cloud, aside, widest, k, length, ends):  # type: ignore[no-untyped-def]
    """Angles between which k particles can be within squared distance `widest`.

    A cell within reach of k particles is above the k-th lowest beginning of their reaches and below the k-th highest end.
    """
    ends[0, :], ends[1, :] = math.inf, math.inf
    for l in range(cloud.shape[0]):
        if aside[l] <= widest:
            reach = math.sqrt(widest - aside[l]) / length * (1.0 + _HAIR)
            for side in range(2):
                value = cloud[l, 2] - reach if side == 0 else -(cloud[l, 2] + reach)
                j = k - 1
                if value < ends[side, j]:
                    while j > 0 and ends[side, j - 1] > value:
                        ends[side, j] = ends[side, j - 1]
                        j -= 1
                    ends[side, j] = value
    return ends[0, k - 1], -ends[1, k - 1]


@njit(cache=True, parallel=True, nogil=True)
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


@njit(cache=True, parallel=True, nogil=True)
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
                across, along, turned = W[0, 0] * dx, W[1, 0] * dx + W[1, 1] * dz, W[2, 0] * dx + W[2, 1] * dz
                aside = across * across + along * along
                if aside <= limit:
                    for t in range(first[i, 2], first[i, 2] + extent[i, 2]):
                        turn = turned + W[2, 2] * (origin[2] + t * spacing[2] - mean[i, 2])
                        m = labels[a * rows + b, t]
                        if aside + turn * turn <= limit and (m >= 0 or not feasible_only):
                            counts[i, m if m >= 0 else strata] += 1
                            sums[i] += costs[a * rows + b, t]
    return counts, sums
