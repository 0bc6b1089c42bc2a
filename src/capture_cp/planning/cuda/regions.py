"""Regions on the GPU: the cells of one step's region, or points around its particles, tested by the threads of a block."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from capture_cp.base.layouts import FUNCTION
from capture_cp.kernels.cells import cell_at, column_at, column_count, index_box
from capture_cp.kernels.distance import squared_distance
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.probes import move, reaches_wide, signed, volume_within, weight_inside
from capture_cp.planning.plugin import Called
from capture_cp.planning.probe_kernel import clearance_on_grid, stratum_on_grid
from capture_cp.planning.runs import is_on_hazard

THREADS = 32  # of a block


class Sizes(NamedTuple):
    """Constants of a rollout's kernel, which is compiled for them."""

    state: int
    action: int
    noise: int
    particles: int
    axes: tuple[int, ...]  # which entries of the state are the configuration
    strata: int
    rule: int  # by which regions are tested, see kernels.cells
    points: int  # around the particles of a region; 0 where hazard cells are counted
    draws: bool  # whether particles are drawn, or move without noise
    count_cells: bool  # count the hazard in the region
    count_particles: bool  # count particles on the hazard


class DeviceRegions(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have their own trees; the last serves all later steps
    stratum_features: Any
    limits: Any  # (T, M, J): squared thresholds of each step; the last serve all later steps
    length: Any  # of the metric, or a table of its axes
    k: int


@cuda.jit(device=True)
def _summed(value, thread):
    """The sum of a number of every thread, in the same order for all."""
    values = cuda.shared.array(THREADS, np.float64)
    cuda.syncthreads()
    values[thread] = value
    cuda.syncthreads()
    total = 0.0
    for other in range(THREADS):
        total += values[other]
    return total


@cuda.jit(device=True)
def _reach_of(limits):
    """The largest threshold, from squared ones; -1 if none admits anything."""
    reach = -1.0
    for m in range(limits.shape[0]):
        if limits[m] >= 0.0:
            reach = max(reach, math.sqrt(limits[m]))
    return reach


def by_cells(sizes: Sizes) -> Any:
    """A function for the number of hazard cells in the region of one step, plus particles on such cells."""
    rule, dims = sizes.rule, len(sizes.axes)
    count_cells, count_particles = sizes.count_cells, sizes.count_particles

    @cuda.jit(device=True)
    def cells_inside(cloud, limits, reach, regions, cells, thread):
        """Hazard cells in a region: a thread's part."""
        centre, count = cuda.local.array(dims, np.float64), 0
        first, extent = cuda.local.array(dims, np.int64), cuda.local.array(dims, np.int64)
        index_box(rule, regions.length, reach, centre, cloud, cells, first, extent)
        for number in range(column_count(extent)):
            column = column_at(number, first, extent, cells.origin, cells.spacing, cells.shape, centre)
            for t in range(thread, extent[dims - 1], THREADS):
                cell = cell_at(t, first[dims - 1], cells.shape[dims - 1])
                m = cells.labels[column, cell]
                if m >= 0 and limits[m] >= 0.0:
                    centre[dims - 1] = cells.origin[dims - 1] + cell * cells.spacing[dims - 1]
                    count += enough_within(rule, regions.length, regions.k, limits[m], centre, cloud)
        return count

    @cuda.jit(device=True)
    def hazard_in(cloud, limits, regions, cells, params, thread):
        count, reach = 0, _reach_of(limits)
        if count_cells and reach >= 0.0:
            count += cells_inside(cloud, limits, reach, regions, cells, thread)
        if count_particles:
            for l in range(thread, cloud.shape[0], THREADS):
                count += is_on_hazard(cloud, l, cells)
        return int(_summed(count, thread))

    return hazard_in


def _distances_from(squared: Any, sizes: Sizes) -> Any:
    """A function that writes squared distances of y (dc,) from `cloud` (L, dc) and returns the largest."""
    rule, particles = sizes.rule, sizes.particles

    @cuda.jit(device=True)
    def find_distances(regions, y, cloud, distances):
        largest = 0.0
        for l in range(particles):
            if rule == FUNCTION:
                distances[l] = squared(y, cloud[l])
            else:
                distances[l] = squared_distance(rule, regions.length, y, cloud[l])
            largest = max(largest, distances[l])
        return largest

    return find_distances


def _point_tests(called: Called) -> tuple[Any, Any]:
    """Functions for the clearance and the stratum of y (dc,), as on the CPU; they call the user's directly."""
    hazard, stratum = type(called).hazard, type(called).stratum

    @cuda.jit(device=True)
    def clearance(y, probes, params):
        if probes.mask.shape[0] > 0:
            return clearance_on_grid(y, probes)
        return 1.0 * signed(hazard(y, params))

    @cuda.jit(device=True)
    def stratum_at(y, probes, params):
        m = stratum_on_grid(y, probes) if probes.labels.shape[0] > 0 else stratum(y, params)
        return 0 if m < 0 and probes.ambient else m

    return clearance, stratum_at


def _points_of(called: Called, sizes: Sizes) -> Any:
    """Functions that weigh a point, that rule a region out, and that find how far points reach, as on the CPU."""
    find_distances, (clearance, stratum_at) = _distances_from(type(called).squared, sizes), _point_tests(called)
    particles, each = sizes.particles, sizes.points // sizes.particles

    @cuda.jit(device=True)
    def weigh_point(j, cloud, limits, radii, regions, probes, params, y, distances):
        """Weight of point j around the particles, and whether it is on the hazard; y and distances are scratch."""
        l = j // each
        density = move(probes.moves, cloud[l], radii[1, particles if reaches_wide(j, each) else l], probes.offsets[j], y)
        on_it = clearance(y, probes, params) < 0.0
        if density <= 0.0 or not (on_it or probes.unit == 0.0):
            return 0.0, on_it
        m = stratum_at(y, probes, params)
        if m < 0 or limits[m] < 0.0:
            return 0.0, on_it
        find_distances(regions, y, cloud, distances)
        return density * weight_inside(distances, regions.k, limits[m], j, each, radii[0], radii[2]), on_it

    @cuda.jit(device=True)
    def can_meet(cloud, reach, regions, probes, params, distances):
        """Whether the region may meet the hazard."""
        if probes.steepness <= 0.0 or reach < 0.0:
            return reach >= 0.0
        apart = math.sqrt(find_distances(regions, cloud[0], cloud, distances))
        return clearance(cloud[0], probes, params) <= probes.steepness * (reach + apart)

    @cuda.jit(device=True)
    def put_radii(cloud, limits, reach, probes, params, radii, thread):
        """As on the CPU: a thread's part."""
        for l in range(thread, particles + 1, THREADS):
            m = stratum_at(cloud[l], probes, params) if l < particles else -1
            radii[0, l] = limits[m] if m >= 0 and limits[m] >= 0.0 else reach * reach
            radii[1, l] = math.sqrt(radii[0, l])
            radii[2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, radii[1, l]), 1e-300)

    return weigh_point, can_meet, put_radii, clearance


def by_points(called: Called, sizes: Sizes) -> Any:
    """A function for how much of the region of one step lies on the hazard, in cells or as a fraction.

    It is compiled for the user's functions and for sizes; particles on the hazard are counted as well, if wanted.
    """
    weigh_point, can_meet, put_radii, clearance = _points_of(called, sizes)
    dims, particles, points = len(sizes.axes), sizes.particles, sizes.points
    radii_of, count_cells, count_particles = particles + 1, sizes.count_cells, sizes.count_particles

    @cuda.jit(device=True)
    def hazard_in(cloud, limits, regions, probes, params, thread):
        radii = cuda.shared.array((3, radii_of), np.float64)
        y, distances = cuda.local.array(dims, np.float64), cuda.local.array(particles, np.float64)
        reach, found, total, alone = _reach_of(limits), 0.0, 0.0, 0
        near = count_cells and can_meet(cloud, reach, regions, probes, params, distances)
        if near:
            put_radii(cloud, limits, reach, probes, params, radii, thread)
        cuda.syncthreads()
        for j in range(thread, points if near else 0, THREADS):
            weight, on_it = weigh_point(j, cloud, limits, radii, regions, probes, params, y, distances)
            found, total = found + (weight if on_it else 0.0), total + weight
        if count_particles or (near and probes.unit == 0.0):
            for l in range(thread, particles, THREADS):
                alone += clearance(cloud[l], probes, params) < 0.0
        found, total, alone = _summed(found, thread), _summed(total, thread), _summed(alone, thread)
        if probes.unit > 0.0:
            return found / points / probes.unit + (alone if count_particles else 0.0)
        share = alone / particles
        return (found / total if total > 0.0 else share if near else 0.0) + (share if count_particles else 0.0)

    return hazard_in
