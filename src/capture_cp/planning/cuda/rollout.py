"""The rollout on the GPU: action sequences of several plans, their particles, regions and stage costs.

Lanes of a warp share one action sequence: each handles its particles, then its part of the strata, of the runs of hazard
cells and of the steps, through the functions that the CPU kernel calls. They exchange data through shared memory; sequences
are independent, so barriers synchronise one warp only.

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
from capture_cp.kernels.tree import find_group
from capture_cp.planning.cuda.drawing import draw_action
from capture_cp.planning.cuda.layout import Shared, Sizes, layout_of
from capture_cp.planning.hazard import cell_of, cells_of_run, is_on_hazard, kth_at_most, runs_within, sure_and_possible
from capture_cp.planning.plugin import hazard, squared, stage_cost, step, stratum

SIZES = Sizes(state=2, action=2, noise=2, particles=16, axes=(0, 1), strata=3, points=0, rule=0)
DS, DA, DN, PARTICLES, AXES, STRATA, POINTS, RULE = SIZES
LANES, GROUPS, STEPS = layout_of(SIZES)
PAIRS, EACH = (DN + 1) // 2, -(-PARTICLES // LANES)
NOISE_ROWS, ACTION_ROWS, INPUTS, DC, STEPS_AND_ONE = 2 * PAIRS + 2, DA + DA % 2, DS + DA, len(AXES), STEPS + 1
LIMITS = STRATA + 1
RADII, WEIGHED = (PARTICLES + 1, LANES) if POINTS else (1, 1)  # 1 is the smallest array size allowed
SUMMED = min(LANES, PARTICLES)  # lanes that have particles
PADDED = LANES + 1  # avoids bank conflicts between lanes that sum rows
NUMBERS = 2 ** math.ceil(math.log2(PARTICLES + 1)) - 1  # last bits of a distance, where the particle's number is kept
HAIR = 1e-9  # by which bounds are enlarged against rounding, and against those bits
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
def move_particles(shared, c, states, action, noise, key, h, lane, draws, params):
    """Advance a lane's particles by one step: step h of the plan, number c of those computed together."""
    for p in range(EACH):
        l = lane + p * LANES
        if l < PARTICLES:
            if draws:
                for pair in range(PAIRS):
                    noise[2 * pair, 0], noise[2 * pair + 1, 0] = normal_pair(key, (h * PARTICLES + l) * PAIRS + pair)
            step(states if EACH == 1 else states[:, p : p + 1], action, noise, params)
            for s in range(DS):
                shared.sums[s, lane] = states[s, p] + (0.0 if p == 0 else shared.sums[s, lane])
            for axis in range(DC):
                shared.cloud[c, l, axis] = states[AXES[axis], p]


@cuda.jit(device=True, cache=True)
def average_particles(shared, c, lane):
    """Mean of the particles after step c."""
    for s in range(lane, DS, LANES):
        total = 0.0
        for other in range(SUMMED):
            total += shared.sums[s, other]
        shared.x[c + 1, s] = total / PARTICLES


@cuda.jit(device=True, cache=True)
def measure_spread(shared, here, lane):
    """Squared distances of the particles from their mean: a lane's part. Their last bits number the particles."""
    for c in range(here):
        for l in range(lane, PARTICLES, LANES):
            squares = 0.0
            for axis in range(DC):
                squares += (shared.cloud[c, l, axis] - shared.x[c + 1, AXES[axis]]) ** 2
            shared.squares[c, l] = np.int64((np.float64(squares).view(np.int64) & ~NUMBERS) | l).view(np.float64)


@cuda.jit(device=True, cache=True)
def rank_spread(shared, k, here, lane):
    """Distances of the k-th nearest and of the k-th farthest particle from the mean: a lane's part."""
    for c in range(here):
        for l in range(lane, PARTICLES, LANES):
            squares, nearer = shared.squares[c, l], 0
            for other in range(PARTICLES):
                nearer += shared.squares[c, other] < squares
            if nearer == k - 1:
                shared.bounds[c, 0] = math.sqrt(squares) * (1.0 + HAIR) + HAIR
            if nearer == PARTICLES - k:
                shared.bounds[c, 1] = math.sqrt(squares) * (1.0 + HAIR) + HAIR


@cuda.jit(device=True, cache=True)
def sum_spread(shared, k, here, lane):
    """Upper bounds on these distances, for so many particles that ranking them would take longer than it saves."""
    for c in range(lane, here, LANES):
        squares = 0.0
        for l in range(PARTICLES):
            squares += shared.squares[c, l]
        shared.bounds[c, 0], shared.bounds[c, 1] = kth_at_most(squares, k, PARTICLES)


bound_spread = rank_spread if PARTICLES <= LANES else sum_spread


# -- regions --------------------------------------------------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def find_thresholds(shared, regions, first, here, lane):
    """Thresholds from the state before each step, and the distances from the centre at which cells are inside or outside."""
    for item in range(lane, here * STRATA, LANES):
        c, m = item // STRATA, item % STRATA
        root = regions.roots[min(first + c, regions.roots.shape[0] - 1), m]
        leaf = find_group(regions.nodes, root, regions.stratum_features, m, shared.x[c])
        limit = regions.limits[min(first + c, regions.limits.shape[0] - 1), m, leaf]
        shared.limits[c, m], shared.limits[c, STRATA] = limit, -1.0
        if RULE == EUCLIDEAN and POINTS == 0:
            shared.near[c, m], shared.far[c, m] = sure_and_possible(limit, shared.bounds[c, 0], shared.bounds[c, 1])
        else:
            shared.far[c, m] = regions.thresholds[min(first + c, regions.thresholds.shape[0] - 1), m, leaf]


@cuda.jit(device=True, cache=True)
def find_runs(shared, runs, here, lane):
    """The runs of hazard cells that the region of each step may reach, one lane per step."""
    middle = cuda.local.array(DC, np.float64)
    for c in range(lane, here, LANES):
        furthest = -1.0
        for m in range(STRATA):
            furthest = max(furthest, shared.far[c, m])
        for axis in range(DC):
            middle[axis] = shared.x[c + 1, AXES[axis]]
        shared.runs[c, 0], shared.runs[c, 1] = runs_within(middle, furthest, runs)


@cuda.jit(device=True, cache=True)
def count_in_runs(shared, regions, runs, here, lane):
    """Hazard cells in the regions of the steps in the Euclidean metric: a lane's part of the runs of all steps in a row."""
    centre = cuda.local.array(DC, np.float64)
    middle = cuda.local.array(DC, np.float64)
    find_runs(shared, runs, here, lane)
    cuda.syncwarp()
    c, at = 0, lane
    while c < here:
        run = shared.runs[c, 0] + at
        if run < shared.runs[c, 1]:
            for axis in range(DC):
                middle[axis] = shared.x[c + 1, AXES[axis]]
            shared.counts[c, lane] += cells_of_run(
                run, shared.cloud[c], shared.limits[c], regions.k, runs, centre, middle, shared.near[c], shared.far[c]
            )
            at += LANES
        else:
            at -= shared.runs[c, 1] - shared.runs[c, 0]
            c += 1


@cuda.jit(device=True, cache=True)
def count_in_columns(shared, regions, columns, c, lane):
    """Hazard cells in the region of one step in another metric: a lane's part, in columns of cells."""
    centre = cuda.local.array(DC, np.float64)
    first = cuda.local.array(DC, np.int64)
    extent = cuda.local.array(DC, np.int64)
    cloud, limits, count, reach = shared.cloud[c], shared.limits[c], 0, -1.0
    for m in range(STRATA):
        reach = max(reach, shared.far[c, m])
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
def count_hazard(shared, regions, runs, columns, params, here, lane):
    """Hazard cells in the regions of the steps, and particles on such cells: a lane's part."""
    for c in range(here):
        shared.counts[c, lane] = 0
    if regions.count_cells and RULE == EUCLIDEAN:
        count_in_runs(shared, regions, runs, here, lane)
    for c in range(here):
        if regions.count_cells and RULE != EUCLIDEAN:
            shared.counts[c, lane] += count_in_columns(shared, regions, columns, c, lane)
        if regions.count_particles:
            for l in range(lane, PARTICLES, LANES):
                shared.counts[c, lane] += is_on_hazard(shared.cloud[c], l, runs)


@cuda.jit(device=True, cache=True)
def hazard_in_cells(shared, regions, runs, c):
    """Total of the lanes' counts."""
    count = 0
    for lane in range(LANES):
        count += shared.counts[c, lane]
    return count


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
def weigh_point(shared, regions, probes, params, c, j, y, distances):
    """Weight of point j around the particles of one step, and whether it is on the hazard; y and distances are scratch."""
    each = POINTS // PARTICLES
    l, cloud = j // each, shared.cloud[c]
    radius = shared.radii[c, 1, PARTICLES if reaches_wide(j, each) else l]
    density = move(probes.moves, cloud[l], radius, probes.offsets[j], y)
    on_it = clearance(y, probes, params) < 0.0
    if density <= 0.0 or not (on_it or probes.unit == 0.0):
        return 0.0, on_it
    m = stratum_at(y, probes, params)
    if m < 0 or shared.limits[c, m] < 0.0:
        return 0.0, on_it
    find_distances(regions, y, cloud, distances)
    inside = weight_inside(distances, regions.k, shared.limits[c, m], j, each, shared.radii[c, 0], shared.radii[c, 2])
    return density * inside, on_it


@cuda.jit(device=True, cache=True)
def prepare_points(shared, regions, probes, params, c, lane):
    """Reach of the points around each particle: a lane's part. Returns whether they can meet the hazard."""
    distances = cuda.local.array(PARTICLES, np.float64)
    reach, cloud = -1.0, shared.cloud[c]
    for m in range(STRATA):
        reach = max(reach, shared.far[c, m])
    if reach < 0.0:
        return False
    if probes.steepness > 0.0:
        apart = math.sqrt(find_distances(regions, cloud[0], cloud, distances))
        if clearance(cloud[0], probes, params) > probes.steepness * (reach + apart):
            return False
    for l in range(lane, RADII, LANES):
        m = stratum_at(cloud[l], probes, params) if l < PARTICLES else -1
        limit = shared.limits[c, m] if m >= 0 and shared.limits[c, m] >= 0.0 else reach * reach
        shared.radii[c, 0, l], shared.radii[c, 1, l] = limit, math.sqrt(limit)
        shared.radii[c, 2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, math.sqrt(limit)), 1e-300)
    return True


@cuda.jit(device=True, cache=True)
def look_at_points(shared, regions, probes, params, c, lane):
    """Points around the particles of one step that are in the region, and particles on the hazard: a lane's part."""
    y = cuda.local.array(DC, np.float64)
    distances = cuda.local.array(PARTICLES, np.float64)
    found, total, count = 0.0, 0.0, 0
    near = regions.count_cells and prepare_points(shared, regions, probes, params, c, lane)
    cuda.syncwarp()
    for j in range(lane, POINTS if near else 0, LANES):
        weight, on_it = weigh_point(shared, regions, probes, params, c, j, y, distances)
        found, total = found + (weight if on_it else 0.0), total + weight
    if regions.count_particles or (near and probes.unit == 0.0):
        for l in range(lane, PARTICLES, LANES):
            count += clearance(shared.cloud[c, l], probes, params) < 0.0
    shared.weights[c, 0, lane], shared.weights[c, 1, lane], shared.counts[c, lane] = found, total, count


@cuda.jit(device=True, cache=True)
def look_at_all_points(shared, regions, probes, columns, params, here, lane):
    """`look_at_points` for every step."""
    for c in range(here):
        look_at_points(shared, regions, probes, params, c, lane)


@cuda.jit(device=True, cache=True)
def hazard_by_points(shared, regions, probes, c):
    """How much of the region of one step lies on the hazard, in cells or as a fraction, and particles on it."""
    found, total, count = 0.0, 0.0, 0
    for lane in range(LANES):
        found, total = found + shared.weights[c, 0, lane], total + shared.weights[c, 1, lane]
        count += shared.counts[c, lane]
    if probes.unit > 0.0:
        return found / POINTS / probes.unit + count
    hazard = 0.0
    if regions.count_cells:
        hazard = found / total if total > 0.0 else count / PARTICLES
    return hazard + (count / PARTICLES if regions.count_particles else 0.0)


#: How a region is tested against the hazard: by its cells, or by points around its particles.
look_at, hazard_of = (look_at_all_points, hazard_by_points) if POINTS else (count_hazard, hazard_in_cells)


# -- costs ----------------------------------------------------------------------------------------------------------------


@cuda.jit(device=True, cache=True)
def price_steps(plans, shared, regions, runs, row, i, first, here, params, lane):
    """Costs of the steps, one lane per step."""
    action, horizon = cuda.local.array(DA, np.float64), plans.sequences.shape[2]
    for c in range(lane, here, LANES):
        met, all_of_it = hazard_of(shared, regions, runs, c), 0.0
        for a in range(DA):
            action[a] = shared.x[c, DS + a]
        for s in range(DS):
            all_of_it += shared.x[c + 1, s]
        cost = stage_cost(shared.x[c + 1, :DS], action, met, first + c + 1, horizon, params)
        # a cost that does not use a NaN entry of the state must not hide it
        plans.stages[row, i, first + c] = cost if math.isfinite(all_of_it) else math.nan


@cuda.jit(cache=True, **FEW_REGISTERS)
def roll_out(plans, sampling, draws_actions, purpose, draws, regions, runs, columns, params):
    """Stage costs of the sequences of every plan, each under its own stream of noise, number `purpose` of its plan.

    With `draws_actions`, the sequences are drawn first, from the stream before it. Particles advance several steps. The
    lanes then divide the remaining work of those steps: spreads, thresholds, runs of hazard cells, costs. The particles do
    not depend on it, so most lanes are busy most of the time.
    """
    lane, group, row = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
    horizon = plans.sequences.shape[2]
    # a lane without its own sequence repeats the last, so that all reach the barriers
    i = min(cuda.blockIdx.x * GROUPS + group, plans.sequences.shape[1] - 1)
    sums = cuda.shared.array((GROUPS, DS, PADDED), np.float64)
    cloud = cuda.shared.array((GROUPS, STEPS, PARTICLES, DC), np.float64)
    x = cuda.shared.array((GROUPS, STEPS_AND_ONE, INPUTS), np.float64)
    squares = cuda.shared.array((GROUPS, STEPS, PARTICLES), np.float64)
    bounds = cuda.shared.array((GROUPS, STEPS, 2), np.float64)
    limits = cuda.shared.array((GROUPS, STEPS, LIMITS), np.float64)
    near = cuda.shared.array((GROUPS, STEPS, STRATA), np.float64)
    far = cuda.shared.array((GROUPS, STEPS, STRATA), np.float64)
    reached = cuda.shared.array((GROUPS, STEPS, 2), np.int32)
    counts = cuda.shared.array((GROUPS, STEPS, LANES), np.int32)
    radii = cuda.shared.array((GROUPS, STEPS, 3, RADII), np.float64)
    weights = cuda.shared.array((GROUPS, STEPS, 2, WEIGHED), np.float64)
    shared = Shared(
        sums[group], cloud[group], x[group], squares[group], bounds[group], limits[group], near[group], far[group],
        reached[group], counts[group], radii[group], weights[group],
    )  # fmt: skip
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
        shared.x[0, s] = plans.states[row, s]
    cuda.syncwarp()
    sequence = plans.sequences[row, i]
    for first in range(0, horizon, STEPS):
        here = min(STEPS, horizon - first)
        for c in range(here):
            for a in range(DA):
                action[a] = sequence[first + c, a]
                shared.x[c, DS + a] = action[a]
            move_particles(shared, c, states, action, noise, key, first + c, lane, draws, params)
            cuda.syncwarp()
            average_particles(shared, c, lane)
            cuda.syncwarp()
        if regions.count_cells:
            if RULE == EUCLIDEAN and POINTS == 0:
                measure_spread(shared, here, lane)
                cuda.syncwarp()
                bound_spread(shared, regions.k, here, lane)
                cuda.syncwarp()
            find_thresholds(shared, regions, first, here, lane)
            cuda.syncwarp()
        look_at(shared, regions, runs, columns, params, here, lane)
        cuda.syncwarp()
        price_steps(plans, shared, regions, runs, row, i, first, here, params, lane)
        for s in range(lane, DS, LANES):
            shared.x[0, s] = shared.x[here, s]
        cuda.syncwarp()
