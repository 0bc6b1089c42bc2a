"""Regions without cells, measured by points around the particles, see `capture_cp.planning.probes`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.base.layouts import FUNCTION
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.nearest import find_distances
from capture_cp.kernels.probes import move, reaches_wide, signed, volume_within, weight_inside
from capture_cp.planning.kernel import find_limits
from capture_cp.planning.plugin import function_of
from capture_cp.planning.runs import cell_of


class _PointRoom(NamedTuple):
    """Scratch arrays to test points, and the hazard of every step."""

    met: Any  # (H,): in cells, or as a fraction of the region
    clouds: Any  # (H, L, dc)
    limits: Any  # (M,)
    #: (4, L + 1): reach of the points of each particle, squared and plain; one over the volume within; and the radius around
    #: each particle within which nothing is on the hazard, negative if unknown
    radii: Any
    distances: Any  # (L,)
    rows: Any  # (dc, L)
    points: Any  # (J, dc)
    densities: Any  # (J,)
    clear: Any  # (J,): clearance of the points


@njit(cache=True)
def room_for_points(horizon, ds, cal, probes):
    """Scratch arrays for the regions of a sequence."""
    particles, (number, dc) = cal.particles, probes.offsets.shape
    met, limits, radii = np.empty(horizon), np.empty(cal.roots.shape[1]), np.empty((4, particles + 1))
    near = np.empty((horizon, particles, dc)), limits, radii, np.empty(particles), np.empty((dc, particles))
    return _PointRoom(met, *near, np.empty((number, dc)), np.empty(number), np.empty(number))


# -- a configuration -------------------------------------------------------------------------------------------------------


@njit(cache=True)
def clearance_on_grid(y, probes):
    """-1 for a configuration y (dc,) on a hazard cell, 0 elsewhere; on the GPU too."""
    cell = cell_of(y, probes)
    return -1.0 if cell >= 0 and probes.mask[cell] else 0.0


@njit(cache=True)
def stratum_on_grid(y, probes):
    """Stratum of the cell of a configuration y (dc,), -1 if infeasible; on the GPU too."""
    cell = cell_of(y, probes)
    return probes.labels[cell] if cell >= 0 else -1


@njit
def _clearance(y, probes, called, params):
    """Signed distance of a configuration y (dc,) from the hazard; -1 or 0 for a yes-or-no hazard, and one of cells."""
    if probes.mask.shape[0] > 0:
        return clearance_on_grid(y, probes)
    return 1.0 * signed(function_of(called, "hazard")(y, params))


@njit
def _stratum_at(y, probes, called, params):
    """Stratum of a configuration y (dc,), from the grid or by a function; -1 where no region extends."""
    if probes.labels.shape[0] > 0:
        m = np.int64(stratum_on_grid(y, probes))
    else:
        m = np.int64(function_of(called, "stratum")(y, params))
    return 0 if m < 0 and probes.ambient else m


# -- the region of a step --------------------------------------------------------------------------------------------------


@njit
def _find_distances(y, cloud, cal, called, room):
    """Squared distances of y (dc,) from the particles, into the room."""
    if cal.rule == FUNCTION:
        for l in range(cloud.shape[0]):
            room.distances[l] = function_of(called, "squared")(y, cloud[l])
    else:
        find_distances(cal.rule, cal.length, y, cloud, room.rows, room.distances)


@njit
def _particles_met(cloud, probes, called, params):
    count = 0
    for l in range(cloud.shape[0]):
        count += _clearance(cloud[l], probes, called, params) < 0.0
    return count


@njit
def _may_meet(reach, cloud, cal, probes, called, params, room):
    """Whether the region can meet the hazard: if no point of it can, none is tested.

    Such a point has k particles within reach. A region that its particles may represent is tested if one is near.
    """
    bare = room.radii[3]
    bare[:] = -1.0
    if reach < 0.0 or probes.steepness <= 0.0:
        return reach >= 0.0
    _find_distances(cloud[0], cloud, cal, called, room)
    if _clearance(cloud[0], probes, called, params) > probes.steepness * (reach + math.sqrt(room.distances.max())):
        return False
    close = 0
    for l in range(cloud.shape[0]):
        bare[l] = _clearance(cloud[l], probes, called, params) / probes.steepness
        close += not reach < bare[l]
    return close >= (cal.k if probes.unit > 0.0 else 1)


@njit
def _place_points(reach, cloud, probes, called, params, room):
    """Put points around the particles. A point that cannot reach the hazard has some clearance."""
    limits, radii, points = room.limits, room.radii, room.points
    particles, number = cloud.shape[0], points.shape[0]
    each = number // particles
    for l in range(particles + 1):
        m = _stratum_at(cloud[l], probes, called, params) if l < particles else -1
        radii[0, l] = limits[m] if m >= 0 and limits[m] >= 0.0 else reach * reach
        if l > 0 and radii[0, l] == radii[0, l - 1]:  # most particles are in one stratum
            radii[1, l], radii[2, l] = radii[1, l - 1], radii[2, l - 1]
        else:
            radii[1, l] = math.sqrt(radii[0, l])
            radii[2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, radii[1, l]), 1e-300)
    for j in range(number):
        l = j // each
        radius = radii[1, particles if reaches_wide(j, each) else l]
        room.densities[j] = move(probes.moves, cloud[l], radius, probes.offsets[j], points[j])
        room.clear[j] = 0.0 if radius < radii[3, l] else _clearance(points[j], probes, called, params)


@njit
def _weigh_points(on_hazard, cloud, cal, probes, called, params, room):
    """Summed weights of the points in a region that are on the hazard, or of those that are not."""
    limits, radii, total, number = room.limits, room.radii, 0.0, room.points.shape[0]
    each = number // cloud.shape[0]
    for j in range(number):
        if (room.clear[j] < 0.0) == on_hazard and room.densities[j] > 0.0:
            m = _stratum_at(room.points[j], probes, called, params)
            if m >= 0 and limits[m] >= 0.0:
                _find_distances(room.points[j], cloud, cal, called, room)
                inside = weight_inside(room.distances, cal.k, limits[m], j, each, radii[0], radii[2])
                total += room.densities[j] * inside
    return total


@njit
def _hazard_in(reach, cloud, cal, probes, called, params, room):
    """The hazard in a region of the particles `cloud` (L, dc): in cells, or without a grid as a fraction of the region."""
    met, particles = 0.0, cloud.shape[0]
    if cal.count_cells and _may_meet(reach, cloud, cal, probes, called, params, room):
        _place_points(reach, cloud, probes, called, params, room)
        met = _weigh_points(True, cloud, cal, probes, called, params, room)
        if probes.unit > 0.0:
            met = met / probes.offsets.shape[0] / probes.unit
        else:
            alone = _particles_met(cloud, probes, called, params) if met == 0.0 else 0
            if met > 0.0 or alone > 0:
                total = met + _weigh_points(False, cloud, cal, probes, called, params, room)
                met = met / total if total > 0.0 else alone / particles  # its particles represent it
    if cal.count_particles:
        alone = _particles_met(cloud, probes, called, params)
        met += alone if probes.unit > 0.0 else alone / particles
    return met


@njit
def measure_points(actions, rolled, cal, probes, called, params, room):
    """How much of the region of each step lies on the hazard."""
    rolled, cal, probes, params, room = borrowed((rolled, cal, probes, params, room))
    for h in range(actions.shape[0]):
        reach = find_limits(cal, h, rolled.means[h], actions[h], rolled.x, room.limits)
        room.met[h] = _hazard_in(reach, room.clouds[h], cal, probes, called, params, room)
