"""A template as `capture_cp.planning.kernel` is one, but compiled in a second: one step of one particle."""

from __future__ import annotations

import numpy as np
from numba import njit

from capture_cp.planning.plugin import stage_cost, step

KERNELS = ("roll_out",)


@njit(cache=True)
def roll_out(state, params):
    """Cost of the state (ds,) after a step without action or noise."""
    states = np.empty((state.shape[0], 1))
    states[:, 0] = state
    step(states, np.zeros(2), np.zeros((2, 1)), params)
    return stage_cost(states[:, 0].copy(), np.zeros(2), 1, 1, 1, params)
