"""The compiled functions of a fast planner, in their simplest form: a point that is pushed around.

Write your own with the same signatures, decorated with `numba.njit`, in your own module, and pass them to `FusedRollout`.
`particle_cost` and `particle_stratum` are for costs that use the cells of regions, see `RegionSums`; `hazard`, `stratum`
and `squared`, and `hazards` and `strata`, are for regions that have no cells.
These functions are not cached by themselves: they are compiled, and cached, as part of a rollout.
"""

from __future__ import annotations

from numba import njit


@njit
def step(states, action, noise, params):
    """One step of the approximate model, in place: states (ds, L) of L particles, action (da,), standard normals (dn, L).

    Each row holds one state entry of all particles, so that loops over particles vectorise.
    """
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] += action[axis] + params.noise * noise[axis, l]


@njit
def stage_cost(mean, action, hazard, h, horizon, params):
    """Cost of step h (1 to horizon) from the particles' mean state (ds,) and the region's hazard cells."""
    away = 0.0
    for axis in range(mean.shape[0]):
        away += (mean[axis] - params.goal[axis]) ** 2
    return away + params.hazard_weight * hazard


@njit
def particle_cost(states, l, params):
    """Cost of particle l among those with states (ds, L)."""
    return 0.0


@njit
def particle_stratum(states, l, params):
    """Stratum of particle l among those with states (ds, L); -1 if infeasible."""
    return -1


@njit
def hazard(y, params):
    """Whether a configuration y (dc,) is on the hazard, or its signed distance from it, negative on the hazard."""
    return False


@njit
def hazards(Y, first, stop, params, out):
    """`hazard`, as a signed distance, of configurations Y (n, dc) from `first` to `stop`, into out (n,)."""


@njit
def stratum(y, params):
    """Stratum of a configuration y (dc,); -1 if infeasible."""
    return 0


@njit
def strata(Y, first, stop, params, out):
    """`stratum` of configurations Y (n, dc) from `first` to `stop`, into out (n,)."""


@njit
def squared(y, p):
    """Squared distance of two configurations (dc,) in a metric that is a function."""
    return 0.0
