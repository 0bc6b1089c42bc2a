"""The peg's rollout with a cost that tells all it sees; one for all tests, since every cost is a kernel to compile."""

from __future__ import annotations

import numpy as np
from numba import njit

from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.plugin import Called
from capture_cp.planning.steps import StepModel
from capture_cp.planning.sums import RegionSums
from capture_lab.tasks.peg import planner
from capture_lab.tasks.peg.planner import PegWeights
from capture_lab.tasks.peg.settings import ACTION_UNIT


@njit(cache=True)
def tell_all(mean, action, seen, h, horizon, params):
    """A number at every step: of each region its cells by stratum and their summed cost, then Ψ of the particles by step."""
    numbers = seen.cells.shape[1] + 1
    region, number = (h - 1) // numbers, (h - 1) % numbers
    if region >= seen.cells.shape[0]:
        return seen.particles[h - 1 - numbers * seen.cells.shape[0]]
    return 1.0 * seen.cells[region, number] if number < numbers - 1 else seen.sums[region]


class Telling(Called, cached=True):
    step, stage_cost = planner.peg_step, tell_all
    particle_cost, particle_stratum = planner.particle_cost, planner.particle_stratum


def telling(cap, task, weights=None):
    """The peg's rollout with `tell_all` for a cost."""
    weights = weights or PegWeights()
    sums = RegionSums(
        planner._costs_of(task.strata, weights.bonuses), planner.particle_cost, planner.particle_stratum,
        weights.infeasible != "nothing", np.diag((task.settings.noise * ACTION_UNIT) ** 2),
    )  # fmt: skip
    model = StepModel(planner.peg_step, 3, task.axes, 3, planner._params(task, weights))
    return FusedRollout(cap, model, tell_all, sums)
