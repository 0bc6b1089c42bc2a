"""Rollouts whose regions have no cells: points around the particles are tested, see `capture_cp.planning.probes`.

Like `kernel`, this file is a template: `specialise` compiles it with the user's functions.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.base.layouts import EUCLIDEAN, FUNCTION
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import squared_distance, squared_limit
from capture_cp.kernels.probes import move, reaches_wide, signed, volume_within, weight_inside
from capture_cp.kernels.random import stream
from capture_cp.kernels.scalar import larger
from capture_cp.planning.hazard import cell_of
from capture_cp.planning.kernel import CHUNK, average, draw, put_input, take_cloud, threshold
from capture_cp.planning.plugin import hazard, hazards, squared, stage_cost, step, strata, stratum

KERNELS = ("probe",)
#: Whether the user's functions handle many configurations at once; as constants, so that only what is used is compiled.
HAZARDS_TOGETHER, STRATA_TOGETHER = (one.__module__ != "capture_cp.planning.plugin" for one in (hazards, strata))
UNKNOWN = -2  # a stratum


@njit(cache=True, inline="always")
def _clearance(y, probes, params):
    """Signed distance of a configuration y (dc,) from the hazard, by its function; -1 or 0 for a yes-or-no hazard."""
    if probes.masked:
        cell = cell_of(y, probes)
        return -1.0 if cell >= 0 and probes.mask[cell] else 0.0
    return signed(hazard(y, params))


@njit(cache=True)
def _find_clearances(Y, first, stop, probes, params, clear):
    """`_clearance` of configurations Y (n, dc) from `first` to `stop`, into clear (n,)."""
    if HAZARDS_TOGETHER:
        hazards(Y, first, stop, params, clear)
    else:
        for i in range(first, stop):
            clear[i] = _clearance(Y[i], probes, params)


@njit(cache=True, inline="always")
def _stratum_at(y, probes, params):
    """Stratum of a configuration y (dc,), by its function or on the grid; -1 where no region extends."""
    if probes.labelled:
        cell = cell_of(y, probes)
        m = probes.labels[cell] if cell >= 0 else -1
    else:
        m = stratum(y, params)
    return 0 if m < 0 and probes.ambient else m


@njit(cache=True)
def _find_strata(Y, probes, params, labels):
    """`_stratum_at` of configurations Y (n, dc), into labels (n,)."""
    if STRATA_TOGETHER:
        strata(Y, 0, Y.shape[0], params, labels)
        for i in range(Y.shape[0]):
            labels[i] = 0 if labels[i] < 0 and probes.ambient else labels[i]
    else:
        for i in range(Y.shape[0]):
            labels[i] = _stratum_at(Y[i], probes, params)


@njit(cache=True, inline="always")
def _find_distances(cal, y, cloud, distances):
    """Squared distances of y (dc,) from particles `cloud` (L, dc), into distances (L,); returns the largest."""
    largest = 0.0
    if cal.rule == EUCLIDEAN and y.shape[0] == 2:
        # the same sum as below, written out: without the loop over axes the compiler vectorises the loops over particles
        for l in range(cloud.shape[0]):
            dx, dy = y[0] - cloud[l, 0], y[1] - cloud[l, 1]
            distances[l] = dx * dx + dy * dy
        for l in range(cloud.shape[0]):
            largest = larger(distances[l], largest)
    else:
        for l in range(cloud.shape[0]):
            if cal.rule == FUNCTION:
                distances[l] = squared(y, cloud[l])
            else:
                distances[l] = squared_distance(cal.rule, cal.length, y, cloud[l])
            largest = larger(distances[l], largest)
    return largest


@njit(cache=True, inline="always")
def _particles_on_hazard(cloud, probes, params, clear):
    _find_clearances(cloud, 0, cloud.shape[0], probes, params, clear)
    count = 0
    for l in range(cloud.shape[0]):
        count += clear[l] < 0.0
    return count


@njit(cache=True, inline="always")
def _prepare(cloud, limits, reach, cal, probes, params, radii, distances, clear, labels):
    """Reach of the points of each particle: squared, plain, and one over the volume within, into radii (4, L + 1).

    The last row is the radius around each particle within which nothing is on the hazard, if that is known. Returns whether
    the region can meet the hazard: if no point of it can, none is tested. Such a point has k particles within reach.
    A region that its particles may represent is tested if one particle is near.
    """
    near, particles, least = reach >= 0.0, cloud.shape[0], cal.k if probes.unit > 0.0 else 1
    for l in range(particles):
        radii[3, l] = -1.0
    if near and probes.steepness > 0.0:
        apart, near = math.sqrt(_find_distances(cal, cloud[0], cloud, distances)), False
        _find_clearances(cloud, 0, 1, probes, params, clear)
        if clear[0] <= probes.steepness * (reach + apart):
            _find_clearances(cloud, 1, particles, probes, params, clear)
            close = 0
            for l in range(particles):
                radii[3, l] = clear[l] / probes.steepness
                close += not reach < radii[3, l]
            near = close >= least
    if near:
        _find_strata(cloud, probes, params, labels)
        for l in range(particles + 1):
            m = labels[l] if l < particles else -1
            radii[0, l] = limits[m] if m >= 0 and limits[m] >= 0.0 else reach * reach
            if l > 0 and radii[0, l] == radii[0, l - 1]:  # most particles are in one stratum
                radii[1, l], radii[2, l] = radii[1, l - 1], radii[2, l - 1]
            else:
                radii[1, l] = math.sqrt(radii[0, l])
                radii[2, l] = 1.0 / max(volume_within(probes.moves, probes.ball, radii[1, l]), 1e-300)
    return near


@njit(cache=True)
def _place_points(cloud, probes, params, radii, points, densities, clear):
    """Points around the particles, their densities and clearances: into points (J, dc), densities (J,), clear (J,).

    A point that cannot reach the hazard has some clearance.
    """
    particles, number = cloud.shape[0], probes.offsets.shape[0]
    each, begin = number // particles, 0
    for j in range(number):
        l = j // each
        radius = radii[1, particles if reaches_wide(j, each) else l]
        densities[j] = move(probes.moves, cloud[l], radius, probes.offsets[j], points[j])
        if radius < radii[3, l]:
            _find_clearances(points, begin, j, probes, params, clear)
            clear[j], begin = 0.0, j + 1
    _find_clearances(points, begin, number, probes, params, clear)


@njit(cache=True)
def _weight_of_points(on_hazard, cloud, limits, cal, probes, params, radii, distances, points, densities, clear, labels):
    """Summed weights of the points in a region that are on the hazard, or of those that are not."""
    total, number = 0.0, probes.offsets.shape[0]
    each = number // cloud.shape[0]
    for j in range(number):
        if (clear[j] < 0.0) == on_hazard and densities[j] > 0.0:
            if STRATA_TOGETHER:
                if labels[0] == UNKNOWN:
                    _find_strata(points, probes, params, labels)
                m = labels[j]
            else:
                m = _stratum_at(points[j], probes, params)
            if m >= 0 and limits[m] >= 0.0:
                _find_distances(cal, points[j], cloud, distances)
                total += densities[j] * weight_inside(distances, cal.k, limits[m], j, each, radii[0], radii[2])
    return total


@njit(cache=True, inline="always")
def _probed(cloud, limits, cal, probes, params, radii, distances, points, densities, clear, labels):
    """How much of the region of particles `cloud` (L, dc) lies on the hazard: in cells, or as a fraction of the region.

    A region without any point is represented by its particles. The last five arguments are scratch.
    """
    _place_points(cloud, probes, params, radii, points, densities, clear)
    labels[0] = UNKNOWN
    given = cal, probes, params, radii, distances, points, densities, clear, labels
    found = _weight_of_points(True, cloud, limits, *given)
    if probes.unit > 0.0:
        found = found / probes.offsets.shape[0] / probes.unit
    else:
        alone = _particles_on_hazard(cloud, probes, params, distances) if found == 0.0 else 0
        if found > 0.0 or alone > 0:
            total = found + _weight_of_points(False, cloud, limits, *given)
            found = found / total if total > 0.0 else alone / cloud.shape[0]
    return found


@njit(cache=True)
def _probe_some(start, sequences, n_particles, noise_dims, draws, seed, cal, probes, params, costs, first, stop):
    cal, probes, params = borrowed(cal), borrowed(probes), borrowed(params)
    horizon, da = sequences.shape[1], sequences.shape[2]
    ds, dc, n_strata = start.shape[0], probes.axes.shape[0], cal.roots.shape[1]
    pairs = (noise_dims + 1) // 2
    states, noise = np.empty((ds, n_particles)), np.zeros((2 * pairs + 2, n_particles))
    cloud, mean, x = np.empty((n_particles, dc)), np.empty(ds), np.empty(ds + da)
    limits, radii, distances = np.empty(n_strata), np.empty((4, n_particles + 1)), np.empty(n_particles)
    number = probes.offsets.shape[0]
    points, densities, clear = np.empty((number, dc)), np.empty(number), np.empty(number)
    labels = np.empty(number, dtype=np.int64)
    for i in range(first, stop):
        key = stream(seed, i)
        for s in range(ds):
            states[s, :] = start[s]
            mean[s] = start[s]
        for h in range(horizon):
            action, reach = sequences[i, h], -1.0
            put_input(x, mean, action)
            for m in range(n_strata):
                q = threshold(cal, h, m, x)
                limits[m], reach = squared_limit(q), max(reach, q)
            if draws:
                draw(noise, key, h, pairs)
            step(states, action, noise, params)
            is_finite = average(states, mean)
            take_cloud(states, probes.axes, cloud)
            met = 0.0
            if cal.count_cells and _prepare(cloud, limits, reach, cal, probes, params, radii, distances, clear, labels):
                met += _probed(cloud, limits, cal, probes, params, radii, distances, points, densities, clear, labels)
            if cal.count_particles:
                alone = _particles_on_hazard(cloud, probes, params, distances)
                met += alone if probes.unit > 0.0 else alone / n_particles
            # a cost that does not use a NaN entry of the state must not hide it
            costs[i, h] = stage_cost(mean, action, met, h + 1, horizon, params) if is_finite else math.nan


@parallel_kernel(cache=True)
def probe(start, sequences, n_particles, noise_dims, draws, seed, cal, probes, params):
    """Stage costs (N, H) of action sequences (N, H, da) from one state (ds,), with regions that have no cells.

    Like `roll_out`, but points around the particles are tested against the hazard, see `capture_cp.planning.probes`.
    """
    samples = sequences.shape[0]
    costs = np.empty((samples, sequences.shape[1]))
    for chunk in prange((samples + CHUNK - 1) // CHUNK):
        first = chunk * CHUNK
        stop = min(samples, first + CHUNK)
        _probe_some(start, sequences, n_particles, noise_dims, draws, seed, cal, probes, params, costs, first, stop)
    return costs
