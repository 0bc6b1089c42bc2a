"""Regions that have no cells on the GPU: points around the particles are tested, as in `probe_kernel`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.layouts import FUNCTION
from capture_cp.kernels.distance import squared_distance
from capture_cp.kernels.probes import move, reaches_wide, volume_within, weight_inside
from capture_cp.planning.cuda.blocks import THREADS, reach_of, summed
from capture_cp.planning.cuda.records import Sizes
from capture_cp.planning.probe_kernel import point_tests


def by_points(functions: Any, sizes: Sizes) -> Any:
    """A function for how much of the region of one step lies on the hazard, in cells or as a fraction.

    It is compiled for the user's functions and for sizes; particles on the hazard are counted as well, if wanted.
    """
    (clearance, stratum_at), squared = point_tests(functions), functions.squared
    rule, dims, particles, points = sizes.rule, len(sizes.axes), sizes.particles, sizes.points
    each, radii_of = points // particles, particles + 1
    count_cells, count_particles = sizes.count_cells, sizes.count_particles

    @cuda.jit(device=True)
    def find_distances(regions, y, cloud, distances):
        """Squared distances of y (dc,) from particles `cloud` (L, dc), into distances (L,); returns the largest."""
        largest = 0.0
        for l in range(particles):
            if rule == FUNCTION:
                distances[l] = squared(y, cloud[l])
            else:
                distances[l] = squared_distance(rule, regions.length, y, cloud[l])
            largest = max(largest, distances[l])
        return largest

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
    def hazard_in(cloud, limits, regions, probes, params, thread):
        radii = cuda.shared.array((3, radii_of), np.float64)  # as in `probe_kernel`
        y, distances = cuda.local.array(dims, np.float64), cuda.local.array(particles, np.float64)
        reach, found, total, alone = reach_of(limits), 0.0, 0.0, 0
        near = count_cells and can_meet(cloud, reach, regions, probes, params, distances)
        if near:
            for l in range(thread, radii_of, THREADS):
                m = stratum_at(cloud[l], probes, params) if l < particles else -1
                radii[0, l] = limits[m] if m >= 0 and limits[m] >= 0.0 else reach * reach
                radii[1, l] = math.sqrt(radii[0, l])
                radii[2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, radii[1, l]), 1e-300)
        cuda.syncthreads()
        for j in range(thread, points if near else 0, THREADS):
            weight, on_it = weigh_point(j, cloud, limits, radii, regions, probes, params, y, distances)
            found, total = found + (weight if on_it else 0.0), total + weight
        if count_particles or (near and probes.unit == 0.0):
            for l in range(thread, particles, THREADS):
                alone += clearance(cloud[l], probes, params) < 0.0
        found, total, alone = summed(found, thread), summed(total, thread), summed(alone, thread)
        if probes.unit > 0.0:
            return found / points / probes.unit + (alone if count_particles else 0.0)
        share = alone / particles
        return (found / total if total > 0.0 else share if near else 0.0) + (share if count_particles else 0.0)

    return hazard_in
