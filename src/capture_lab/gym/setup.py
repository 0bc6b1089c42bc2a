"""A task as its environments present it: spaces, a matching calibration, and the cost of states."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.planning.rollout import Stage
from capture_cp.spaces.strata import grid_of, has_grid
from capture_lab.tasks.task import Task

#: Bound on state entries without known limits; finite, because environment checkers warn of infinite bounds.
FAR = 1e6


def observation_space(task: Task) -> Box:
    """States (ds,), float64 so that an observation equals the state exactly.

    Configurations have the bounds of their grid, extended by its width on both sides; other bounds are never reached.
    """
    low, high, axes = np.full(len(task.states), -FAR), np.full(len(task.states), FAR), list(task.axes)
    if has_grid(task.strata):
        grid = grid_of(task.strata).require_grid()
        first, width = grid.origin - grid.spacing / 2, np.array(grid.shape) * grid.spacing
        low[axes], high[axes] = first - width, first + 2 * width
    return Box(low, high, dtype=np.float64)


def action_space(task: Task, own_units: bool) -> Box:
    """Fractions of the task's bounds, -1 to 1, float32 as in learning libraries; or its own units, float64."""
    bounds = np.asarray(task.bounds, dtype=np.float64)
    return Box(-bounds, bounds, dtype=np.float64) if own_units else Box(-1.0, 1.0, bounds.shape, dtype=np.float32)


def regions_for(task: Task, given: Any) -> Fitted:
    """A calibration, or the one in a file, if its inputs and configurations match the task's."""
    found = given if isinstance(given, Fitted) else Capture.load(given, task, task.strata)
    found.check_fitted()
    inputs, outputs = len(task.states + task.actions), len(task.axes)
    if isinstance(found, Capture) and (found.n_inputs_, found.n_outputs_) != (inputs, outputs):
        raise CaptureError(
            f"the calibration has {found.n_inputs_} inputs and {found.n_outputs_} outputs, and {task.name} has {inputs} and "
            f"{outputs}; give one that was fitted on this task's transitions."
        )
    return found


def costs(task: Task, states: Floats, actions: Floats) -> Floats:
    """The planner's cost of states (n, ds): (n,), with the state itself in place of a region."""
    Y, hazard = np.ascontiguousarray(states[:, list(task.axes)]), task.hazard
    if callable(hazard):
        found = np.asarray(hazard(Y))
        on_it = found if found.dtype.kind == "b" else found < 0
    else:
        cells = grid_of(task.strata).require_grid().cell(Y)
        on_it = np.where(cells < 0, False, hazard[cells])
    stage = Stage(1, 1, states, actions, Y[:, None], on_it.astype(np.float64))
    return np.asarray(task.cost(stage, None if task.weights is None else task.weights()), dtype=np.float64)
