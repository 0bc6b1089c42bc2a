"""Rollouts on the GPU whose cost uses sums over regions: particles, regions, their cells, then costs.

There is one thread per particle, one thread per region to prepare it and one block per region to search it
(`capture_cp.cuda.cells`), and one thread per sequence for its cost, by the functions that the CPU kernel calls.

Like `planning.kernel`, this file is a template: `specialise` compiles it with the user's functions and sizes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from capture_cp.base.layouts import ELLIPSOID
from capture_cp.cuda.exact import exact_kernel
from capture_cp.kernels.cells import index_box
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.scalar import pairwise_sum
from capture_cp.kernels.tree import find_group
from capture_cp.planning.cuda.drawing import draw_action
from capture_cp.planning.cuda.layout import Sizes
from capture_cp.planning.plugin import particle_cost, particle_stratum, stage_cost, step
from capture_cp.planning.records import Seen

SIZES = Sizes(state=2, action=2, noise=2, particles=16, axes=(0, 1), strata=3, points=0, rule=0)
DS, DA, DN, PARTICLES, AXES, STRATA, _, _ = SIZES
PAIRS = (DN + 1) // 2
NOISE_ROWS, INPUTS, DC = 2 * PAIRS + 2, DS + DA, len(AXES)
ACTION_ROWS = DA + DA % 2
KERNELS = ("draw_sequences", "roll_particles", "find_regions", "price")


@cuda.jit(cache=True)
def draw_sequences(plans, sampling, purpose):
    """Action sequences of every plan: a thread per step of a sequence."""
    row, number = cuda.blockIdx.y, cuda.grid(1)
    samples, horizon = plans.sequences.shape[1], plans.sequences.shape[2]
    normals = cuda.local.array(ACTION_ROWS, np.float64)
    if number == 0:
        plans.trouble[row, 0], plans.trouble[row, 1] = 0, horizon + 1
    if number < samples * horizon:
        i, h = number // horizon, number % horizon
        key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))
        draw_action(plans, sampling, key, row, i, h, DA, normals)


@exact_kernel
def roll_particles(plans, purpose, regions, summed, work, params):
    """Particles of the sequences of every plan after each step, and the clouds of the regions: a thread per particle."""
    row, number = cuda.blockIdx.y, cuda.grid(1)
    samples, horizon, kept = plans.sequences.shape[1], plans.sequences.shape[2], work.cells.shape[2]
    states = cuda.local.array((DS, 1), np.float64)
    noise = cuda.local.array((NOISE_ROWS, 1), np.float64)
    if number < samples * PARTICLES:
        i, l = number // PARTICLES, number % PARTICLES
        key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))
        for s in range(DS):
            states[s, 0] = plans.states[row, s]
        for n in range(NOISE_ROWS):
            noise[n, 0] = 0.0
        if regions.rule == ELLIPSOID and l == 0:  # a Gaussian belongs to the first step
            step(states, plans.sequences[row, i, 0], noise, params)
            for s in range(DS):
                work.alone[row, i, s, 0] = states[s, 0]
            for axis in range(DC):
                work.clouds[(row * samples + i) * kept, 0, axis] = states[AXES[axis], 0]
            for s in range(DS):
                states[s, 0] = plans.states[row, s]
        for h in range(horizon):
            for pair in range(PAIRS):
                counter = (h * PARTICLES + l) * PAIRS + pair
                noise[2 * pair, 0], noise[2 * pair + 1, 0] = normal_pair(key, counter)
            step(states, plans.sequences[row, i, h], noise, params)
            for s in range(DS):
                work.states[row, i, h, s, l] = states[s, 0]
            if h < kept and regions.rule != ELLIPSOID:
                for axis in range(DC):
                    work.clouds[(row * samples + i) * kept + h, l, axis] = states[AXES[axis], 0]


@cuda.jit(device=True)
def mean_after(work, row, i, h, s):
    """Mean of one number of the state over the particles after step h."""
    total = 0.0
    for l in range(PARTICLES):
        total += work.states[row, i, h, s, l]
    return total / PARTICLES


@exact_kernel
def find_regions(plans, regions, summed, columns, work):
    """Thresholds and index boxes of regions, and strata that they contain entirely: a thread per region."""
    row, number = cuda.blockIdx.y, cuda.grid(1)
    samples, kept = plans.sequences.shape[1], work.cells.shape[2]
    x = cuda.local.array(INPUTS, np.float64)
    whole = cuda.local.array(STRATA, np.float64)
    if number < samples * kept:
        i, h, region, reach = number // kept, number % kept, row * samples * kept + number, -1.0
        for s in range(DS):
            x[s] = plans.states[row, s] if h == 0 else mean_after(work, row, i, h - 1, s)
        for a in range(DA):
            x[DS + a] = plans.sequences[row, i, h, a]
        for m in range(STRATA):
            root, step_of = regions.roots[min(h, regions.roots.shape[0] - 1), m], min(h, regions.limits.shape[0] - 1)
            leaf = find_group(regions.nodes, root, regions.stratum_features, m, x)
            q, whole[m] = regions.thresholds[step_of, m, leaf], 0.0
            work.limits[region, m], work.cells[row, i, h, m] = regions.limits[step_of, m, leaf], 0
            if q == math.inf and regions.rule != ELLIPSOID:
                work.limits[region, m], whole[m] = -1.0, summed.totals[m]
                work.cells[row, i, h, m] = summed.sizes[m]
            else:
                reach = max(reach, q)
        work.limits[region, STRATA] = work.limits[region, 0] if summed.infeasible else -1.0
        work.cells[row, i, h, STRATA] = 0
        work.sums[row, i, h] = pairwise_sum(whole)
        first, extent, cloud = work.first[region], work.extent[region], work.clouds[region]
        index_box(regions.rule, regions.length, reach, summed.spread, cloud, columns, first, extent)
        if reach < 0.0:
            extent[0] = 0


@cuda.jit(device=True)
def stand_in(row, i, h, states, work, params):
    """Use particles with states (ds, L) in place of a region that has no cell."""
    cells, work.sums[row, i, h] = work.cells[row, i, h], 0.0
    for l in range(states.shape[1]):
        m = particle_stratum(states, l, params)
        cells[m if m >= 0 else STRATA] += 1
        work.sums[row, i, h] += particle_cost(states, l, params)


@exact_kernel
def price(plans, regions, work, params):
    """Stage costs of the sequences of every plan: a thread per sequence."""
    row, i = cuda.blockIdx.y, cuda.grid(1)
    samples, horizon, kept = plans.sequences.shape[1], plans.sequences.shape[2], work.cells.shape[2]
    mean = cuda.local.array(DS, np.float64)
    if i < samples:
        for h in range(kept):
            found = 0
            for m in range(STRATA + 1):
                found += work.cells[row, i, h, m]
            if found == 0:
                stand_in(
                    row, i, h, work.alone[row, i] if regions.rule == ELLIPSOID else work.states[row, i, h], work, params
                )
        for h in range(horizon):
            cost = 0.0
            for l in range(PARTICLES):
                cost += particle_cost(work.states[row, i, h], l, params) / PARTICLES
            work.particles[row, i, h] = cost
        seen = Seen(work.particles[row, i], work.cells[row, i], work.sums[row, i])
        for h in range(horizon):
            everything = 0.0
            for s in range(DS):
                mean[s] = mean_after(work, row, i, h, s)
                everything += mean[s]
            cost = stage_cost(mean, plans.sequences[row, i, h], seen, h + 1, horizon, params)
            # a cost that does not use a NaN entry of the state must not hide it
            plans.stages[row, i, h] = cost if math.isfinite(everything) else math.nan
