"""The other steps of MPPI on the GPU: sequences are drawn, averaged by their costs, and the best are evaluated again."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.scalar import clip
from capture_cp.planning.cuda.layout import COMBINING


@cuda.jit(cache=True)
def draw_sequences(plans, sampling, purpose):
    """Perturbed action sequences within bounds, around the nominal plan."""
    row, samples, horizon, da = cuda.blockIdx.y, plans.costs.shape[1], plans.nominal.shape[1], plans.nominal.shape[2]
    n = cuda.grid(1)
    if n == 0:
        plans.trouble[row, 0], plans.trouble[row, 1] = 0, horizon + 1
    if n < samples * horizon:
        i, h, pairs = n // horizon, n % horizon, (da + 1) // 2
        key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))
        for a in range(da):
            plans.sequences[row, i, h, a] = plans.nominal[row, h, a]
        for pair in range(pairs):
            even, odd = normal_pair(key, h * pairs + pair)
            for half in range(2):
                b = 2 * pair + half
                for a in range(b, da):
                    plans.sequences[row, i, h, a] += sampling.spread[a, b] * (even if half == 0 else odd)
        for a in range(da):
            plans.sequences[row, i, h, a] = clip(plans.sequences[row, i, h, a], sampling.low[a], sampling.high[a])


@cuda.jit(device=True, cache=True)
def _lowest(values):
    """The lowest of a block's shared values (COMBINING,), which are overwritten."""
    thread, stride = cuda.threadIdx.x, COMBINING // 2
    cuda.syncthreads()
    while stride > 0:
        if thread < stride:
            values[thread] = min(values[thread], values[thread + stride])
        cuda.syncthreads()
        stride //= 2
    return values[0]


@cuda.jit(device=True, cache=True)
def _summed(parts, slices, columns, column):
    """Sum of one column of a block's shared parts (slices * columns,), always in the same order."""
    value = 0.0
    for part in range(slices):
        value += parts[part * columns + column]
    return value


@cuda.jit(cache=True)
def average_some(plans):
    """Sums over COMBINING sequences each, weighted by exp(-cost / λ) from the lowest of their costs."""
    row, block, thread = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x
    samples, da = plans.sequences.shape[1], plans.sequences.shape[3]
    columns = plans.sequences.shape[2] * da + 1  # the weights themselves come first
    temperature = plans.states[row, plans.states.shape[1] - 1]
    weights = cuda.shared.array(COMBINING, np.float64)
    parts = cuda.shared.array(COMBINING, np.float64)
    first = block * COMBINING
    cost = plans.costs[row, first + thread] if first + thread < samples else math.inf
    parts[thread] = cost
    lowest = _lowest(parts)
    weights[thread] = math.exp((lowest - cost) / temperature) if cost < math.inf else 0.0
    here = min(COMBINING, samples - first)
    slices = max(COMBINING // columns, 1)
    for begin in range(0, columns, COMBINING):
        cuda.syncthreads()
        column, part = begin + thread % columns, thread // columns
        if part < slices and column < columns:
            value, h, a = 0.0, max(column - 1, 0) // da, max(column - 1, 0) % da
            for other in range(part, here, slices):
                value += weights[other] * (1.0 if column == 0 else plans.sequences[row, first + other, h, a])
            parts[thread] = value
        cuda.syncthreads()
        if part == 0 and column < columns:
            plans.partial[row, block, 1 + column] = _summed(parts, slices, columns, thread)
    if thread == 0:
        plans.partial[row, block, 0] = lowest


@cuda.jit(cache=True)
def average(plans):
    """The new plan from the partial sums."""
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    da, partials = plans.nominal.shape[2], plans.partial.shape[1]
    columns = plans.nominal.shape[1] * da + 1
    temperature = plans.states[row, plans.states.shape[1] - 1]
    parts = cuda.shared.array(COMBINING, np.float64)
    weight = cuda.shared.array(1, np.float64)
    least = math.inf
    for other in range(thread, partials, COMBINING):
        least = min(least, plans.partial[row, other, 0])
    parts[thread] = least
    lowest = _lowest(parts)
    slices = max(COMBINING // columns, 1)
    for begin in range(0, columns, COMBINING):
        cuda.syncthreads()
        column, part = begin + thread % columns, thread // columns
        if part < slices and column < columns:
            value = 0.0
            for other in range(part, partials, slices):
                if plans.partial[row, other, 0] < math.inf:
                    scale = math.exp((lowest - plans.partial[row, other, 0]) / temperature)
                    value += scale * plans.partial[row, other, 1 + column]
            parts[thread] = value
        cuda.syncthreads()
        if part == 0 and column < columns:
            value = _summed(parts, slices, columns, thread)
            if column == 0:
                weight[0] = value
        cuda.syncthreads()
        if part == 0 and 0 < column < columns:
            plans.nominal[row, (column - 1) // da, (column - 1) % da] = value / weight[0]
    if thread == 0:
        plans.lowest[row] = lowest


@cuda.jit(cache=True)
def take_elites(plans, elites, repeats, again):
    """The average and the best sequences of every plan, each `repeats` times, into the sequences of `again`."""
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    samples, horizon, da = plans.costs.shape[1], plans.nominal.shape[1], plans.nominal.shape[2]
    values = cuda.shared.array(COMBINING, np.float64)
    last_cost, last = -math.inf, -1
    for chosen in range(elites + 1):
        if chosen > 0:
            # the next in the order of cost, then number
            best = math.inf
            for i in range(thread, samples, COMBINING):
                cost = plans.costs[row, i]
                if cost < best and (cost > last_cost or (cost == last_cost and i > last)):
                    best = cost
            values[thread] = best
            next_cost = _lowest(values)
            cuda.syncthreads()
            at = math.inf
            for i in range(thread, samples, COMBINING):
                if plans.costs[row, i] == next_cost and (next_cost > last_cost or i > last):
                    at = min(at, 1.0 * i)
            values[thread] = at
            last_cost, last = next_cost, int(min(_lowest(values), samples - 1.0))
            cuda.syncthreads()
        for entry in range(thread, repeats * horizon * da, COMBINING):
            copy, h, a = entry // (horizon * da), entry // da % horizon, entry % da
            given = plans.nominal[row, h, a] if chosen == 0 else plans.sequences[row, last, h, a]
            again.sequences[row, chosen * repeats + copy, h, a] = given


@cuda.jit(cache=True)
def take_best(again, repeats):
    """Make the plan with the lowest cost on fresh noise the nominal one."""
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    horizon, da = again.nominal.shape[1], again.nominal.shape[2]
    candidates = again.costs.shape[1] // repeats
    best, lowest = 0, math.inf
    for candidate in range(candidates):
        cost = 0.0
        for copy in range(repeats):
            cost += again.costs[row, candidate * repeats + copy]
        if cost < lowest:
            best, lowest = candidate, cost
    for entry in range(thread, horizon * da, COMBINING):
        again.nominal[row, entry // da, entry % da] = again.sequences[row, best * repeats, entry // da, entry % da]
