"""The rollout on the GPU: action sequences, their particles, regions and stage costs, one block of threads per sequence.

The threads share the particles of a step, then the cells or points of its region; the first one computes the cost.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from capture_cp.base.checks import CaptureError
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.scalar import clip
from capture_cp.kernels.tree import find_group
from capture_cp.planning.cuda.regions import THREADS, Sizes, by_cells, by_points
from capture_cp.planning.plugin import Functions, called_by

AVERAGING = 128  # threads of a block that averages
SHARED_BYTES = 48 * 1024  # shared memory of a block without an explicit request for more


class Sampling(NamedTuple):
    """How sequences are drawn."""

    spread: Any  # (da, da): lower triangular
    low: Any  # (da,)
    high: Any


class Plans(NamedTuple):
    """Buffers of B plans, N sequences each."""

    states: Any  # (B, ds + 1): state, temperature
    keys: Any  # (B,): of the random numbers
    nominal: Any  # (B, H, da): to sample around, then the plan
    sequences: Any  # (B, N, H, da)
    stages: Any  # (B, N, H): costs of the steps
    costs: Any  # (B, N)
    lowest: Any  # (B,): lowest cost, -inf if any is not finite


@cuda.jit(device=True)
def _draw_sequence(plans, sampling, key, row, i, thread, normals):
    """Draw a sequence's actions around the nominal plan, within bounds: a thread's part; `normals` is scratch."""
    horizon, da = plans.nominal.shape[1], plans.nominal.shape[2]
    pairs = (da + 1) // 2
    for h in range(thread, horizon, THREADS):
        for pair in range(pairs):
            normals[2 * pair], normals[2 * pair + 1] = normal_pair(key, h * pairs + pair)
        for a in range(da):
            action = plans.nominal[row, h, a]
            for b in range(a + 1):
                action += sampling.spread[a, b] * normals[b]
            plans.sequences[row, i, h, a] = clip(action, sampling.low[a], sampling.high[a])


@cuda.jit(device=True)
def _find_limits(regions, h, x, limits, thread):
    """Squared thresholds of the regions of step h (from 0) for an input x (dx,), into limits (M,): a thread's part."""
    for m in range(thread, limits.shape[0], THREADS):
        root = regions.roots[min(h, regions.roots.shape[0] - 1), m]
        group = find_group(regions.nodes, root, regions.stratum_features, m, x)
        limits[m] = regions.limits[min(h, regions.limits.shape[0] - 1), m, group]


@cuda.jit(device=True)
def _average(states, x, thread):
    """The mean of states (ds, L), into the first entries of x: a thread's part."""
    for s in range(thread, states.shape[0], THREADS):
        total = 0.0
        for l in range(states.shape[1]):
            total += states[s, l]
        x[s] = total / states.shape[1]


def _mover(step: Any, sizes: Sizes) -> Any:
    """A function that advances a thread's particles by step h, with their own noise."""
    state, axes, particles, draws, pairs = sizes.state, sizes.axes, sizes.particles, sizes.draws, (sizes.noise + 1) // 2
    rows = 2 * pairs + 2  # as on the CPU

    @cuda.jit(device=True)
    def move(states, cloud, action, key, h, params, thread):
        alone, noise = cuda.local.array((state, 1), np.float64), cuda.local.array((rows, 1), np.float64)
        for number in range(rows):
            noise[number, 0] = 0.0
        for l in range(thread, particles, THREADS):
            for pair in range(pairs if draws else 0):
                noise[2 * pair, 0], noise[2 * pair + 1, 0] = normal_pair(key, (h * particles + l) * pairs + pair)
            for s in range(state):
                alone[s, 0] = states[s, l]
            step(alone, action, noise, params)
            for s in range(state):
                states[s, l] = alone[s, 0]
            for axis in range(len(axes)):
                cloud[l, axis] = alone[axes[axis], 0]

    return move


def _pricer(stage_cost: Any, state: int) -> Any:
    """A function for the cost of step h, from 0, whose action and the mean after it are in x."""

    @cuda.jit(device=True)
    def price(x, met, h, horizon, params):
        total = 0.0
        for s in range(state):
            total += x[s]
        cost = stage_cost(x[:state], x[state:], met, h + 1, horizon, params)
        return cost if math.isfinite(total) else math.nan  # which a cost that ignores a NaN entry of the state would hide

    return price


@cache
def rollout_kernel(functions: Functions, sizes: Sizes) -> Any:
    """The kernel for a user's functions, compiled for these sizes.

    It writes stage costs of the sequences of every plan, each under its own stream of noise, number `purpose` of its plan.
    For an odd purpose, the sequences are drawn first, from the stream before it.
    """
    state, action, particles, dims, strata = sizes.state, sizes.action, sizes.particles, len(sizes.axes), sizes.strata
    if 8 * (particles * (state + dims + 3 * (sizes.points > 0)) + state + action + strata) > SHARED_BYTES - 1024:
        raise CaptureError(
            f"{particles} particles of {state} numbers do not fit into the shared memory of a GPU; use fewer particles."
        )
    inputs, even = state + action, action + action % 2
    move, price = _mover(functions.step, sizes), _pricer(functions.stage_cost, state)
    hazard_in = by_points(called_by(functions), sizes) if sizes.points else by_cells(sizes)

    @cuda.jit
    def roll_out(plans, sampling, purpose, regions, hazard, params):
        i, row, thread, horizon = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x, plans.sequences.shape[2]
        states = cuda.shared.array((state, particles), np.float64)
        cloud = cuda.shared.array((particles, dims), np.float64)
        x = cuda.shared.array(inputs, np.float64)  # mean state and action
        limits = cuda.shared.array(strata, np.float64)
        if purpose % 2 == 1:
            key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose - 1)), i))
            _draw_sequence(plans, sampling, key, row, i, thread, cuda.local.array(even, np.float64))
        key, total = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i)), 0.0
        for s in range(thread, state, THREADS):
            x[s] = plans.states[row, s]
            for l in range(particles):
                states[s, l] = x[s]
        for h in range(horizon):
            cuda.syncthreads()
            for a in range(thread, action, THREADS):
                x[state + a] = plans.sequences[row, i, h, a]
            cuda.syncthreads()
            _find_limits(regions, h, x, limits, thread)
            move(states, cloud, x[state:], key, h, params, thread)
            cuda.syncthreads()
            _average(states, x, thread)
            met = hazard_in(cloud, limits, regions, hazard, params, thread)  # after a barrier in it
            if thread == 0:
                plans.stages[row, i, h] = price(x, met, h, horizon, params)
                total += plans.stages[row, i, h]
        if thread == 0:
            plans.costs[row, i] = total

    return roll_out


@cuda.jit(cache=True)
def average(plans):
    """The new plan, weighted by exp(-cost / λ) from the lowest cost: a block per number of an action."""
    row, thread, threads = cuda.blockIdx.y, cuda.threadIdx.x, cuda.blockDim.x
    h, a = cuda.blockIdx.x // plans.nominal.shape[2], cuda.blockIdx.x % plans.nominal.shape[2]
    parts = cuda.shared.array(AVERAGING, np.float64)
    weights = cuda.shared.array(AVERAGING, np.float64)
    costs, temperature, lowest = plans.costs[row], plans.states[row, plans.states.shape[1] - 1], math.inf
    for i in range(thread, costs.shape[0], threads):
        lowest = min(lowest, costs[i] if math.isfinite(costs[i]) else -math.inf)
    parts[thread] = lowest
    cuda.syncthreads()
    for other in range(threads):
        lowest = min(lowest, parts[other])
    cuda.syncthreads()
    total, weight = 0.0, 0.0
    for i in range(thread, costs.shape[0], threads):
        w = math.exp((lowest - costs[i]) / temperature)
        total, weight = total + w * plans.sequences[row, i, h, a], weight + w
    parts[thread], weights[thread] = total, weight
    cuda.syncthreads()
    if thread == 0:
        total, weight = 0.0, 0.0
        for other in range(threads):
            total, weight = total + parts[other], weight + weights[other]
        plans.nominal[row, h, a], plans.lowest[row] = total / weight, lowest


@cuda.jit(cache=True)
def take_elites(plans, order, repeats, again):
    """The average and the best sequences of every plan, by their `order`, each `repeats` times: a block per sequence."""
    row, copy = cuda.blockIdx.y, cuda.blockIdx.x
    horizon, da, chosen = plans.nominal.shape[1], plans.nominal.shape[2], copy // repeats
    for entry in range(cuda.threadIdx.x, horizon * da, cuda.blockDim.x):
        h, a = entry // da, entry % da
        best = plans.nominal[row, h, a] if chosen == 0 else plans.sequences[row, order[row, chosen - 1], h, a]
        again.sequences[row, copy, h, a] = best
