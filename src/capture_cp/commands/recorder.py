"""Transitions of a Gymnasium environment under a policy, kept step by step, so that none is lost when recording stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.commands.environments import cause, flat, flat_size
from capture_cp.data.source import Table
from capture_lab.gym.env import TaskEnv

#: Columns besides those of states, actions and next states.
EXTRA = ("episode", "step", "reward", "terminated", "truncated")


class Recorder:
    """Steps an environment and keeps what it saw.

    An observation is flattened to a row of numbers. The recorder resets the environment after an episode, so that the
    last observation of an episode stays with the step that led there, and no transition leads from one episode to another.
    Actions of our environments are logged in the task's own units, as executed.

    Attributes:
        state_names, action_names, next_names: of the columns: state_0, action_0, next_0, ...; the task's own for ours.
    """

    def __init__(self, env: Any, policy: Callable[[Any], Any], seed: int) -> None:
        self._env, self._policy, self._seed = env, policy, seed
        self._rows: list[tuple[Floats, Floats, Floats]] = []
        self._extra: list[tuple[int, int, float, bool, bool]] = []
        sizes = flat_size("observation", env.observation_space), flat_size("action", env.action_space)
        self.task = env.unwrapped.task if isinstance(env.unwrapped, TaskEnv) else None
        states, actions = (tuple(f"{role}_{i}" for i in range(n)) for role, n in zip(("state", "action"), sizes))
        after = tuple(f"next_{i}" for i in range(sizes[0]))
        if self.task is not None:
            own = self.task.states, self.task.actions, tuple(f"next_{name}" for name in self.task.states)
            every = sum(own, ())
            fits = (len(own[0]), len(own[1])) == sizes and not {*every} & {*EXTRA} and len({*every}) == len(every)
            states, actions, after = own if fits else (states, actions, after)
        self.state_names, self.action_names, self.next_names = states, actions, after

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def episodes(self) -> int:
        """How many episodes have begun."""
        return self._extra[-1][0] + 1 if self._extra else 0

    def run(self, steps: int, advance: Callable[[int], object]) -> None:
        """Record so many steps; the last episode is cut where they end."""
        episode, step, seed, observation = -1, 0, self._seed, None  # type: tuple[int, int, int | None, Any]
        ended = True
        while len(self._rows) < steps:
            if ended:
                observation, _ = self._asked("reset", seed=seed)
                episode, step, seed = episode + 1, 0, None  # one seed for all: later episodes go on from there
            before = self._flat(observation)
            action = self._policy(observation)
            observation, reward, terminated, truncated, _ = self._asked("step", action)
            self._rows.append((before, self._logged(action), self._flat(observation)))
            self._extra.append((episode, step, float(reward), bool(terminated), bool(truncated)))
            ended, step = bool(terminated or truncated), step + 1
            advance(1)

    def table(self) -> Table:
        """Every column by name, (n,) each."""
        names = (*self.state_names, *self.action_names, *self.next_names)
        every = np.array([np.concatenate(row) for row in self._rows])
        kinds = np.int64, np.int64, np.float64, np.int64, np.int64
        extra = {name: np.array(column, dtype=kind) for name, column, kind in zip(EXTRA, zip(*self._extra), kinds)}
        return dict(zip(names, every.T.copy())) | extra

    def _logged(self, action: Any) -> Floats:
        if self.task is not None:
            own: Floats = self._env.unwrapped.own_action(action)
            return own
        return flat(self._env.action_space, action)

    def _flat(self, observation: Any) -> Floats:
        try:
            found = flat(self._env.observation_space, observation)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise CaptureError(
                f"an observation does not fit {self._env.observation_space} ({cause(error)}); repair the environment."
            ) from None
        if not np.isfinite(found).all():
            raise CaptureError(
                f"the environment returned an observation with NaN or infinite numbers after {len(self._rows):,} steps; "
                "expected finite ones."
            )
        return found

    def _asked(self, method: str, *given: Any, **named: Any) -> Any:
        """What the environment answers; its failure is one sentence."""
        try:
            return getattr(self._env, method)(*given, **named)
        except CaptureError:
            raise
        except (Exception, SystemExit) as error:  # it is not our code
            raise CaptureError(f"the environment failed in {method} with {cause(error)}; repair it.") from None
