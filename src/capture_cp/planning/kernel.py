"""Rollout, thresholds, regions and cost in one kernel.

This file is also a template: `specialise` compiles it again with the user's functions in place of the plug-ins imported
below, so that the compiler can inline them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.base.layouts import ELLIPSOID, PARTICLE_BOX
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.cells import index_box, room_for, search
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.random import normal_rows, stream
from capture_cp.kernels.scalar import pairwise_sum
from capture_cp.kernels.tree import find_group
from capture_cp.planning.hazard import particle_hazard, region_hazard
from capture_cp.planning.plugin import particle_cost, particle_stratum, stage_cost, step
from capture_cp.planning.records import Seen

CHUNK = 8  # sequences that a thread handles at once, with the same scratch arrays
KERNELS = ("roll_out", "roll_out_labelled", "weigh")


@njit(cache=True, inline="always")
def threshold(cal, h, m, x):
    """Threshold of stratum m at step h (from 0) for an input x (dx,)."""
    root = cal.roots[min(h, cal.roots.shape[0] - 1), m]
    return cal.step_scale[h] * cal.thresholds[m, find_group(cal.nodes, root, cal.stratum_features, m, x)]


@njit(cache=True, inline="always")
def draw(noise, key, h, pairs):
    """The standard normals of step h, into noise (2 * pairs or more, L)."""
    for pair in range(pairs):
        normal_rows(noise[2 * pair], noise[2 * pair + 1], key, h * noise.shape[1] * pairs + pair, pairs)


@njit(cache=True, inline="always")
def put_input(x, mean, action):
    """The calibration's input (ds + da,) from a mean state and an action, into x."""
    for s in range(mean.shape[0]):
        x[s] = mean[s]
    for a in range(action.shape[0]):
        x[mean.shape[0] + a] = action[a]


@njit(cache=True, inline="always")
def average(states, mean):
    """The mean of states (ds, L), into mean (ds,); returns whether it is finite."""
    total = 0.0
    for s in range(states.shape[0]):
        value = 0.0
        for l in range(states.shape[1]):
            value += states[s, l]
        mean[s] = value / states.shape[1]
        total += mean[s]
    return math.isfinite(total)


@njit(cache=True, inline="always")
def take_cloud(states, axes, cloud):
    """The configurations of states (ds, L), into cloud (L, dc)."""
    for axis in range(axes.shape[0]):
        for l in range(states.shape[1]):
            cloud[l, axis] = states[axes[axis], l]


@njit(cache=True, forceinline=True)
def _step(states, action, noise, params):
    """The user's step, compiled once for the rollout and for its comparison with the model."""
    step(states, action, noise, params)


@njit(cache=True)
def step_each(states, actions, noise, params):
    """One step in each of n places, in place: states (n, ds, L), actions (n, da), noise (n, dn, L)."""
    for i in range(states.shape[0]):
        _step(states[i], actions[i], noise[i], params)


# -- hazard cells of every step -------------------------------------------------------------------------------------------


@njit(cache=True)
def _roll_out_some(start, sequences, n_particles, noise_dims, draws, seed, cal, runs, columns, params, costs, first, stop):
    """Stage costs of sequences `first` to `stop`. Without columns, numba leaves out the code that searches them."""
    cal, runs, params = borrowed(cal), borrowed(runs), borrowed(params)
    horizon, da = sequences.shape[1], sequences.shape[2]
    ds, dc, n_strata = start.shape[0], runs.axes.shape[0], cal.roots.shape[1]
    pairs = (noise_dims + 1) // 2
    states, noise = np.empty((ds, n_particles)), np.zeros((2 * pairs + 2, n_particles))
    cloud, mean, x = np.empty((n_particles, dc)), np.empty(ds), np.empty(ds + da)
    limits, near, far = np.empty(n_strata + 1), np.empty(n_strata + 1), np.empty(n_strata + 1)
    centre, middle = np.empty(dc), np.empty(dc)
    limits[n_strata] = -1.0
    if columns is not None:
        room, counts = room_for(n_particles, dc, columns.shape[dc - 1]), np.empty(n_strata + 1, dtype=np.int64)
        indices = np.empty((2, dc), dtype=np.int64)
    for i in range(first, stop):
        key = stream(seed, i)
        for s in range(ds):
            states[s, :] = start[s]
            mean[s] = start[s]
        for h in range(horizon):
            action, reach = sequences[i, h], -1.0
            put_input(x, mean, action)
            for m in range(n_strata):
                q = threshold(cal, h, m, x)
                limits[m], reach = squared_limit(q), max(reach, q)
            if draws:
                draw(noise, key, h, pairs)
            _step(states, action, noise, params)
            is_finite = average(states, mean)
            take_cloud(states, runs.axes, cloud)
            hazard = 0
            if columns is None:
                if cal.count_cells:
                    hazard += region_hazard(cloud, limits, cal.k, runs, centre, middle, near, far)
            else:
                if cal.count_cells and reach >= 0.0:
                    counts[:] = 0
                    index_box(cal.rule, cal.length, reach, centre, cloud, columns, indices[0], indices[1])
                    search(
                        cal.rule, cal.length, cal.k, cloud, room.corners, columns.periodic, limits, indices[0], indices[1],
                        columns, room, counts,
                    )  # fmt: skip
                    hazard += counts.sum()
            if cal.count_particles:
                hazard += particle_hazard(cloud, runs)
            # a cost that does not use a NaN entry of the state must not hide it
            costs[i, h] = stage_cost(mean, action, hazard, h + 1, horizon, params) if is_finite else math.nan


@parallel_kernel(cache=True)
def roll_out(start, sequences, n_particles, noise_dims, draws, seed, cal, runs, params):
    """Stage costs (N, H) of action sequences (N, H, da) from one state (ds,), for the Euclidean metric.

    Particles are rolled through the model; at each step the region of (mean state, action, particles) is tested against the
    hazard cells (Algorithm 2), which are `runs`. Sequence i draws its noise from stream i of the seed; without `draws` there
    is no noise.
    """
    samples = sequences.shape[0]
    costs = np.empty((samples, sequences.shape[1]))
    for chunk in prange((samples + CHUNK - 1) // CHUNK):
        first = chunk * CHUNK
        stop = min(samples, first + CHUNK)
        _roll_out_some(
            start, sequences, n_particles, noise_dims, draws, seed, cal, runs, None, params, costs, first, stop
        )  # fmt: skip
    return costs


@parallel_kernel(cache=True)
def roll_out_labelled(start, sequences, n_particles, noise_dims, draws, seed, cal, runs, columns, params):
    """Stage costs like those of `roll_out` for any metric, with the hazard cells labelled in `columns`."""
    samples = sequences.shape[0]
    costs = np.empty((samples, sequences.shape[1]))
    for chunk in prange((samples + CHUNK - 1) // CHUNK):
        first = chunk * CHUNK
        stop = min(samples, first + CHUNK)
        _roll_out_some(
            start, sequences, n_particles, noise_dims, draws, seed, cal, runs, columns, params, costs, first, stop
        )  # fmt: skip
    return costs


# -- sums over the regions of the first steps -----------------------------------------------------------------------------


@njit(cache=True)
def _sum_region(h, x, states, cloud, cal, summed, columns, room, params, seen):
    """Cells and weights of the region of step h, from an input x (dx,) and its particles, into `seen`.

    A region without a cell is represented by its particles.
    """
    strata, dc, reach = cal.roots.shape[1], cloud.shape[1], -1.0
    limits, whole, indices = np.empty(strata + 1), np.zeros(strata), np.empty((2, dc), dtype=np.int64)
    for m in range(strata):
        q = threshold(cal, h, m, x)
        if q == math.inf and cal.rule != ELLIPSOID:
            limits[m], whole[m] = -1.0, summed.totals[m]
            seen.cells[h, m] += summed.sizes[m]
        else:
            limits[m] = q if cal.rule == PARTICLE_BOX else squared_limit(q)
            reach = max(reach, q)
    limits[strata] = limits[0] if summed.infeasible else -1.0
    seen.sums[h] = 0.0
    if reach >= 0.0:
        index_box(cal.rule, cal.length, reach, summed.spread, cloud, columns, indices[0], indices[1])
        seen.sums[h] = search(
            cal.rule, cal.length, cal.k, cloud, summed.whiten, summed.is_angle, limits, indices[0], indices[1],
            columns, room, seen.cells[h],
        )  # fmt: skip
    seen.sums[h] += pairwise_sum(whole)
    if seen.cells[h].sum() == 0:
        alone = np.empty(states.shape[1])
        for l in range(states.shape[1]):
            m = particle_stratum(states, l, params)
            seen.cells[h, m if m >= 0 else strata] += 1
            alone[l] = particle_cost(states, l, params)
        seen.sums[h] = pairwise_sum(alone)


@njit(cache=True)
def _weigh_one(start, sequence, n_particles, noise_dims, key, cal, axes, summed, columns, params, costs):
    """Stage costs (H,) of one sequence (H, da)."""
    horizon, da = sequence.shape
    ds, dc, kept, pairs = start.shape[0], axes.shape[0], min(summed.steps, horizon), (noise_dims + 1) // 2
    states, noise = np.empty((ds, n_particles)), np.zeros((2 * pairs + 2, n_particles))
    means, x, in_region = np.empty((horizon + 1, ds)), np.empty(ds + da), 1 if cal.rule == ELLIPSOID else n_particles
    cloud, alone, no_noise = np.empty((in_region, dc)), np.empty((ds, 1)), np.zeros((2 * pairs + 2, 1))
    seen = Seen(np.zeros(horizon), np.zeros((kept, cal.roots.shape[1] + 1), dtype=np.int64), np.empty(kept))
    room = room_for(in_region, dc, columns.shape[dc - 1])
    for s in range(ds):
        states[s, :], means[0, s] = start[s], start[s]
    for h in range(horizon):
        action = sequence[h]
        if h < kept:
            x[:ds], x[ds:] = means[h], action
        draw(noise, key, h, pairs)
        step(states, action, noise, params)
        for s in range(ds):
            means[h + 1, s] = states[s].mean()
        for l in range(n_particles):
            seen.particles[h] += particle_cost(states, l, params) / n_particles
        if h < kept and cal.rule == ELLIPSOID:
            alone[:, 0] = means[h]
            step(alone, action, no_noise, params)
            take_cloud(alone, axes, cloud)
            _sum_region(h, x, alone, cloud, cal, summed, columns, room, params, seen)
        elif h < kept:
            take_cloud(states, axes, cloud)
            _sum_region(h, x, states, cloud, cal, summed, columns, room, params, seen)
    for h in range(horizon):
        lost = not math.isfinite(means[h + 1].sum())
        costs[h] = math.nan if lost else stage_cost(means[h + 1], sequence[h], seen, h + 1, horizon, params)


@parallel_kernel(cache=True)
def weigh(start, sequences, n_particles, noise_dims, seed, cal, axes, summed, columns, params):
    """Stage costs (N, H) of action sequences (N, H, da) from one state (ds,), by a cost that uses sums over regions.

    Particles and noise are those of `roll_out`; the region of a Gaussian is centred on the step without noise.
    """
    costs = np.empty((sequences.shape[0], sequences.shape[1]))
    for i in prange(sequences.shape[0]):
        _weigh_one(
            start, sequences[i], n_particles, noise_dims, stream(seed, i), cal, axes, summed, columns, params, costs[i]
        )  # fmt: skip
    return costs
