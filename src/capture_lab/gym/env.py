"""One robot as a Gymnasium environment: its true system, step by step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array
from capture_cp.planning.episode import Episode
from capture_cp.report.canvas import Picture
from capture_lab.gym.vector import TaskVectorEnv
from capture_lab.tasks.task import Task


class TaskEnv(gymnasium.Env[Any, Any]):
    """The true system of a task.

    An observation is the state (ds,), float64. An action (da,) is a fraction of the task's bounds on each axis, clipped to
    [-1, 1]. An outcome terminates the episode: reward 1 for success, -1 for any other.

    `reset(options=...)` accepts `state`, a state (ds,) to start from, or `anywhere`, true for a random feasible state;
    by default, episodes start where those of the planning study do. `info` holds `outcome` (None while the episode runs),
    `stratum`, `configuration` (dc,), `steps`, and after a step `action` (da,) in the task's own units. With a calibration,
    it also holds `region` after a step: `held`, `thresholds` by stratum, and `particles` (L, dc).

    Args:
        task, place, settings: as in `TaskVectorEnv`, but no `max_episode_steps`, which Gymnasium handles.
        render_mode: "rgb_array", or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - declared so by Gymnasium

    def __init__(
        self, task: Task | str, place: str | None = None, *, render_mode: str | None = None, **settings: Any
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise CaptureError(f'render_mode is {render_mode!r}; expected "rgb_array" or None.')
        self._robots, self.render_mode = TaskVectorEnv(1, task, place, **settings), render_mode
        self.task = self._robots.task
        self.metadata = {**self.metadata, "render_fps": max(1, round(self.task.rate))}
        self.observation_space = self._robots.single_observation_space
        self.action_space = self._robots.single_action_space
        self._path: list[Floats] = []
        self._actions: list[Floats] = []
        self._outcome: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start a new episode; a seed fixes its start and all noise from here on."""
        super().reset(seed=seed)
        states, infos = self._robots.reset(seed=seed, options=options)
        self._path, self._actions, self._outcome = [states[0]], [], None
        return states[0].copy(), _first(infos)

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Advance the true system by one control step."""
        if self._outcome is not None:
            raise CaptureError(f"the episode has ended ({self._outcome}); call reset() before step(action).")
        given = finite_array("the action", action, (len(self.task.bounds),), "(da,): one number per axis")
        states, rewards, terminated, truncated, infos = self._robots.step(given[None])
        info = _first(infos)
        self._path.append(states[0])
        self._actions.append(info["action"])
        self._outcome = info["outcome"] or ("timed out" if truncated[0] else None)
        return states[0].copy(), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Picture | None:
        """A picture (h, w, 3) of the episode so far, as in its video; takes a few tenths of a second. Needs matplotlib."""
        if self.render_mode is None:
            return None
        if not self._path:
            raise CaptureError("there is nothing to draw yet; call reset() before render().")
        # a video needs at least one step
        path, actions = (self._path, self._actions) if self._actions else (2 * self._path, [np.zeros(len(self.task.bounds))])
        nothing, outcome, info = np.zeros(len(actions)), self._outcome or "running", {"method": "environment"}
        run = Episode(outcome, np.array(path), np.array(actions), np.array(actions)[:, None], nothing, nothing, info)
        return np.array(self.task.drawing().film(run).draw(len(self._actions)), dtype=np.uint8)

    def close(self) -> None:
        """Close the simulator."""
        self._robots.close()


def _first(infos: dict[str, Any]) -> dict[str, Any]:
    """Info of the first robot alone, as plain numbers, without Gymnasium's masks."""
    found = {}
    for name, values in infos.items():
        if not name.startswith("_"):
            value = _first(values) if isinstance(values, dict) else values[0]
            found[name] = value.item() if isinstance(value, np.generic) else value
    return found
