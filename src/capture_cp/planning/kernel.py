"""Roll-out, thresholds, region test and cost in one kernel.

This file is also a template: `specialise` compiles it again with the user's `step` and `stage_cost` in place of the plug-in
imported below, so that the compiler sees them and can inline them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.kernels.cells import box_cell, box_size
from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.tree import find_group
from capture_cp.planning.plugin import stage_cost, step


class Calibrated(NamedTuple):
    """A calibration at one alpha, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any
    stratum_features: Any
    thresholds: Any  # (J,)
    k: int  # at least this many particles must be near
    ambient: bool  # whether infeasible cells count
    count_particles: bool  # count particles on hazard cells instead of region cells
    step_scale: Any  # (H,): factor on the thresholds of each step


class Cells(NamedTuple):
    """Grid cells with their strata, and the box that holds every hazard cell."""

    labels: Any  # (cells,)
    hazard: Any  # bool (cells,)
    first: Any  # (dc,)
    extent: Any  # (dc,)
    origin: Any
    spacing: Any
    shape: Any
    axes: Any  # (dc,): which entries of the state are the configuration


@njit(cache=True)
def _region_hazard(cloud, limits, largest, cal, cells, first, extent, centre, middle, near, far):  # type: ignore[no-untyped-def]
    """Hazard cells inside the region of particles `cloud` (L, dc) with squared thresholds `limits` (M,)."""
    for axis in range(cloud.shape[1]):
        low, high = cloud[0, axis], cloud[0, axis]
        for l in range(1, cloud.shape[0]):
            low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        start, stop = cells.first[axis], cells.first[axis] + cells.extent[axis]
        if largest < math.inf:
            below = math.floor((low - largest - cells.origin[axis]) / cells.spacing[axis])
            above = math.ceil((high + largest - cells.origin[axis]) / cells.spacing[axis]) + 1
            start, stop = max(start, int(max(below, -1.0))), min(stop, int(min(above, 1.0 * stop)))
        if stop <= start:
            return 0
        first[axis], extent[axis] = start, stop - start
    spread = _ball(cloud, middle)
    for m in range(limits.shape[0]):
        # a hair of margin: what rounding could turn is left to the exact count
        q, sure = math.sqrt(max(limits[m], 0.0)), 1e-9 * (1.0 + spread)
        near[m] = (q - spread - sure) ** 2 if limits[m] >= 0.0 and q > spread + sure else -1.0
        far[m] = (q + spread + sure) ** 2
    count = 0
    for t in range(box_size(extent)):
        cell = box_cell(t, first, extent, cells.origin, cells.spacing, cells.shape, centre)
        if cells.hazard[cell]:
            m = cells.labels[cell]
            if m < 0 and cal.ambient:
                m = 0
            if m >= 0:
                away = 0.0
                for axis in range(centre.shape[0]):
                    away += (centre[axis] - middle[axis]) ** 2
                # from the ball around all particles most cells can be told inside or outside without counting
                if away < near[m]:
                    count += 1
                elif away <= far[m] and limits[m] >= 0.0:
                    count += enough_within(0, 1.0, cal.k, limits[m], centre, cloud)
    return count


@njit(cache=True)
def _ball(cloud, middle):  # type: ignore[no-untyped-def]
    """Centre, written to `middle` (dc,), and radius of a ball that holds every particle of `cloud` (L, dc)."""
    for axis in range(cloud.shape[1]):
        middle[axis] = 0.0
        for l in range(cloud.shape[0]):
            middle[axis] += cloud[l, axis] / cloud.shape[0]
    largest = 0.0
    for l in range(cloud.shape[0]):
        away = 0.0
        for axis in range(cloud.shape[1]):
            away += (cloud[l, axis] - middle[axis]) ** 2
        largest = max(largest, away)
    return math.sqrt(largest)


@njit(cache=True)
def _particle_hazard(cloud, cells):  # type: ignore[no-untyped-def]
    """Particles of `cloud` (L, dc) that lie on hazard cells."""
    count = 0
    for l in range(cloud.shape[0]):
        cell, inside = 0, True
        for axis in range(cloud.shape[1]):
            index = math.floor((cloud[l, axis] - cells.origin[axis]) / cells.spacing[axis] + 0.5)
            inside = inside and 0 <= index < cells.shape[axis]
            cell = cell * cells.shape[axis] + int(index)
        if inside and cells.hazard[cell]:
            count += 1
    return count


@njit(cache=True, parallel=True, nogil=True)
def roll_out(start, sequences, n_particles, noise_dims, draws, seed, cal, cells, params):  # type: ignore[no-untyped-def]
    """Stage costs (N, H) of action sequences (N, H, da) from one state (ds,).

    Particles are rolled through the model; at each step the region of (mean state, action, particles) is tested against the
    hazard cells (Algorithm 2). Sequence i draws its noise from stream i of the seed, unless `draws` is false.
    """
    samples, horizon, da = sequences.shape
    ds, dc, n_strata = start.shape[0], cells.axes.shape[0], cal.roots.shape[0]
    pairs = (noise_dims + 1) // 2
    costs = np.empty((samples, horizon))
    for i in prange(samples):
        key = stream(seed, i)
        states, noise = np.empty((ds, n_particles)), np.zeros((2 * pairs + 2, n_particles))
        cloud, mean, x = np.empty((n_particles, dc)), np.empty(ds), np.empty(ds + da)
        limits, near, far = np.empty(n_strata), np.empty(n_strata), np.empty(n_strata)
        centre, middle = np.empty(dc), np.empty(dc)
        first, extent = np.empty(dc, dtype=np.int64), np.empty(dc, dtype=np.int64)
        for s in range(ds):
            states[s, :] = start[s]
            mean[s] = start[s]
        for h in range(horizon):
            action = sequences[i, h]
            x[:ds], x[ds:] = mean, action
            largest = -1.0
            for m in range(n_strata):
                q = cal.step_scale[h] * cal.thresholds[find_group(cal.nodes, cal.roots[m], cal.stratum_features, m, x)]
                limits[m] = squared_limit(q)
                largest = max(largest, q)
            for pair in range(pairs if draws else 0):
                for l in range(n_particles):
                    counter = (h * pairs + pair) * n_particles + l
                    noise[2 * pair, l], noise[2 * pair + 1, l] = normal_pair(key, counter)
            step(states, action, noise, params)
            for s in range(ds):
                mean[s] = states[s].mean()
            for axis in range(dc):
                for l in range(n_particles):
                    cloud[l, axis] = states[cells.axes[axis], l]
            if cal.count_particles:
                hazard = _particle_hazard(cloud, cells)
            else:
                hazard = _region_hazard(cloud, limits, largest, cal, cells, first, extent, centre, middle, near, far)
            # a model that yields NaN must not be mended by a cost that never looks at that number
            lost = not math.isfinite(mean.sum())
            costs[i, h] = math.nan if lost else stage_cost(mean, action, hazard, h + 1, horizon, params)
    return costs
