"""The last step of MPPI on the GPU: sequences are averaged by their costs."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

AVERAGING = 128  # threads of a block


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
