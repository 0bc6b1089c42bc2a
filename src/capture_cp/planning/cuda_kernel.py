"""The planner's kernels on the GPU: sample, roll out, test regions, weigh and average, for several plans at once.

Lanes of a warp share one action sequence: each takes its particles, then its strata, then its runs of hazard cells, through
the functions that the processor's kernel calls. What they tell one another goes through shared memory; sequences never
meet, so barriers are the warp's.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda

from capture_cp.checks import CaptureError
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.scalar import clip
from capture_cp.kernels.tree import find_group
from capture_cp.planning.hazard import cells_of_run, is_on_hazard, kth_at_most, runs_within, sure_and_possible

WARP = 32
THREADS = 128  # of a block that rolls out
CHUNK = 4  # steps that particles go, at most, before the lanes turn to regions and costs
SHARED_BYTES = 48 * 1024  # what a block may have without asking for more
COMBINING = 256  # threads of a block that averages, and sequences that it takes
#: So many that four blocks fit on a multiprocessor, where a plan of the paper's size then runs in one go.
_FEW_REGISTERS: dict[str, Any] = {} if config.ENABLE_CUDASIM else {"max_registers": 128}


class Sizes(NamedTuple):
    """What the kernels are compiled for."""

    state: int
    action: int
    noise: int
    particles: int
    axes: int
    strata: int


class Regions(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have trees of their own; the last serves all steps after it
    stratum_features: Any
    limits: Any  # (T, M, J): squared thresholds of each step; the last serve all steps after them
    k: int
    count_cells: bool
    count_particles: bool


class Plans(NamedTuple):
    """Buffers of B plans, N sequences each."""

    states: Any  # (B, ds + 1): state, temperature
    keys: Any  # (B,): of the random numbers
    nominal: Any  # (B, H, da): to sample around, then the plan
    sequences: Any  # (B, N, H, da)
    costs: Any  # (B, N)
    stages: Any  # (B, N, H), or empty where nobody asks
    partial: Any  # (B, blocks, 2 + H * da): lowest cost, sum of weights, weighted sums
    trouble: Any  # (B, 2): sequences with a cost that is no number, first such step
    lowest: Any  # (B,): cost


class Sampling(NamedTuple):
    """How sequences are drawn."""

    spread: Any  # (da, da): lower triangular
    low: Any  # (da,)
    high: Any


class Layout(NamedTuple):
    """How a block of threads is shared out."""

    lanes: int  # of a warp, that share a sequence
    groups: int  # sequences of a block
    steps: int  # that particles go before the lanes turn to regions and costs


def layout_of(sizes: Sizes) -> Layout:
    """A lane a particle where they fit, never fewer than test hazard cells well; as many sequences and steps as fit."""
    lanes = 16 if sizes.particles <= 16 else WARP
    for threads in (THREADS, THREADS // 2, WARP):
        for steps in (CHUNK, CHUNK // 2, 1):
            layout = Layout(lanes, threads // lanes, steps)
            if _shared_bytes(sizes, layout) <= SHARED_BYTES:
                return layout
    raise CaptureError(
        f"{sizes.particles} particles of {sizes.state} numbers do not fit into the fast memory of a GPU; take fewer."
    )


def _shared_bytes(sizes: Sizes, layout: Layout) -> int:
    """Bytes of the shared arrays of `roll_out`."""
    ds, da, _, particles, dc, strata = sizes
    a_step = ds * (particles + 1) + particles * dc + ds + 3 * strata + 1
    numbers = layout.steps * a_step + (layout.steps + 1) * (ds + da)
    return layout.groups * (8 * numbers + 4 * layout.steps * layout.lanes)


@cuda.jit(device=True, cache=True)
def sequence_stream(plans, row, purpose, i):  # type: ignore[no-untyped-def]
    """Key of the random numbers of sequence i of a plan, for one purpose."""
    return np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))


@cache
def make_kernels(step: Any, stage_cost: Any, sizes: Sizes) -> Any:
    """The kernel that rolls out, compiled for a model, a cost and sizes."""
    ds, da, dn, particles, dc, strata = sizes
    lanes, groups, steps = layout_of(sizes)
    pairs, each = (dn + 1) // 2, -(-particles // lanes)
    noise_rows, inputs_each, steps_and_one = 2 * pairs + 2, ds + da, steps + 1
    padded = particles + 1  # so that lanes which sum up rows do not all ask the same bank of memory

    @cuda.jit(**_FEW_REGISTERS)
    def roll_out(plans, purpose, draws, regions, cells, params):  # type: ignore[no-untyped-def]
        """Costs of the sequences of every plan, under noise of streams of their own.

        Particles go a few steps on their own. Then lanes share out what those steps leave to do: means, thresholds, runs of
        hazard cells, costs. Nothing of it is needed to go on, and so most lanes have something to do most of the time.
        """
        lane, group, row = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
        samples, horizon = plans.sequences.shape[1], plans.sequences.shape[2]
        i = cuda.blockIdx.x * groups + group
        real = i < samples
        i = min(i, samples - 1)  # a lane without a sequence of its own repeats the last, so that all meet at the barriers
        rows = cuda.shared.array((groups, steps, ds, padded), np.float64)
        cloud = cuda.shared.array((groups, steps, particles, dc), np.float64)
        x = cuda.shared.array((groups, steps_and_one, inputs_each), np.float64)
        spread = cuda.shared.array((groups, steps, ds), np.float64)
        limits = cuda.shared.array((groups, steps, strata), np.float64)
        near = cuda.shared.array((groups, steps, strata), np.float64)
        far = cuda.shared.array((groups, steps, strata), np.float64)
        counts = cuda.shared.array((groups, steps, lanes), np.int32)
        costs = cuda.shared.array((groups, steps), np.float64)
        states = cuda.local.array((ds, each), np.float64)
        noise = cuda.local.array((noise_rows, 1), np.float64)
        action = cuda.local.array(da, np.float64)
        centre = cuda.local.array(dc, np.float64)
        middle = cuda.local.array(dc, np.float64)
        key = sequence_stream(plans, row, purpose, i)
        for number in range(noise_rows):
            noise[number, 0] = 0.0
        for s in range(ds):
            for p in range(each):
                states[s, p] = plans.states[row, s]
        for s in range(lane, ds, lanes):
            x[group, 0, s] = plans.states[row, s]
        total = 0.0
        for first in range(0, horizon, steps):
            here = min(steps, horizon - first)
            for c in range(here):
                h = first + c
                for a in range(da):
                    action[a] = plans.sequences[row, i, h, a]
                for a in range(lane, da, lanes):
                    x[group, c, ds + a] = plans.sequences[row, i, h, a]
                for p in range(each):
                    l = lane + p * lanes
                    if l < particles:
                        for pair in range(pairs if draws else 0):
                            counter = (h * pairs + pair) * particles + l
                            noise[2 * pair, 0], noise[2 * pair + 1, 0] = normal_pair(key, counter)
                        step(states[:, p : p + 1], action, noise, params)
                        for s in range(ds):
                            rows[group, c, s, l] = states[s, p]
                        for axis in range(dc):
                            cloud[group, c, l, axis] = rows[group, c, cells.axes[axis], l]
            cuda.syncwarp()
            for item in range(lane, here * ds, lanes):
                c, s = item // ds, item % ds
                mean, squares = 0.0, 0.0
                for l in range(particles):
                    mean += rows[group, c, s, l]
                mean /= particles
                for l in range(particles):
                    squares += (rows[group, c, s, l] - mean) ** 2
                x[group, c + 1, s], spread[group, c, s] = mean, squares
            cuda.syncwarp()
            if regions.count_cells:
                for item in range(lane, here * strata, lanes):
                    c, m = item // strata, item % strata
                    root = regions.roots[min(first + c, regions.roots.shape[0] - 1), m]
                    leaf = find_group(regions.nodes, root, regions.stratum_features, m, x[group, c])
                    limit = regions.limits[min(first + c, regions.limits.shape[0] - 1), m, leaf]
                    squares = 0.0
                    for axis in range(dc):
                        squares += spread[group, c, cells.axes[axis]]
                    inner, outer = kth_at_most(squares, regions.k, particles)
                    limits[group, c, m] = limit
                    near[group, c, m], far[group, c, m] = sure_and_possible(limit, inner, outer)
                cuda.syncwarp()
            for c in range(here):
                count = 0
                if regions.count_cells:
                    furthest = -1.0
                    for m in range(strata):
                        furthest = max(furthest, far[group, c, m])
                    for axis in range(dc):
                        middle[axis] = x[group, c + 1, cells.axes[axis]]
                    from_run, to_run = runs_within(middle, furthest, cells)
                    for run in range(from_run + lane, to_run, lanes):
                        count += cells_of_run(
                            run, cloud[group, c], limits[group, c], regions.k, cells, centre, middle, near[group, c],
                            far[group, c],
                        )  # fmt: skip
                if regions.count_particles:
                    for l in range(lane, particles, lanes):
                        count += is_on_hazard(cloud[group, c], l, cells)
                counts[group, c, lane] = count
            cuda.syncwarp()
            for c in range(lane, here, lanes):
                hazard, all_of_it = 0, 0.0
                for other in range(lanes):
                    hazard += counts[group, c, other]
                for a in range(da):
                    action[a] = x[group, c, ds + a]
                for s in range(ds):
                    all_of_it += x[group, c + 1, s]
                cost = stage_cost(x[group, c + 1, :ds], action, hazard, first + c + 1, horizon, params)
                # a model that yields NaN must not be mended by a cost that never looks at that number
                costs[group, c] = cost if math.isfinite(all_of_it) else math.nan
            cuda.syncwarp()
            if lane == 0 and real:
                for c in range(here):
                    cost = costs[group, c]
                    if not math.isfinite(cost) and math.isfinite(total):
                        cuda.atomic.add(plans.trouble, (row, 0), 1)
                        cuda.atomic.min(plans.trouble, (row, 1), first + c + 1)
                    total += cost if math.isfinite(cost) else math.inf
                    if plans.stages.shape[0] > 0:
                        plans.stages[row, i, first + c] = cost
            for s in range(lane, ds, lanes):
                x[group, 0, s] = x[group, here, s]
            cuda.syncwarp()
        if lane == 0 and real:
            plans.costs[row, i] = total

    return roll_out


@cuda.jit(cache=True)
def draw_sequences(plans, sampling, purpose):  # type: ignore[no-untyped-def]
    """Perturbed action sequences within bounds, around the nominal plan."""
    row, samples, horizon, da = cuda.blockIdx.y, plans.costs.shape[1], plans.nominal.shape[1], plans.nominal.shape[2]
    n = cuda.grid(1)
    if n == 0:
        plans.trouble[row, 0], plans.trouble[row, 1] = 0, horizon + 1
    if n < samples * horizon:
        i, h, pairs = n // horizon, n % horizon, (da + 1) // 2
        key = sequence_stream(plans, row, purpose, i)
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
def _lowest(values):  # type: ignore[no-untyped-def]
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
def _summed(parts, slices, columns, column):  # type: ignore[no-untyped-def]
    """Sum of one column of a block's shared parts (slices * columns,), always in the same order."""
    value = 0.0
    for part in range(slices):
        value += parts[part * columns + column]
    return value


@cuda.jit(cache=True)
def average_some(plans):  # type: ignore[no-untyped-def]
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
            value = 0.0
            for other in range(part, here, slices):
                if column == 0:
                    value += weights[other]
                else:
                    value += weights[other] * plans.sequences[row, first + other, (column - 1) // da, (column - 1) % da]
            parts[thread] = value
        cuda.syncthreads()
        if part == 0 and column < columns:
            plans.partial[row, block, 1 + column] = _summed(parts, slices, columns, thread)
    if thread == 0:
        plans.partial[row, block, 0] = lowest


@cuda.jit(cache=True)
def average(plans):  # type: ignore[no-untyped-def]
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
def take_elites(plans, elites, repeats, again):  # type: ignore[no-untyped-def]
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
def take_best(again, repeats):  # type: ignore[no-untyped-def]
    """The plan that cost least on fresh noise becomes the nominal one."""
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
