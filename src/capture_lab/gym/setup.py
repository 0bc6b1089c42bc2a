"""What single and vector environments share: spaces, starts, actions in the task's units, rewards and info."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, finite_array
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.region_draws import has_grid
from capture_cp.planning.rollout import Stage
from capture_cp.spaces.strata import INFEASIBLE, grid_of
from capture_lab.gym.ids import task_at
from capture_lab.tasks.task import STARTS, Task

#: Bound on state entries without known limits; finite, because environment checkers warn of infinite bounds.
FAR = 1e6
#: Options that `reset(options=...)` accepts.
STATE, ANYWHERE = "state", "anywhere"
SUCCESS = "success"
#: The stratum name of a configuration that lies in no stratum.
NOWHERE = "infeasible"


@dataclass(frozen=True)
class Setup:
    """A task presented as an environment.

    Attributes:
        task: the task in its place.
        dense: whether the decrease of the planner's cost is added to the reward.
        own_units: whether actions are in the task's own units, instead of fractions of its bounds.
        regions: calibration for the reported regions; None for none.
        alpha: failure rate of these regions.
    """

    task: Task
    dense: bool = False
    own_units: bool = False
    regions: Fitted | None = None
    alpha: float = 0.1

    @classmethod
    def of(cls, task: Any, place: str | None, options: dict[str, Any], regions: Any, alpha: float, **how: Any) -> Setup:
        """Make it from a task or its name, and a calibration or its file."""
        if isinstance(task, Task):
            if place is not None or options:
                raise CaptureError("place and options need a task given by name; this one is an object, made already.")
        else:
            task = task_at(str(task), place, options)
        if regions is not None and not isinstance(regions, Fitted):
            regions = Capture.load(regions, task, task.strata)
        found = cls(task, regions=regions, alpha=failure_rate(alpha), **how)
        if found.dense and type(task).cost is Task.cost:
            raise CaptureError(f"{task.name} has no stage cost in Python; leave dense out, or give its class `cost`.")
        if regions is not None:
            found.check_regions(regions)
        return found

    def check_regions(self, regions: Fitted) -> None:
        """Reject a calibration whose inputs or configurations do not match the task's."""
        regions.check_fitted()
        inputs, dims = len(self.task.states) + len(self.task.actions), len(self.axes)
        have = regions.n_inputs_, regions.n_outputs_
        if isinstance(regions, Capture) and have != (inputs, dims):
            raise CaptureError(
                f"the calibration has {have[0]} inputs and {have[1]} outputs, and {self.task.name} has {inputs} and {dims}; "
                "give one that was fitted on this task's transitions."
            )

    # -- spaces -------------------------------------------------------------------------------------------------------

    @property
    def axes(self) -> list[int]:
        """Indices of the state's entries that are the configuration."""
        return list(self.task.axes)

    @cached_property
    def observation_space(self) -> Box:
        """States (ds,), float64 so that an observation equals the state exactly.

        Configurations have the bounds of their grid, extended by its whole width on both sides; other entries have bounds
        that are never reached.
        """
        low, high = np.full(len(self.task.states), -FAR), np.full(len(self.task.states), FAR)
        if has_grid(self.task.strata):
            grid = grid_of(self.task.strata).require_grid()
            first = grid.origin - grid.spacing / 2
            width = np.array(grid.shape) * grid.spacing
            low[self.axes], high[self.axes] = first - width, first + 2 * width
        return Box(low, high, dtype=np.float64)

    @cached_property
    def action_space(self) -> Box:
        """Fractions of the task's bounds, -1 to 1, float32 as in learning libraries; or its own units, float64."""
        bounds = np.asarray(self.task.bounds, dtype=np.float64)
        if self.own_units:
            return Box(-bounds, bounds, dtype=np.float64)
        return Box(-1.0, 1.0, bounds.shape, dtype=np.float32)

    def own_actions(self, actions: Any, n: int) -> Floats:
        """Actions (n, da) in the task's own units, clipped to its bounds."""
        bounds = np.asarray(self.task.bounds, dtype=np.float64)
        given = finite_array("actions", actions, (n, len(bounds)), "(n, da): one action per environment")
        return np.clip(given if self.own_units else given * bounds, -bounds, bounds)

    # -- starts -------------------------------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> Floats | None:
        """States (STARTS, ds) that episodes start from; None for a task without start states."""
        if type(self.task).starts is Task.starts:
            return None
        return finite_array("starts", self.task.starts(STARTS), (None, len(self.task.states)), "(n, ds)")

    def start(self, options: Mapping[str, Any] | None, rng: np.random.Generator) -> Floats:
        """The state (ds,) that an episode starts from: a given one, a random feasible one, or one of the starts."""
        chosen = dict(options or {})
        unknown = sorted(chosen.keys() - {STATE, ANYWHERE})
        if unknown:
            raise CaptureError(f"reset has no options {unknown}; known: {STATE!r} (ds,) and {ANYWHERE!r}, true or false.")
        if chosen.get(STATE) is not None:
            return self.feasible(chosen[STATE])
        if chosen.get(ANYWHERE) or self.starts is None:
            return np.asarray(self.task.inputs(1, rng)[0, : len(self.task.states)], dtype=np.float64)
        return np.array(self.starts[int(rng.integers(len(self.starts)))])

    def feasible(self, state: Any) -> Floats:
        """A state (ds,) given by the user, checked to lie in a stratum."""
        given = finite_array("the state to start from", state, (len(self.task.states),), "(ds,): one state")
        if self.strata_of(given[None])[0] == INFEASIBLE:
            raise CaptureError(f"the state to start from, {given.tolist()}, lies in no stratum; give a feasible one.")
        return given.copy()

    # -- what is reported after a step ---------------------------------------------------------------------------------

    def strata_of(self, states: Floats) -> Ints:
        """The strata (n,) of states (n, ds), -1 for none."""
        return np.asarray(self.task.strata.index(np.ascontiguousarray(states[:, self.axes])))

    def stratum_names(self, states: Floats) -> list[str]:
        """The names of the strata of states (n, ds)."""
        names = self.task.strata.names
        return [NOWHERE if label == INFEASIBLE else names[label] for label in self.strata_of(states)]

    def rewards(self, before: Floats, actions: Floats, after: Floats, outcomes: Sequence[str | None]) -> Floats:
        """Rewards (n,) of steps from states (n, ds) to states (n, ds) under actions (n, da).

        1 for success, -1 for any other end, else 0; if `dense`, plus the decrease of the cost. The negative cost itself
        would reward every way to end early, including a fall.
        """
        found = np.array([0.0 if end is None else 1.0 if end == SUCCESS else -1.0 for end in outcomes])
        return found + self._costs(before, actions) - self._costs(after, actions) if self.dense else found

    def _costs(self, states: Floats, actions: Floats) -> Floats:
        """The planner's cost of states (n, ds): (n,), with the state itself in place of a region."""
        Y = np.ascontiguousarray(states[:, self.axes])
        weights = None if self.task.weights is None else self.task.weights()
        stage = Stage(1, 1, states, actions, Y[:, None], self._on_hazard(Y))
        return np.asarray(self.task.cost(stage, weights), dtype=np.float64)

    def _on_hazard(self, Y: Floats) -> Floats:
        """1 for each configuration of Y (n, dc) that is on the hazard, else 0: (n,)."""
        hazard = self.task.hazard
        if callable(hazard):
            found = np.asarray(hazard(Y))
            return (found if found.dtype.kind == "b" else found < 0).astype(np.float64)
        cells = grid_of(self.task.strata).require_grid().cell(Y)
        return np.where(cells < 0, False, hazard[cells]).astype(np.float64)

    def region_facts(self, before: Floats, actions: Floats, after: Floats, rng: np.random.Generator) -> dict[str, Any]:
        """Region facts of n steps: held (n,), thresholds by stratum, (n,) each, particles (n, L, dc)."""
        assert self.regions is not None  # checked by the caller
        found = self.regions.executed_regions(before, actions, after[:, self.axes], self.alpha, rng)
        thresholds = {name: found.thresholds[:, m].copy() for m, name in enumerate(self.regions.strata.names)}
        return {"held": np.asarray(found.inside, dtype=bool), "thresholds": thresholds, "particles": found.particles}
