"""Planning for the marble (Appendix B.2 of the paper): its compiled model and cost, and its planner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.base.checks import Bools, CaptureError, Floats
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.distance import interpolate
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.plugin import Called
from capture_cp.planning.probes import PointHazard
from capture_cp.planning.settings import PlannerSettings
from capture_cp.planning.steps import StepModel
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.contact import TOLERANCE, Geometry, clearance
from capture_lab.tasks.marble.cspace import MarbleStrata
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble


class Params(NamedTuple):
    """Parameters of the compiled model and cost: the fields of a `Geometry`, flat, and those of the objective."""

    bounds: Any
    walls: Any
    radius: float
    pits: Any
    goal: Any
    contents: Any
    boxes: Any
    near: Any
    nearby: Any
    corner: Any
    per_pitch: float
    gain: float
    noise: float  # standard deviation of the action
    correction: Floats  # (4, 9), see `Marble`
    field: Floats  # traversable distance (m) at cell centres, (nx, ny)
    origin: Floats
    spacing: Floats
    final_weight: float
    stage_weight: float
    pit_weight: float
    speed_weight: float
    tilt_weight: float


@njit(cache=True, inline="always")
def _correction(terms, row, states, l, action):
    value = terms[row, 6] * action[0] + terms[row, 7] * action[1] + terms[row, 8]
    for s in range(6):
        value += terms[row, s] * states[s, l]
    return value


@njit(cache=True, inline="always")
def _keep(states, l, after, params):
    """Write the next state of particle l; one at the goal is moved to its centre."""
    x, vx, y, vy, alpha, beta, outcome = after
    if outcome == dynamics.AT_GOAL:
        x, y = params.goal[0], params.goal[1]
    states[0, l], states[1, l], states[2, l] = x, vx, y
    states[3, l], states[4, l], states[5, l] = vy, alpha, beta


@njit(cache=True, forceinline=True)
def model_step(states, action, noise, params):
    """One control step of the approximate model for all particles, states (6, L); pits and the goal stop a particle.

    A particle that has reached the goal is moved to its centre, so that its remaining distance is zero. Corrected models use
    `corrected_step`: a function with both would take twice as long to compile.
    """
    for l in range(states.shape[1]):
        after = dynamics.step(
            states[0, l], states[1, l], states[2, l], states[3, l], states[4, l], states[5, l],
            action[0] + params.noise * noise[0, l], action[1] + params.noise * noise[1, l],
            dynamics.NO_PULL, params.gain, True, params,
        )  # fmt: skip
        _keep(states, l, after, params)


@njit(cache=True, forceinline=True)
def corrected_step(states, action, noise, params):
    """`model_step` of a corrected model."""
    terms = params.correction
    for l in range(states.shape[1]):
        pull = (
            _correction(terms, 0, states, l, action), _correction(terms, 1, states, l, action),
            _correction(terms, 2, states, l, action), _correction(terms, 3, states, l, action),
        )  # fmt: skip
        after = dynamics.step(
            states[0, l], states[1, l], states[2, l], states[3, l], states[4, l], states[5, l],
            action[0] + params.noise * noise[0, l], action[1] + params.noise * noise[1, l],
            pull, params.gain, True, params,
        )  # fmt: skip
        _keep(states, l, after, params)


@njit(cache=True, forceinline=True)
def marble_cost(mean, action, hazard, h, horizon, params):
    """The paper's marble objective: distance of the mean particle to the goal, and pit cells in the region.

    The paper's objective has no cost of speed and tilt; see `MarbleWeights`.
    """
    away = interpolate(params.field, params.origin, params.spacing, mean[0], mean[2])
    cost = params.stage_weight * away + params.pit_weight * hazard
    cost += params.speed_weight * (mean[1] * mean[1] + mean[3] * mean[3])
    cost += params.tilt_weight * (mean[4] * mean[4] + mean[5] * mean[5])
    if h == horizon:
        cost += params.final_weight * away
    return cost


@njit(cache=True)
def pit_distance(y, params):
    """Signed distance of the marble's centre y (2,) from the nearest pit, negative over it."""
    nearest = math.inf
    for p in range(params.pits.shape[0]):
        dx, dy = y[0] - params.pits[p, 0], y[1] - params.pits[p, 1]
        nearest = min(nearest, math.sqrt(dx * dx + dy * dy) - params.pits[p, 2])
    return nearest


class _Plain(Called, cached=True):
    step, stage_cost = model_step, marble_cost


class _Corrected(Called, cached=True):
    step, stage_cost = corrected_step, marble_cost


@dataclass(frozen=True)
class MarbleWeights:
    """Weights of the marble's objective; the paper's.

    Attributes:
        final: weight of the remaining distance to the goal after the last step (1/m).
        stage: weight of the remaining distance after every step (1/m).
        pit: weight of every pit cell in a region.
        speed: weight of the squared speed after every step (s²/m²); slower marbles fall less often.
        tilt: weight of the squared tilt of the board after every step (1/rad²).
        margin: enlargement of the pits (mm) where regions are tested against them.
        count_particles: whether particles in pits are counted in addition to the pit cells of regions.
        hazard_points: points around the particles that estimate the pit cells of a region from the distance to pits; 0
            counts the cells.
    """

    final: float = 50.0
    stage: float = 30.0
    pit: float = 250.0
    speed: float = 0.0
    tilt: float = 0.0
    margin: float = 0.0
    count_particles: bool = False
    hazard_points: int = 0


#: The paper's where it gives them. The temperature is a fraction of the cost of standing still: the paper's 0.2 leaves the
#: unit of cost open, and with any fixed unit, a plan that is careful far from the goal cannot resolve millimetres near it.
#: The fraction was chosen on the six maps and confirmed on their mirrored variants.
PLANNER = PlannerSettings(horizon=6, samples=4096, temperature=0.04)


def marble_params(task: Marble, gain: float, weights: MarbleWeights | None = None) -> Params:
    """Model and cost of one map."""
    grid = task.strata.require_grid()
    correction = np.zeros((4, 9)) if task.correction is None else np.array(task.correction)
    weighed = weights or MarbleWeights()
    chosen = weighed.final, weighed.stage, weighed.pit, weighed.speed, weighed.tilt
    floats = map(float, chosen)  # an int would make every kernel compile again
    return Params(*task.map.geometry, gain, task.noise, correction, task.to_goal, grid.origin, grid.spacing, *floats)


def marble_temperature(
    task: Marble, settings: PlannerSettings, weights: MarbleWeights | None = None
) -> Callable[[Floats], float]:
    """A fraction of the cost of standing still at a state (6,), at least a cell away from the goal."""
    weights, grid, field = weights or MarbleWeights(), task.strata.require_grid(), task.to_goal
    at_rest = weights.stage * settings.horizon + weights.final

    def temperature(state: Floats) -> float:
        away = interpolate(field, grid.origin, grid.spacing, state[0], state[2])
        return float(settings.temperature * at_rest * max(away, grid.spacing[0]))

    return temperature


def marble_rollout(
    cap: Fitted,
    task: Marble,
    horizon: int,
    weights: MarbleWeights | None = None,
    alpha: float = 0.1,
    simultaneous: bool = False,
) -> FusedRollout:
    """The cost of plans on one map, with the regions of `cap`."""
    _check_calibration(cap, task)
    weights = weights or MarbleWeights()
    step = model_step if task.correction is None else corrected_step
    points = weights.hazard_points
    return FusedRollout(
        cap,
        StepModel(step, 6, POSITION, noise_dims=2, params=marble_params(task, task.model_gain, weights)),
        marble_cost,
        PointHazard(pit_distance, points=points, steepness=1.0) if points else _pit_cells(task, weights.margin),
        alpha,
        simultaneous,
        # the spread of one step at every step, like the thresholds of particles; propagated, it would cover the board
        gaussian_scale=np.full(horizon, task.one_step_spread) if isinstance(cap.score, Mahalanobis) else None,
        count_particles=weights.count_particles,
        check=partial(_check_state, task.map.geometry),
    )


def _pit_cells(task: Marble, margin: float) -> Bools:
    """Cells over pits enlarged by a margin (mm), (cells,)."""
    if not margin:
        return task.strata.pit_cells
    grid = task.strata.require_grid()
    centres, pits = grid.centre(np.arange(grid.size)), task.map.geometry.pits
    away = np.linalg.norm(centres[:, None] - pits[None, :, :2], axis=2) - pits[:, 2]
    return np.asarray((away <= margin * MILLIMETRE).any(axis=1))


def _check_calibration(cap: Fitted, task: Marble) -> None:
    if not isinstance(cap.strata, MarbleStrata) or cap.strata.digest() != task.strata.digest():
        raise CaptureError(f"the calibration was not made for the map {task.map.name}; calibrate on this map.")
    model = getattr(cap.model_, "__self__", cap.model_)
    if isinstance(model, Marble) and _beliefs(model) != _beliefs(task):
        raise CaptureError(
            f"the calibration was made for a model of gain {model.model_gain:g}, the planner's has {task.model_gain:g}, "
            "or for another noise or correction; calibrate with the model that plans."
        )


def _beliefs(task: Marble) -> tuple[Any, ...]:
    """The parameters of a task's model, except pits and the goal."""
    return task.model_gain, task.noise, task.correction


def _check_state(geometry: Geometry, state: Floats) -> None:
    """Reject a state (6,) that is not a marble on the map."""
    if len(state) != 6 or clearance(state[POSITION[0]], state[POSITION[1]], geometry) < -TOLERANCE:
        raise CaptureError(
            f"the state {state.tolist()} is not a marble on the map: x, vx, y, vy, alpha, beta, clear of walls."
        )
