"""The two compiled functions that a fast planner is made of, in their simplest form: a point that is pushed about.

Write your own with the same signatures, decorated with `numba.njit`, in a module of yours, and hand them to `FusedRollout`.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def step(state, action, noise, params, out):  # type: ignore[no-untyped-def]
    """One step of the approximate model: reads state (ds,), action (da,), standard normals (dn,); writes out (ds,)."""
    for axis in range(state.shape[0]):
        out[axis] = state[axis] + action[axis] + params.noise * noise[axis]


@njit(cache=True)
def stage_cost(mean, action, hazard, h, horizon, params):  # type: ignore[no-untyped-def]
    """Cost of step h (1 to horizon): the particles' mean state (ds,) and the region's hazard cells."""
    away = 0.0
    for axis in range(mean.shape[0]):
        away += (mean[axis] - params.goal[axis]) ** 2
    return away + params.hazard_weight * hazard
