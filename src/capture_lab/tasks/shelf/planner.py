"""Planning in joint space: the objective, compiled, and MPPI with regions against the glass.

Each stage costs `away` times the distance of the jar from its goal, `last` times as much after the last step; the jar's
deviation from upright; the squared action; and the fraction of the region in which a glass is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.plugin import Called
from capture_cp.planning.probes import PointHazard
from capture_cp.planning.settings import PlannerSettings
from capture_cp.planning.steps import StepModel
from capture_lab.tasks.shelf.geometry import angles_of, jar_at
from capture_lab.tasks.shelf.model import STEEPNESS, hazard, step, stratum

if TYPE_CHECKING:
    from capture_lab.tasks.shelf.task import ShelfTask

PLANNER = PlannerSettings(horizon=5, samples=192, temperature=0.05)
#: Points around the particles of a region that are tested against the glass.
POINTS = 32


@dataclass(frozen=True)
class ShelfWeights:
    """Weights of the shelf's objective.

    Attributes:
        away: weight of the jar's distance from its goal (m) after every step.
        last: factor on that weight in the last step.
        lift: desired height of the jar above its goal, per metre of distance from it.
        upright: weight of the jar's deviation from upright, 1 if it lies.
        effort: weight of the squared action (rad²).
        glass: weight of the fraction of a region in which a glass is touched.
        margin: distance (m) from a glass that counts as touching it.
    """

    away: float = 1.0
    last: float = 3.0
    lift: float = 0.5
    upright: float = 0.02
    effort: float = 0.2
    glass: float = 2.0
    margin: float = 0.0


@njit(cache=True, error_model="numpy")
def stage_cost(mean, action, hazard, h, horizon, params):
    """Cost of step h (1 to horizon): the particles' mean state (14,), and the region's fraction that touches a glass."""
    x, y, z, standing = jar_at(params.fixed, params.tool, angles_of(mean))
    x, y, z = x - params.goal[0], y - params.goal[1], z - params.goal[2]
    flat = math.sqrt(x * x + y * y)
    z -= params.lift * flat
    away = params.away * math.sqrt(flat * flat + z * z)
    effort = 0.0
    for i in range(action.shape[0]):
        effort += action[i] * action[i]
    cost = (params.last if h == horizon else 1.0) * away + params.upright * (1.0 - standing) + params.effort * effort
    return cost + params.glass * hazard


class _Called(Called, cached=True):
    step, stage_cost, hazard, stratum = step, stage_cost, hazard, stratum


class _Stepped(Called, cached=True):
    step, stage_cost = step, None


def shelf_rollout(
    cap: Fitted, task: ShelfTask, horizon: int, weights: ShelfWeights, alpha: float, simultaneous: bool
) -> FusedRollout:
    """The cost of plans whose regions must not touch a glass."""
    blurred = task.physics.noise * np.sqrt(np.arange(1, horizon + 1))
    model = StepModel(step, 14, task.axes, noise_dims=7, params=task.params_for(weights))
    glass = PointHazard(hazard, stratum, points=POINTS, steepness=STEEPNESS)
    scale = blurred if type(cap.score_) is Mahalanobis else None
    return FusedRollout(cap, model, stage_cost, glass, alpha, simultaneous, gaussian_scale=scale)
