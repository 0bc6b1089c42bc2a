"""Sample points around particles, used to probe a region that has no cells.

A point is a particle moved by a fixed offset, of norm at most 1, times a radius. `moves` (dc, 3) holds the kind, weight and
length of each axis, as in `kernels.distance`, which determine how the axis is moved.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from capture_cp.base.layouts import CIRCLE, INTERVAL, LINE, PLANAR, SPATIAL
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import nearest_whole, squared_distance


def signed(value):
    """The return value of a hazard function as a signed distance: True (on it) is -1; False is 0, since it may be near."""
    return (-1.0 if value else 0.0) if isinstance(value, bool | np.bool_) else value


@overload(signed)
def _signed(value):
    if isinstance(value, types.Boolean):  # type: ignore[attr-defined]
        return lambda value: -1.0 if value else 0.0
    return lambda value: value


@njit  # calls a user's function: not cached on disk
def ask_each(hazard, params, Y, out):
    """Evaluate a compiled hazard at each configuration Y (n, dc), as a signed distance, into out (n,)."""
    for i in range(out.shape[0]):
        out[i] = signed(hazard(Y[i], params))


@njit(cache=True, inline="always")
def _wrapped(angle):
    return angle - 2.0 * math.pi * nearest_whole(angle / (2.0 * math.pi))


@njit(cache=True)
def move(moves, p, radius, offset, y):
    """A particle p (dc,) moved by an offset (dc,) times a radius, into y (dc,).

    Returns the ratio of the volume density at that point to the density at the particle: 1 on lines, less for large
    rotations, where the volume element shrinks, and 0 where a shorter rotation leads to the same pose.
    """
    density, axis = 1.0, 0
    while axis < y.shape[0]:
        kind, reach = moves[axis, 0], radius / moves[axis, 1]
        if kind == PLANAR:
            y[axis], y[axis + 1] = p[axis] + reach * offset[axis], p[axis + 1] + reach * offset[axis + 1]
            y[axis + 2] = _wrapped(p[axis + 2] + min(reach / moves[axis, 2], math.pi) * offset[axis + 2])
            axis += 3
        elif kind == SPATIAL:
            density *= _move_in_space(p, reach, min(reach / moves[axis, 2], math.pi), offset, y, axis)
            axis += 7
        else:
            step = reach * offset[axis]
            if kind == CIRCLE:
                density = density if abs(step) <= math.pi else 0.0
                y[axis] = _wrapped(p[axis] + step)
            elif kind == LINE:
                y[axis] = p[axis] + step
            else:
                y[axis] = p[axis] + step * moves[axis, 2]
            axis += 1
    return density


@njit(cache=True)
def _move_in_space(p, reach, most, offset, y, first):
    """A pose in space translated by three numbers and rotated by a rotation vector of three more."""
    for axis in range(first, first + 3):
        y[axis] = p[axis] + reach * offset[axis]
    u, v, w = offset[first + 3], offset[first + 4], offset[first + 5]
    half = 0.5 * most * math.sqrt(u * u + v * v + w * w)
    along = math.sin(half) / half if half > 1e-6 else 1.0
    c, u, v, w = math.cos(half), 0.5 * most * along * u, 0.5 * most * along * v, 0.5 * most * along * w
    e, f, g, h = p[first + 3], p[first + 4], p[first + 5], p[first + 6]
    unit = 1.0 / math.sqrt(e * e + f * f + g * g + h * h)
    y[first + 3] = unit * (c * e - u * f - v * g - w * h)
    y[first + 4] = unit * (c * f + u * e + v * h - w * g)
    y[first + 5] = unit * (c * g + v * e + w * f - u * h)
    y[first + 6] = unit * (c * h + w * e + u * g - v * f)
    return along * along


@njit(cache=True)
def volume_within(moves, ball, radius):
    """Volume of the set reached by offsets of norm at most 1; `ball` is the volume of the unit ball of lines and circles."""
    volume, axis = ball, 0
    while axis < moves.shape[0]:
        kind, reach = moves[axis, 0], radius / moves[axis, 1]
        if kind == PLANAR:
            volume *= math.pi * reach * reach * 2.0 * min(reach / moves[axis, 2], math.pi)
            axis += 3
        elif kind == SPATIAL:
            turn = min(reach / moves[axis, 2], math.pi)
            volume *= (4.0 / 3.0 * math.pi) ** 2 * (reach * turn) ** 3
            axis += 7
        else:
            volume *= 2.0 * reach * moves[axis, 2] if kind == INTERVAL else reach
            axis += 1
    return volume


@njit(cache=True, inline="always")
def reaches_wide(j, each):
    """Whether a particle's point number j % each is in the second half, which extends to the largest threshold."""
    return 2 * (j % each) >= each


@njit(cache=True, inline="always")
def weight_inside(distances, k, limit, j, each, radii, shares):
    """Inverse of the sampling density at point number j if at least k particles are near it; 0 otherwise.

    `distances` (L,) are its squared distances from the particles; a particle is near if its distance is at most `limit`.
    Half of the points of particle l lie within the squared radius radii[l] of it, the other half within radii[L]; shares (L
    + 1,) are the inverses of the volumes of these sets. A point counts only within the radius by which it was moved. In a
    space with large rotations the density is the one around a single particle.
    """
    near, density, particles = 0, 0.0, distances.shape[0]
    for l in range(particles):
        d = distances[l]
        near += d <= limit
        density += (shares[l] if d <= radii[l] else 0.0) + (shares[particles] if d <= radii[particles] else 0.0)
    own = j // each
    counts = distances[own] <= radii[particles if reaches_wide(j, each) else own]
    return 2.0 * particles / density if counts and near >= k else 0.0


@parallel_kernel(cache=True)
def spread_points(moves, clouds, radii, offsets):
    """Points around the particles of every cloud (n, L, dc): (n, J, dc), and the volume density at each, (n, J).

    The offsets (J, dc) are divided equally among the particles: half use the particle's radius radii[i, l], half radii[i,
    L].
    """
    n, particles, dims = clouds.shape
    each = offsets.shape[0] // particles
    points, densities = np.empty((n, offsets.shape[0], dims)), np.empty((n, offsets.shape[0]))
    for i in prange(n):
        for j in range(offsets.shape[0]):
            l = j // each
            radius = radii[i, particles if reaches_wide(j, each) else l]
            densities[i, j] = move(moves, clouds[i, l], radius, offsets[j], points[i, j])
    return points, densities


@parallel_kernel(cache=True)
def weights_inside(rule, scale, k, limits, points, clouds, radii, shares):
    """`weight_inside` of points (n, J, dc), each with its own limit, limits (n, J): (n, J). A negative limit admits nothing.

    `radii` (n, L + 1) are squared.
    """
    n, all_of_them, particles = points.shape[0], points.shape[1], clouds.shape[1]
    each, weights = all_of_them // particles, np.zeros((n, all_of_them))
    for i in prange(n):
        distances = np.empty(particles)
        for j in range(all_of_them):
            if limits[i, j] >= 0.0:
                for l in range(particles):
                    distances[l] = squared_distance(rule, scale, points[i, j], clouds[i, l])
                weights[i, j] = weight_inside(distances, k, limits[i, j], j, each, radii[i], shares[i])
    return weights


@parallel_kernel(cache=True)
def volumes_within(moves, ball, radii):
    """`volume_within` of radii (n,): (n,)."""
    volumes = np.empty(radii.shape[0])
    for i in prange(radii.shape[0]):
        volumes[i] = volume_within(moves, ball, radii[i])
    return volumes
