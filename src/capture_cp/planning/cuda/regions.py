"""Hazard cells in the regions of a block's sequences on the GPU, in the Euclidean metric, by runs as in `hazard`.

Most regions are far from every hazard. Those that are not are listed, and the threads of the block share the work on them.
The sizes of the shared arrays are known to the compiler, so that loops over particles, axes and strata are unrolled.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from capture_cp.kernels.tree import find_group
from capture_cp.planning.cuda.covered import WORD, covered_cells
from capture_cp.planning.hazard import cells_inside, cells_to_test, kth_at_most, runs_within, sure_and_possible

SHIFT = 8  # bits of a step's number in the list
BITS = 10  # of a lane's number of particles: those of six steps fit in an integer
HAIR = 1e-9  # by which bounds are enlarged against rounding, and against the numbers of particles in them


@cuda.jit(device=True, cache=True)
def count_close(shared, regions, runs, clear, group, first, here, lane, lanes):
    """Count the particles that a hazard cell may be within the largest threshold of: a lane's part."""
    close = 0
    for c in range(here):
        widest = regions.widest[min(first + c, regions.widest.shape[0] - 1)]
        for l in range(lane, shared.cloud.shape[2], lanes):
            cell, inside = 0, True
            for axis in range(shared.cloud.shape[3]):
                index = (shared.cloud[group, c, l, axis] - runs.origin[axis]) * runs.per_spacing[axis] + 0.5
                inside = inside and 0.0 <= index < runs.shape[axis]
                cell = cell * runs.shape[axis] + int(index if inside else 0.0)
            if not inside or clear[cell] <= widest:
                close += 1 << (BITS * c)
    for c in range(here if close != 0 else 0):
        number = (close >> (BITS * c)) & ((1 << BITS) - 1)
        if number > 0:
            cuda.atomic.add(shared.close, (group, c), number)


@cuda.jit(device=True, cache=True)
def list_regions(shared, least, group, here, lane):
    """List the regions that have at least so many particles close to a hazard cell: a lane's part, one step."""
    if lane < here and shared.close[group, lane] >= least:
        shared.listed[cuda.atomic.add(shared.number, 0, 1)] = group << SHIFT | lane


@cuda.jit(device=True, cache=True)
def listed_at(shared, item, each):
    """Sequence and step of the listed region to which an item belongs, and its number there, if each region has so many."""
    unsigned = np.uint32(item)  # negative numbers would be divided differently
    region = shared.listed[unsigned // each]
    return region >> SHIFT, region & ((1 << SHIFT) - 1), unsigned % each


@cuda.jit(device=True, cache=True)
def measure_spread(shared, runs, axes, number, thread, threads):
    """Offsets of the particles from their mean, and squared distances from it, whose last bits number the particles."""
    particles, dims = shared.cloud.shape[2], shared.cloud.shape[3]
    numbers = 1
    while numbers <= particles:
        numbers *= 2
    for item in range(thread, number * particles, threads):
        (group, c, l), squares = listed_at(shared, item, particles), 0.0
        for axis in range(dims):
            offset = shared.cloud[group, c, l, axis] - shared.x[group, c + 1, axes[axis]]
            squares += offset * offset
            shared.offsets[group, c, l, axis] = np.float32(offset * runs.per_spacing[dims - 1])
        bits = (np.float64(squares).view(np.int64) & -numbers) | l
        shared.squares[group, c, l] = np.int64(bits).view(np.float64)


@cuda.jit(device=True, cache=True)
def rank_spread(shared, k, number, thread, threads):
    """Distances of the k-th nearest and of the k-th farthest particle from the mean."""
    particles = shared.cloud.shape[2]
    for item in range(thread, number * particles, threads):
        group, c, l = listed_at(shared, item, particles)
        squares, nearer = shared.squares[group, c, l], 0
        for other in range(particles):
            nearer += shared.squares[group, c, other] < squares
        if nearer == k - 1:
            shared.bounds[group, c, 0] = math.sqrt(squares) * (1.0 + HAIR) + HAIR
        if nearer == particles - k:
            shared.bounds[group, c, 1] = math.sqrt(squares) * (1.0 + HAIR) + HAIR


@cuda.jit(device=True, cache=True)
def sum_spread(shared, k, number, thread, threads):
    """Upper bounds on these distances."""
    particles = shared.cloud.shape[2]
    for item in range(thread, number, threads):
        (group, c, _), squares = listed_at(shared, item, 1), 0.0
        for l in range(particles):
            squares += shared.squares[group, c, l]
        shared.bounds[group, c, 0], shared.bounds[group, c, 1] = kth_at_most(squares, k, particles)


@cuda.jit(device=True, cache=True)
def find_thresholds(shared, regions, in_runs, first, number, thread, threads):
    """Thresholds from the state before each step, and the distances from the centre at which cells are inside or outside."""
    strata = shared.near.shape[2]
    for item in range(thread, number * strata, threads):
        group, c, m = listed_at(shared, item, strata)
        root = regions.roots[min(first + c, regions.roots.shape[0] - 1), m]
        leaf = find_group(regions.nodes, root, regions.stratum_features, m, shared.x[group, c])
        limit = regions.limits[min(first + c, regions.limits.shape[0] - 1), m, leaf]
        shared.limits[group, c, m], shared.limits[group, c, strata] = limit, -1.0
        if in_runs:
            bounds = sure_and_possible(limit, shared.bounds[group, c, 0], shared.bounds[group, c, 1])
            shared.near[group, c, m], shared.far[group, c, m] = bounds
        else:
            shared.far[group, c, m] = regions.thresholds[min(first + c, regions.thresholds.shape[0] - 1), m, leaf]


@cuda.jit(device=True, cache=True)
def find_runs(shared, runs, axes, middle, number, thread, threads):
    """The runs of hazard cells that each listed region may reach; `middle` (dc,) is scratch."""
    for item in range(thread, number, threads):
        (group, c, _), furthest = listed_at(shared, item, 1), -1.0
        for m in range(shared.far.shape[2]):
            furthest = max(furthest, shared.far[group, c, m])
        for axis in range(middle.shape[0]):
            middle[axis] = shared.x[group, c + 1, axes[axis]]
        shared.runs[item, 0], shared.runs[item, 1] = runs_within(middle, furthest, runs)


@cuda.jit(device=True, cache=True)
def add_up_runs(shared, number, thread, threads):
    """How many runs the regions before each listed one may reach."""
    for item in range(thread, number + 1, threads):
        total = 0
        for before in range(item):
            total += shared.runs[before, 1] - shared.runs[before, 0]
        shared.begins[item] = total


@cuda.jit(device=True, cache=True)
def _cells_of_run(shared, regions, runs, run, group, c, scratch):
    """Cells of a run that are inside the region of a step, whose centre is in `scratch`."""
    centre, middle, place, planes = scratch
    last, m, count = middle.shape[0] - 1, runs.stratum[run], 0
    limit, far = shared.limits[group, c, m], shared.far[group, c, m]
    low, sure_low, sure_high, high = cells_to_test(run, middle, shared.near[group, c, m], far, runs)
    per_spacing, offsets = runs.per_spacing[last], shared.offsets[group, c]
    for axis in range(last):
        place[axis] = (runs.place[run, axis] - middle[axis]) * per_spacing
    squared_reach, reach = limit * per_spacing * per_spacing, far * per_spacing
    for begin in range(low, high, WORD):
        end = min(begin + WORD, high)
        if sure_low <= begin and end <= sure_high:
            count += end - begin
            continue
        at = (middle[last] - runs.origin[last]) * per_spacing - begin
        covered, certain = covered_cells(offsets, place, at, squared_reach, reach, regions.k, end - begin, planes)
        if certain:
            count += cuda.popc(covered)
        else:
            cloud = shared.cloud[group, c]
            count += cells_inside(run, begin, end, end, end, cloud, limit, regions.k, runs, centre)
    return count


@cuda.jit(device=True, cache=True)
def count_in_runs(shared, regions, runs, axes, scratch, number, thread, threads):
    """Hazard cells in the listed regions: a thread's part of the runs of all of them in a row.

    `scratch` has room for a configuration (dc,), a centre (dc,), a place (dc - 1,) and the planes of `covered_cells`.
    """
    item, middle = 0, scratch[1]
    for at in range(thread, shared.begins[number], threads):
        while shared.begins[item + 1] <= at:
            item += 1
        group, c, _ = listed_at(shared, item, 1)
        for axis in range(middle.shape[0]):
            middle[axis] = shared.x[group, c + 1, axes[axis]]
        run = shared.runs[item, 0] + at - shared.begins[item]
        count = _cells_of_run(shared, regions, runs, run, group, c, scratch)
        if count > 0:
            cuda.atomic.add(shared.counts, (group, c), count)
