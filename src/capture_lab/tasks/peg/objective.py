"""The cost of an insertion: the negative reward of the Factory simulation suite for a pose of the peg."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.spaces.grid import Grid
from capture_lab.tasks.peg.geometry import shape_of
from capture_lab.tasks.peg.settings import PegSettings

#: Keypoints (m) along the peg's axis from its base.
_KEYPOINTS = (-75e-3, -25e-3, 25e-3, 75e-3)
#: Largest distance (m) of the base of an inserted or engaged peg from the hole's axis, and largest height above the bottom,
#: as a fraction of the hole's depth.
CENTRED, INSERTED, ENGAGED = 2.5e-3, 0.04, 0.9


@njit(cache=True)
def insertion_cost(x, z, theta, g):
    """Ψ of a pose: -Σ 1 / (e^{ad} + b + e^{-ad}), d (m) the mean distance of the peg's keypoints to their goals.

    `g` has the fields of a `Shape`. Three terms of increasing sharpness act far away, near the hole and inside it.
    """
    c, s = math.cos(theta), math.sin(theta)
    base_x, base_z = x + s * g.half_length, z - c * g.half_length + g.depth
    d = 0.0
    for o in _KEYPOINTS:
        d += 0.25 * math.hypot(base_x - o * s, base_z + o * (c - 1.0))
    cost = 0.0
    for a, b in ((5.0, 4.0), (50.0, 2.0), (100.0, 0.0)):
        grown = math.exp(min(a * d, 700.0))  # beyond this the term is 0 in floating point, and the exponential overflows
        cost -= 1.0 / (grown + b + 1.0 / grown)
    return cost


@njit(cache=True)
def pose_cost(x, z, theta, bonuses, g):
    """Ψ of a pose, optionally less the suite's bonuses: 1 once the peg is engaged and 1 more when it is inserted."""
    cost = insertion_cost(x, z, theta, g)
    if bonuses:
        c, s = math.cos(theta), math.sin(theta)
        above = z - c * g.half_length + g.depth
        if abs(x + s * g.half_length) <= CENTRED:
            cost -= (above <= ENGAGED * g.depth) + (above <= INSERTED * g.depth)
    return cost


@parallel_kernel(cache=True)
def _cell_costs(origin, spacing, shape, bonuses, g):
    costs = np.empty(shape, dtype=np.float32)
    for i in prange(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                x, z, theta = origin[0] + i * spacing[0], origin[1] + j * spacing[1], origin[2] + k * spacing[2]
                costs[i, j, k] = pose_cost(x, z, theta, bonuses, g)
    return costs.ravel()


def cell_costs(grid: Grid, settings: PegSettings, bonuses: bool = False) -> npt.NDArray[np.float32]:
    """Ψ at the centre of every cell of a grid of poses: float32 (cells,), for averages over regions."""
    return np.asarray(_cell_costs(grid.origin, grid.spacing, grid.shape, bonuses, shape_of(settings)))
