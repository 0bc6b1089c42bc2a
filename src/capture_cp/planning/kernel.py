"""Roll-out, thresholds, region test and cost in one kernel.

This file is also a template: `specialise` compiles it again with the user's `step` and `stage_cost` in place of the plug-in
imported below, so that the compiler sees them and can inline them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.inlining import WithoutCopies
from capture_cp.kernels.parallel import parallel_kernel
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.tree import find_group
from capture_cp.planning.hazard import particle_hazard, region_hazard
from capture_cp.planning.plugin import stage_cost, step


class Calibrated(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have trees of their own; the last serves all steps after it
    stratum_features: Any
    thresholds: Any  # (M, J): of a group, which may be stricter in one stratum than in another
    k: int  # at least this many particles must be near
    count_cells: bool  # count hazard cells in the region
    count_particles: bool  # count particles on hazard cells
    step_scale: Any  # (H,): factor on the thresholds of each step


CHUNK = 8  # sequences that a thread takes at once, in one room to work in


@njit(cache=True, pipeline_class=WithoutCopies)
def _roll_out_some(  # type: ignore[no-untyped-def]
    start, sequences, n_particles, noise_dims, draws, seed, cal, cells, params, costs, first, stop
):
    horizon, da = sequences.shape[1], sequences.shape[2]
    ds, dc, n_strata = start.shape[0], cells.axes.shape[0], cal.roots.shape[1]
    pairs = (noise_dims + 1) // 2
    states, noise = np.empty((ds, n_particles)), np.zeros((2 * pairs + 2, n_particles))
    cloud, mean, x = np.empty((n_particles, dc)), np.empty(ds), np.empty(ds + da)
    limits, near, far = np.empty(n_strata), np.empty(n_strata), np.empty(n_strata)
    centre, middle = np.empty(dc), np.empty(dc)
    for i in range(first, stop):
        key = stream(seed, i)
        for s in range(ds):
            states[s, :] = start[s]
            mean[s] = start[s]
        for h in range(horizon):
            action = sequences[i, h]
            x[:ds], x[ds:] = mean, action
            for m in range(n_strata):
                root = cal.roots[min(h, cal.roots.shape[0] - 1), m]
                q = cal.step_scale[h] * cal.thresholds[m, find_group(cal.nodes, root, cal.stratum_features, m, x)]
                limits[m] = squared_limit(q)
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
            hazard = 0
            if cal.count_cells:
                hazard += region_hazard(cloud, limits, cal.k, cells, centre, middle, near, far)
            if cal.count_particles:
                hazard += particle_hazard(cloud, cells)
            # a model that yields NaN must not be mended by a cost that never looks at that number
            lost = not math.isfinite(mean.sum())
            costs[i, h] = math.nan if lost else stage_cost(mean, action, hazard, h + 1, horizon, params)


@njit(cache=True)
def step_each(states, actions, noise, params):  # type: ignore[no-untyped-def]
    """One step in each of n places, in place: states (n, ds, L), actions (n, da), noise (n, dn, L)."""
    for i in range(states.shape[0]):
        step(states[i], actions[i], noise[i], params)


@parallel_kernel(cache=True)
def roll_out(start, sequences, n_particles, noise_dims, draws, seed, cal, cells, params):  # type: ignore[no-untyped-def]
    """Stage costs (N, H) of action sequences (N, H, da) from one state (ds,).

    Particles are rolled through the model; at each step the region of (mean state, action, particles) is tested against the
    hazard cells (Algorithm 2). Sequence i draws its noise from stream i of the seed, unless `draws` is false.
    """
    samples = sequences.shape[0]
    costs = np.empty((samples, sequences.shape[1]))
    for chunk in prange((samples + CHUNK - 1) // CHUNK):
        first = chunk * CHUNK
        stop = min(samples, first + CHUNK)
        _roll_out_some(start, sequences, n_particles, noise_dims, draws, seed, cal, cells, params, costs, first, stop)
    return costs
