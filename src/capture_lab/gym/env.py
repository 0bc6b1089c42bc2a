"""One robot as a Gymnasium environment: its true system, step by step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.streams import fresh, stream
from capture_cp.planning.episode import System
from capture_cp.report.movie import Picture
from capture_lab.gym.picture import picture_of
from capture_lab.gym.setup import Setup
from capture_lab.gym.threads import threads_for
from capture_lab.tasks.task import Task

#: Observation, reward, terminated, truncated, info.
Step = tuple[Floats, float, bool, bool, dict[str, Any]]


class TaskEnv(gymnasium.Env[Any, Any]):
    """The true system of a task.

    An observation is the state (ds,), float64. An action (da,) is a fraction of the task's bounds on each axis, clipped to
    [-1, 1]. An outcome terminates the episode: reward 1 for success, -1 for any other.

    `reset(options=...)` accepts `state`, a state (ds,) to start from, or `anywhere`, true for a random feasible state;
    by default, episodes start where those of the planning study do. `info` holds `outcome` (None while the episode runs),
    `stratum`, `configuration` (dc,), `steps`, and after a step `action` (da,) in the task's own units. With a calibration,
    it also holds `region` after a step: `held`, `thresholds` by stratum, and `particles` (L, dc).

    Args:
        task: a task, or its registered name.
        place: one of its places, such as a map.
        own_limit: whether this class truncates episodes after `task.max_steps`; False where Gymnasium does so.
        dense: whether the decrease of the planner's cost is added to the reward, for tasks that have `cost`.
        own_units: whether actions are in the task's own units instead of fractions of its bounds.
        regions: calibration, or its file, for the reported regions; costs one prediction per step.
        alpha: failure rate of these regions.
        render_mode: "rgb_array", or None.
        options: options of the task, by name.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - declared so by Gymnasium

    def __init__(
        self,
        task: Task | str,
        place: str | None = None,
        *,
        own_limit: bool = True,
        dense: bool = False,
        own_units: bool = False,
        regions: Any = None,
        alpha: float = 0.1,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.setup = Setup.of(task, place, options, regions, alpha, dense=dense, own_units=own_units)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise CaptureError(f'render_mode is {render_mode!r}; expected "rgb_array" or None.')
        self.render_mode, self._limit = render_mode, self.task.max_steps if own_limit else None
        self.metadata = {**self.metadata, "render_fps": max(1, round(self.task.rate))}
        self.observation_space, self.action_space = self.setup.observation_space, self.setup.action_space
        self._system: System | None = None
        self._particles = fresh()
        self._path: list[Floats] = []
        self._actions: list[Floats] = []
        self._outcome: str | None = None
        self._closed = False

    @property
    def task(self) -> Task:
        """The task in its place."""
        return self.setup.task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start a new episode; a seed fixes its start and all noise from here on."""
        self._check_open()
        super().reset(seed=seed)
        if seed is not None:  # separate streams, so that a policy's default_rng(seed) draws other numbers
            self._np_random, self._particles = stream(seed, "gym"), stream(seed, "gym", "regions")
        with threads_for(1):
            state = self.setup.start(options, self.np_random)
            self._system = self.task.closed_loop(state)
            self._path, self._actions, self._outcome = [state], [], None
            return state.copy(), self._info()

    def step(self, action: Any) -> Step:
        """Advance the true system by one control step."""
        self._check_open()
        if self._system is None or self._outcome is not None:
            why = "has not begun" if self._system is None else f"has ended ({self._outcome})"
            raise CaptureError(f"the episode {why}; call reset() before step(action).")
        with threads_for(1):
            return self._step(self.own_action(action), self._system)

    def _step(self, own: Floats, system: System) -> Step:
        before = self._path[-1]
        after, self._outcome = system(before.copy(), own.copy(), self.np_random)
        self._path.append(np.array(after, dtype=np.float64))
        self._actions.append(own)
        reward = self.setup.rewards(before[None], own[None], self._path[-1][None], [self._outcome])[0]
        info = self._info() | {"action": own.copy()}
        if self.setup.regions is not None:
            facts = self.setup.region_facts(before[None], own[None], self._path[-1][None], self._particles)
            thresholds = {name: float(q[0]) for name, q in facts["thresholds"].items()}
            info["region"] = {"held": bool(facts["held"][0]), "thresholds": thresholds}
            info["region"]["particles"] = np.array(facts["particles"][0])
        ended = self._outcome is not None
        truncated = not ended and self._limit is not None and len(self._actions) >= self._limit
        return self._path[-1].copy(), float(reward), ended, truncated, info

    def own_action(self, action: Any) -> Floats:
        """An action (da,) of the action space in the task's own units, as executed."""
        try:
            given = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            raise CaptureError(f"the action is {action!r}; expected {len(self.task.bounds)} finite numbers, (da,).")
        own: Floats = self.setup.own_actions(given[None], 1)[0]
        return own

    def render(self) -> Picture | None:
        """A picture (h, w, 3) of the episode so far, as in its video; takes a few tenths of a second."""
        if self.render_mode is None:
            return None
        self._check_open()
        if not self._path:
            raise CaptureError("there is nothing to draw yet; call reset() before render().")
        return picture_of(self.task, self._path, self._actions, self._outcome)

    def close(self) -> None:
        """Close the simulator."""
        self._closed, self._system = True, None

    def _info(self) -> dict[str, Any]:
        state = self._path[-1]
        return {
            "outcome": self._outcome,
            "stratum": self.setup.stratum_names(state[None])[0],
            "configuration": state[self.setup.axes],
            "steps": len(self._actions),
        }

    def _check_open(self) -> None:
        if self._closed:
            raise CaptureError("the environment is closed; make a new one.")
