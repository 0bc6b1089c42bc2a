"""The rollout on the GPU: action sequences of several plans, their particles, regions and stage costs.

Lanes of a warp share one action sequence: each handles its particles, and then its part of the steps. The threads of a block
share the work on the regions that may meet the hazard, see `regions`. They exchange data through shared memory.

Like `kernel`, this file is a template: `specialise` compiles it with the user's functions and sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config, cuda

from capture_cp.base.layouts import EUCLIDEAN, FUNCTION
from capture_cp.cuda.cells import near_range
from capture_cp.kernels.cells import cell_at, column_at, column_count, index_box, widest_limit
from capture_cp.kernels.distance import squared_distance
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.probes import move, reaches_wide, signed, volume_within, weight_inside
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.cuda.drawing import draw_action
from capture_cp.planning.cuda.layout import Shared, Sizes, layout_of
from capture_cp.planning.cuda.regions import (
    add_up_runs,
    count_close,
    count_in_runs,
    find_runs,
    find_thresholds,
    list_regions,
    listed_at,
    measure_spread,
    rank_spread,
    sum_spread,
)
from capture_cp.planning.hazard import cell_of, is_on_hazard
from capture_cp.planning.plugin import hazard, squared, stage_cost, step, stratum

SIZES = Sizes(state=2, action=2, noise=2, particles=16, axes=(0, 1), strata=3, points=0, rule=0)
DS, DA, DN, PARTICLES, AXES, STRATA, POINTS, RULE = SIZES
LANES, GROUPS, STEPS = layout_of(SIZES)
PAIRS, EACH = (DN + 1) // 2, -(-PARTICLES // LANES)
NOISE_ROWS, ACTION_ROWS, INPUTS, DC, STEPS_AND_ONE = 2 * PAIRS + 2, DA + DA % 2, DS + DA, len(AXES), STEPS + 1
LIMITS, THREADS, REGIONS, REGIONS_AND_ONE = STRATA + 1, GROUPS * LANES, GROUPS * STEPS, GROUPS * STEPS + 1
#: Whether hazard cells are found in runs: in the Euclidean metric, where a region is tested by its cells.
IN_RUNS = RULE == EUCLIDEAN and POINTS == 0
ASIDE = max(1, DC - 1)  # axes but the last
PLANES = max(1, math.ceil(math.log2(PARTICLES)))  # of bits, see `covered_cells`
RADII, WEIGHED = (PARTICLES + 1, LANES) if POINTS else (1, 1)  # 1 is the smallest array size allowed
SUMMED = min(LANES, PARTICLES)  # lanes that have particles
PADDED = LANES + 1  # avoids bank conflicts between lanes that sum rows
KERNELS = ("roll_out",)
#: Registers such that four blocks fit on a multiprocessor, where a plan of the paper's size then runs in one wave.
FEW_REGISTERS: dict[str, Any] = {} if config.ENABLE_CUDASIM else {"max_registers": 128}


# -- particles ------------------------------------------------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def draw_sequence(plans, sampling, purpose, row, i, lane):
    """Draw the actions of a sequence: a lane's part."""
    normals, horizon = cuda.local.array(ACTION_ROWS, np.float64), plans.nominal.shape[1]
    key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))
    for h in range(lane, horizon, LANES):
        draw_action(plans, sampling, key, row, i, h, DA, normals)
    if i == 0 and lane == 0:
        plans.trouble[row, 0], plans.trouble[row, 1] = 0, horizon + 1


@cuda.jit(device=True, cache=True)
def move_particles(shared, group, c, states, action, noise, key, h, lane, draws, params):
    """Advance a lane's particles by one step: step h of the plan, number c of those computed together."""
    for p in range(EACH):
        l = lane + p * LANES
        if l < PARTICLES:
            if draws:
                for pair in range(PAIRS):
                    noise[2 * pair, 0], noise[2 * pair + 1, 0] = normal_pair(key, (h * PARTICLES + l) * PAIRS + pair)
            step(states if EACH == 1 else states[:, p : p + 1], action, noise, params)
            for s in range(DS):
                shared.sums[group, s, lane] = states[s, p] + (0.0 if p == 0 else shared.sums[group, s, lane])
            for axis in range(DC):
                shared.cloud[group, c, l, axis] = states[AXES[axis], p]


@cuda.jit(device=True, cache=True)
def average_particles(shared, group, c, lane):
    """Mean of the particles after step c."""
    for s in range(lane, DS, LANES):
        total = 0.0
        for other in range(SUMMED):
            total += shared.sums[group, s, other]
        shared.x[group, c + 1, s] = total / PARTICLES


# -- regions in other metrics: columns of cells -----------------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def count_in_columns(shared, regions, columns, group, c, lane):
    """Hazard cells in the region of one step in another metric: a lane's part, in columns of cells."""
    centre = cuda.local.array(DC, np.float64)
    first = cuda.local.array(DC, np.int64)
    extent = cuda.local.array(DC, np.int64)
    cloud, limits, count, reach = shared.cloud[group, c], shared.limits[group, c], 0, -1.0
    for m in range(STRATA):
        reach = max(reach, shared.far[group, c, m])
    if reach < 0.0:
        return 0
    index_box(RULE, regions.length, reach, centre, cloud, columns, first, extent)
    for number in range(lane, column_count(extent), LANES):
        column = column_at(number, first, extent, columns.origin, columns.spacing, columns.shape, centre)
        widest = widest_limit(limits, columns.present, column)
        if widest >= 0.0:
            start, stop = near_range(
                RULE, regions.length, regions.k, cloud, widest, centre, first, extent, columns
            )  # fmt: skip
            for t in range(start, stop):
                cell = cell_at(t, first[DC - 1], columns.shape[DC - 1])
                m = columns.labels[column, cell]
                centre[DC - 1] = columns.origin[DC - 1] + cell * columns.spacing[DC - 1]
                if m >= 0 and enough_within(RULE, regions.length, regions.k, limits[m], centre, cloud):
                    count += 1
    return count


@cuda.jit(device=True, cache=True)
def look_at_runs(shared, regions, runs, columns, params, here, number, thread):
    """Hazard cells in the listed regions in the Euclidean metric."""
    centre = cuda.local.array(DC, np.float64)
    middle = cuda.local.array(DC, np.float64)
    place = cuda.local.array(ASIDE, np.float32)
    planes = cuda.local.array(PLANES, np.uint32)
    find_runs(shared, runs, AXES, middle, number, thread, THREADS)
    cuda.syncthreads()
    add_up_runs(shared, number, thread, THREADS)
    cuda.syncthreads()
    count_in_runs(shared, regions, runs, AXES, (centre, middle, place, planes), number, thread, THREADS)


@cuda.jit(device=True, cache=True)
def look_at_columns(shared, regions, runs, columns, params, here, number, thread):
    """Hazard cells in the listed regions in another metric."""
    for item in range(thread // LANES, number, GROUPS):
        group, c, _ = listed_at(shared, item, 1)
        count = count_in_columns(shared, regions, columns, group, c, thread % LANES)
        if count > 0:
            cuda.atomic.add(shared.counts, (group, c), count)


@cuda.jit(device=True, cache=True)
def count_particles(shared, runs, group, here, lane):
    """Particles on hazard cells: a lane's part."""
    for c in range(here):
        for l in range(lane, PARTICLES, LANES):
            if is_on_hazard(shared.cloud[group, c], l, runs):
                cuda.atomic.add(shared.counts, (group, c), 1)


# -- regions that have no cells, as in `probe_kernel` ---------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def clearance(y, probes, params):
    """Signed distance of a configuration y (dc,) from the hazard, by its function; -1 or 0 for a yes-or-no hazard."""
    if probes.masked:
        cell = cell_of(y, probes)
        return -1.0 if cell >= 0 and probes.mask[cell] else 0.0
    return signed(hazard(y, params))


@cuda.jit(device=True, cache=True)
def stratum_at(y, probes, params):
    """Stratum of a configuration y (dc,), by its function or on the grid; -1 where no region extends."""
    if probes.labelled:
        cell = cell_of(y, probes)
        m = probes.labels[cell] if cell >= 0 else -1
    else:
        m = stratum(y, params)
    return 0 if m < 0 and probes.ambient else m


@cuda.jit(device=True, cache=True)
def find_distances(regions, y, cloud, distances):
    """Squared distances of y (dc,) from particles `cloud` (L, dc), into distances (L,); returns the largest."""
    largest = 0.0
    for l in range(PARTICLES):
        if RULE == FUNCTION:
            distances[l] = squared(y, cloud[l])
        else:
            distances[l] = squared_distance(RULE, regions.length, y, cloud[l])
        largest = max(largest, distances[l])
    return largest


@cuda.jit(device=True, cache=True)
def weigh_point(shared, regions, probes, params, group, c, j, y, distances):
    """Weight of point j around the particles of one step, and whether it is on the hazard; y and distances are scratch."""
    each = POINTS // PARTICLES
    l, cloud, radii = j // each, shared.cloud[group, c], shared.radii[group, c]
    radius = radii[1, PARTICLES if reaches_wide(j, each) else l]
    density = move(probes.moves, cloud[l], radius, probes.offsets[j], y)
    on_it = clearance(y, probes, params) < 0.0
    if density <= 0.0 or not (on_it or probes.unit == 0.0):
        return 0.0, on_it
    m = stratum_at(y, probes, params)
    if m < 0 or shared.limits[group, c, m] < 0.0:
        return 0.0, on_it
    find_distances(regions, y, cloud, distances)
    inside = weight_inside(distances, regions.k, shared.limits[group, c, m], j, each, radii[0], radii[2])
    return density * inside, on_it


@cuda.jit(device=True, cache=True)
def prepare_points(shared, regions, probes, params, group, c, lane):
    """Reach of the points around each particle: a lane's part. Returns whether they can meet the hazard."""
    distances = cuda.local.array(PARTICLES, np.float64)
    reach, cloud = -1.0, shared.cloud[group, c]
    for m in range(STRATA):
        reach = max(reach, shared.far[group, c, m])
    if reach < 0.0:
        return False
    if probes.steepness > 0.0:
        apart = math.sqrt(find_distances(regions, cloud[0], cloud, distances))
        if clearance(cloud[0], probes, params) > probes.steepness * (reach + apart):
            return False
    for l in range(lane, RADII, LANES):
        m = stratum_at(cloud[l], probes, params) if l < PARTICLES else -1
        limit = shared.limits[group, c, m] if m >= 0 and shared.limits[group, c, m] >= 0.0 else reach * reach
        shared.radii[group, c, 0, l], shared.radii[group, c, 1, l] = limit, math.sqrt(limit)
        shared.radii[group, c, 2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, math.sqrt(limit)), 1e-300)
    return True


@cuda.jit(device=True, cache=True)
def weigh_points(shared, regions, probes, params, group, c, lane):
    """Points around the particles of one step that are in the region, and particles on the hazard: a lane's part."""
    y = cuda.local.array(DC, np.float64)
    distances = cuda.local.array(PARTICLES, np.float64)
    found, total = 0.0, 0.0
    near = regions.count_cells and prepare_points(shared, regions, probes, params, group, c, lane)
    cuda.syncwarp()
    for j in range(lane, POINTS if near else 0, LANES):
        weight, on_it = weigh_point(shared, regions, probes, params, group, c, j, y, distances)
        found, total = found + (weight if on_it else 0.0), total + weight
    if regions.count_particles or (near and probes.unit == 0.0):
        for l in range(lane, PARTICLES, LANES):
            if clearance(shared.cloud[group, c, l], probes, params) < 0.0:
                cuda.atomic.add(shared.counts, (group, c), 1)
    shared.weights[group, c, 0, lane], shared.weights[group, c, 1, lane] = found, total


@cuda.jit(device=True, cache=True)
def look_at_points(shared, regions, probes, columns, params, here, number, thread):
    """`weigh_points` for every step."""
    for c in range(here):
        weigh_points(shared, regions, probes, params, thread // LANES, c, thread % LANES)


@cuda.jit(device=True, cache=True)
def hazard_by_points(shared, regions, probes, group, c):
    """How much of the region of one step lies on the hazard, in cells or as a fraction, and particles on it."""
    found, total, count = 0.0, 0.0, shared.counts[group, c]
    for lane in range(LANES):
        found, total = found + shared.weights[group, c, 0, lane], total + shared.weights[group, c, 1, lane]
    if probes.unit > 0.0:
        return found / POINTS / probes.unit + count
    hazard = 0.0
    if regions.count_cells:
        hazard = found / total if total > 0.0 else count / PARTICLES
    return hazard + (count / PARTICLES if regions.count_particles else 0.0)


@cuda.jit(device=True, cache=True)
def hazard_in_cells(shared, regions, runs, group, c):
    """Hazard cells in the region of one step, and particles on such cells."""
    return shared.counts[group, c]


#: Ranking too many particles would take longer than it saves.
bound_spread = rank_spread if PARTICLES <= LANES else sum_spread

#: How a region is tested against the hazard: by its cells, or by points around its particles.
if POINTS:
    look_at, hazard_of = look_at_points, hazard_by_points
else:
    look_at, hazard_of = look_at_runs if IN_RUNS else look_at_columns, hazard_in_cells


# -- costs ----------------------------------------------------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def price_steps(plans, shared, regions, runs, row, i, group, first, here, params, lane):
    """Costs of the steps, one lane per step."""
    action, horizon, c = cuda.local.array(DA, np.float64), plans.sequences.shape[2], lane
    if c < here:
        met, all_of_it = hazard_of(shared, regions, runs, group, c), 0.0
        for a in range(DA):
            action[a] = shared.x[group, c, DS + a]
        for s in range(DS):
            all_of_it += shared.x[group, c + 1, s]
        cost = stage_cost(shared.x[group, c + 1, :DS], action, met, first + c + 1, horizon, params)
        # a cost that does not use a NaN entry of the state must not hide it
        plans.stages[row, i, first + c] = cost if math.isfinite(all_of_it) else math.nan


@cuda.jit(cache=True, **FEW_REGISTERS)
def roll_out(plans, sampling, draws_actions, purpose, draws, regions, runs, columns, clear, params):
    """Stage costs of the sequences of every plan, each under its own stream of noise, number `purpose` of its plan.

    With `draws_actions`, the sequences are drawn first, from the stream before it. Particles advance several steps. The
    threads of the block then share the remaining work of those steps: spreads, thresholds, runs of hazard cells, costs. The
    particles do not depend on it, and most regions are far from hazards, so that there is little of it for most sequences.
    """
    lane, group, row = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
    horizon, thread = plans.sequences.shape[2], group * LANES + lane
    # a lane without its own sequence repeats the last, so that all reach the barriers
    i = min(cuda.blockIdx.x * GROUPS + group, plans.sequences.shape[1] - 1)
    shared = Shared(
        sums=cuda.shared.array((GROUPS, DS, PADDED), np.float64),
        cloud=cuda.shared.array((GROUPS, STEPS, PARTICLES, DC), np.float64),
        x=cuda.shared.array((GROUPS, STEPS_AND_ONE, INPUTS), np.float64),
        close=cuda.shared.array((GROUPS, STEPS), np.int32),
        counts=cuda.shared.array((GROUPS, STEPS), np.int32),
        number=cuda.shared.array(1, np.int32),
        listed=cuda.shared.array(REGIONS, np.int32),
        squares=cuda.shared.array((GROUPS, STEPS, PARTICLES), np.float64),
        offsets=cuda.shared.array((GROUPS, STEPS, PARTICLES, DC), np.float32),
        bounds=cuda.shared.array((GROUPS, STEPS, 2), np.float64),
        limits=cuda.shared.array((GROUPS, STEPS, LIMITS), np.float64),
        near=cuda.shared.array((GROUPS, STEPS, STRATA), np.float64),
        far=cuda.shared.array((GROUPS, STEPS, STRATA), np.float64),
        runs=cuda.shared.array((REGIONS, 2), np.int32),
        begins=cuda.shared.array(REGIONS_AND_ONE, np.int32),
        radii=cuda.shared.array((GROUPS, STEPS, 3, RADII), np.float64),
        weights=cuda.shared.array((GROUPS, STEPS, 2, WEIGHED), np.float64),
    )
    states = cuda.local.array((DS, EACH), np.float64)
    noise = cuda.local.array((NOISE_ROWS, 1), np.float64)
    action = cuda.local.array(DA, np.float64)
    if draws_actions:
        draw_sequence(plans, sampling, purpose - 1, row, i, lane)
    key = np.uint64(stream(np.uint64(stream(plans.keys[row], purpose)), i))
    for number in range(NOISE_ROWS):
        noise[number, 0] = 0.0
    for s in range(DS):
        for p in range(EACH):
            states[s, p] = plans.states[row, s]
    for s in range(lane, DS, LANES):
        shared.x[group, 0, s] = plans.states[row, s]
    sequence = plans.sequences[row, i]
    for first in range(0, horizon, STEPS):
        here = min(STEPS, horizon - first)
        if lane < here:
            shared.close[group, lane], shared.counts[group, lane] = 0, 0
        if thread == 0:
            shared.number[0] = 0
        cuda.syncwarp()
        for c in range(here):
            for a in range(DA):
                action[a] = sequence[first + c, a]
                shared.x[group, c, DS + a] = action[a]
            move_particles(shared, group, c, states, action, noise, key, first + c, lane, draws, params)
            cuda.syncwarp()
            average_particles(shared, group, c, lane)
            cuda.syncwarp()
        if regions.count_cells:
            if IN_RUNS:
                count_close(shared, regions, runs, clear, group, first, here, lane, LANES)
            cuda.syncthreads()
            list_regions(shared, regions.k if IN_RUNS else 0, group, here, lane)
            cuda.syncthreads()
            if IN_RUNS:
                measure_spread(shared, runs, AXES, shared.number[0], thread, THREADS)
                cuda.syncthreads()
                bound_spread(shared, regions.k, shared.number[0], thread, THREADS)
                cuda.syncthreads()
            find_thresholds(shared, regions, IN_RUNS, first, shared.number[0], thread, THREADS)
        cuda.syncthreads()
        if regions.count_cells or POINTS:
            look_at(shared, regions, runs, columns, params, here, shared.number[0], thread)
        if regions.count_particles and not POINTS:
            count_particles(shared, runs, group, here, lane)
        cuda.syncthreads()
        price_steps(plans, shared, regions, runs, row, i, group, first, here, params, lane)
        cuda.syncwarp()
        for s in range(lane, DS, LANES):
            shared.x[group, 0, s] = shared.x[group, here, s]
