"""The last steps of MPPI on the GPU: sequences are averaged by their costs, and the best are evaluated again."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from capture_cp.kernels.scalar import smaller
from capture_cp.planning.cuda.layout import COMBINING

FOLDS = math.isqrt(COMBINING)  # values that remain of COMBINING when a lowest is sought


@cuda.jit(device=True, cache=True)
def _add_up(plans, row, i):
    """The cost of a sequence from its stage costs; a non-finite one is recorded and becomes infinite."""
    total, horizon = 0.0, plans.stages.shape[2]
    for h in range(horizon):
        total += plans.stages[row, i, h]
    if not math.isfinite(total):
        total, bad = math.inf, 0
        while bad < horizon and math.isfinite(plans.stages[row, i, bad]):
            bad += 1
        if bad < horizon:
            cuda.atomic.add(plans.trouble, (row, 0), 1)
            cuda.atomic.min(plans.trouble, (row, 1), bad + 1)
    plans.costs[row, i] = total
    return total


@cuda.jit(device=True, cache=True)
def _lowest(values):
    """The lowest of a block's shared values (COMBINING,), some of which are overwritten."""
    thread, lowest = cuda.threadIdx.x, math.inf
    cuda.syncthreads()
    if thread < FOLDS:
        for fold in range(thread, COMBINING, FOLDS):
            lowest = smaller(values[fold], lowest)
        values[thread] = lowest
    cuda.syncthreads()
    for fold in range(FOLDS):
        lowest = smaller(values[fold], lowest)
    return lowest


@cuda.jit(device=True, cache=True)
def _summed(parts, slices, columns, column):
    """Sum of one column of a block's shared parts (slices * columns,), always in the same order."""
    value = 0.0
    for part in range(slices):
        value += parts[part * columns + column]
    return value


@cuda.jit(device=True, cache=True)
def _average_some(plans, row, block, thread, weights, parts):
    """Costs of a block's sequences, and sums weighted by exp(-cost / λ) from the lowest of them."""
    samples, da = plans.sequences.shape[1], plans.sequences.shape[3]
    columns = plans.sequences.shape[2] * da + 1  # the weights themselves come first
    temperature = plans.states[row, plans.states.shape[1] - 1]
    first = block * COMBINING
    cost = _add_up(plans, row, first + thread) if first + thread < samples else math.inf
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


@cuda.jit(device=True, cache=True)
def _combine(plans, row, thread, parts, weight):
    """The new plan from the sums of all blocks."""
    da, partials = plans.nominal.shape[2], plans.partial.shape[1]
    columns = plans.nominal.shape[1] * da + 1
    temperature = plans.states[row, plans.states.shape[1] - 1]
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
def average(plans):
    """The new plan: sums over COMBINING sequences per block, combined by the block that is done last."""
    row, block, thread = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x
    weights = cuda.shared.array(COMBINING, np.float64)
    parts = cuda.shared.array(COMBINING, np.float64)
    weight = cuda.shared.array(1, np.float64)
    done = cuda.shared.array(1, np.int32)
    _average_some(plans, row, block, thread, weights, parts)
    cuda.threadfence()
    cuda.syncthreads()
    if thread == 0:
        done[0] = cuda.atomic.add(plans.done, row, 1) + 1
    cuda.syncthreads()
    if done[0] == plans.partial.shape[1]:
        _combine(plans, row, thread, parts, weight)
        if thread == 0:
            plans.done[row] = 0


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
    for i in range(thread, again.costs.shape[1], COMBINING):
        _add_up(again, row, i)
    cuda.syncthreads()
    best, lowest = 0, math.inf
    for candidate in range(candidates):
        cost = 0.0
        for copy in range(repeats):
            cost += again.costs[row, candidate * repeats + copy]
        if cost < lowest:
            best, lowest = candidate, cost
    for entry in range(thread, horizon * da, COMBINING):
        again.nominal[row, entry // da, entry % da] = again.sequences[row, best * repeats, entry // da, entry % da]
