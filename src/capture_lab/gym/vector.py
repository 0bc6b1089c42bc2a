"""Many robots as one Gymnasium vector environment: their true systems are stepped in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, whole_number
from capture_cp.base.streams import fresh, stream
from capture_lab.gym.setup import STATE, Setup
from capture_lab.gym.systems import Fleet, fleet_of
from capture_lab.gym.threads import threads_for
from capture_lab.tasks.task import Task

Step = tuple[Floats, Floats, Bools, Bools, dict[str, Any]]


class TaskVectorEnv(VectorEnv[Floats, Any, Any]):
    """n true systems of a task, stepped together; observations (n, ds), actions (n, da), otherwise like `TaskEnv`.

    An environment whose episode has ended is reset by the next step, which ignores its action (`AutoresetMode.NEXT_STEP`).
    With seed s, environment i has the start of a `TaskEnv` with seed s + i and, if the task supports it, its noise: for the
    marble, the peg and the shelf, results are bit-identical to those of `SyncVectorEnv`. A task stepped by `true_step` has
    one stream of noise for all environments. No result depends on the number of threads.

    Args:
        num_envs: number of environments, n.
        task, place, dense, own_units, regions, alpha, options: as in `TaskEnv`.
        max_episode_steps: steps after which an episode is truncated, by default `task.max_steps`; -1 for never.
        own_limit: whether that default applies.
        render_mode: None; only a single environment can be rendered.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # type: ignore[misc]

    _fleet: Fleet | None = None  # on the class too: close() also runs when __init__ failed

    def __init__(
        self,
        num_envs: int,
        task: Task | str,
        place: str | None = None,
        *,
        max_episode_steps: int | None = None,
        own_limit: bool = True,
        dense: bool = False,
        own_units: bool = False,
        regions: Any = None,
        alpha: float = 0.1,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode is not None:
            raise CaptureError(f"render_mode is {render_mode!r}; a vector environment cannot be rendered, expected None.")
        self.num_envs = n = whole_number("num_envs", num_envs, 1)
        self.setup = Setup.of(task, place, options, regions, alpha, dense=dense, own_units=own_units)
        limit = self.task.max_steps if max_episode_steps is None and own_limit else max_episode_steps
        self._limit = np.inf if limit is None or limit == -1 else whole_number("max_episode_steps", limit, 1)
        self.single_observation_space, self.single_action_space = self.setup.observation_space, self.setup.action_space
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self._rngs: list[np.random.Generator] = [fresh() for _ in range(n)]
        self._shared, self._particles = fresh(), fresh()
        self._states = np.zeros((n, len(self.task.states)))
        self._steps, self._over = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)

    @property
    def task(self) -> Task:
        """The task in its place."""
        return self.setup.task

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start new episodes everywhere; a seed, or one per environment, fixes their starts and all noise from here on.

        The option `state` may be one state (ds,) or one per environment, (n, ds).
        """
        self._check_open()
        self._seed(seed)
        if self._fleet is not None:
            self._fleet.close()
        self._fleet = fleet_of(self.task, self.num_envs, self._shared)
        for row, chosen in enumerate(self._options(options)):
            self._begin(row, chosen)
        self._over[:] = False
        return self._states.copy(), self._infos([None] * self.num_envs)

    def step(self, actions: Any) -> Step:
        """Advance every environment by one control step; where an episode has ended, start a new one instead."""
        self._check_open()
        if self._fleet is None:
            raise CaptureError("the episodes have not begun; call reset() before step(actions).")
        with threads_for(self.num_envs):
            return self._step(self.setup.own_actions(actions, self.num_envs), self._fleet)

    def _step(self, own: Floats, fleet: Fleet) -> Step:
        rows = np.flatnonzero(~self._over)
        before = self._states[rows]
        outcomes: list[str | None] = [None] * self.num_envs
        rewards, truncated = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        for row in np.flatnonzero(self._over):
            self._begin(int(row), None)
        if len(rows):
            after, ends = fleet.step(rows, before, own[rows], [self._rngs[row] for row in rows])
            self._states[rows] = after
            self._steps[rows] += 1
            rewards[rows] = self.setup.rewards(before, own[rows], after, ends)
            for row, end in zip(rows, ends):
                outcomes[row] = end
        terminated = np.array([outcome is not None for outcome in outcomes])
        truncated[rows] = ~terminated[rows] & (self._steps[rows] >= self._limit)
        infos = self._infos(outcomes) | self._executed(rows, before, own)
        self._over = terminated | truncated
        return self._states.copy(), rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulators and stop their threads."""
        if self._fleet is not None:
            self._fleet.close()
            self._fleet = None

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        if seed is None:
            return
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed)
        if len(seeds) != self.num_envs:
            raise CaptureError(f"there are {len(seeds)} seeds for {self.num_envs} environments; give one each, or just one.")
        self._rngs = [rng if s is None else stream(s, "gym") for rng, s in zip(self._rngs, seeds)]
        if seeds[0] is not None:
            self._shared, self._particles = stream(seeds[0], "gym", "shared"), stream(seeds[0], "gym", "regions")
            self._np_random, self._np_random_seed = self._shared, int(seeds[0])

    def _options(self, options: dict[str, Any] | None) -> list[dict[str, Any] | None]:
        """The options of every environment."""
        given: Any = (options or {}).get(STATE)
        if given is None or np.ndim(given) != 2:
            return [options] * self.num_envs
        if len(given) != self.num_envs:
            raise CaptureError(f"the option {STATE!r} has {len(given)} rows; expected one state, or {self.num_envs}.")
        return [{**(options or {}), STATE: state} for state in given]

    def _begin(self, row: int, options: dict[str, Any] | None) -> None:
        assert self._fleet is not None  # made by reset
        self._states[row] = self.setup.start(options, self._rngs[row])
        self._steps[row] = 0
        self._fleet.place(row, self._states[row].copy())

    def _infos(self, outcomes: Sequence[str | None]) -> dict[str, Any]:
        """Info of every environment, with Gymnasium's masks."""
        everywhere = np.ones(self.num_envs, dtype=bool)
        found = {
            "outcome": np.array(outcomes, dtype=object),
            "stratum": np.array(self.setup.stratum_names(self._states), dtype=object),
            "configuration": self._states[:, self.setup.axes],
            "steps": self._steps.copy(),
        }
        return found | {f"_{name}": everywhere.copy() for name in found}

    def _executed(self, rows: Ints, before: Floats, own: Floats) -> dict[str, Any]:
        """Info of the environments `rows` (m,) that made a step from states `before` (m, ds)."""
        if not len(rows):
            return {}
        found: dict[str, Any] = {"action": self._spread(rows, own[rows])}
        if self.setup.regions is not None:
            facts = self.setup.region_facts(before, own[rows], self._states[rows], self._particles)
            thresholds = {name: self._spread(rows, q) for name, q in facts["thresholds"].items()}
            region = {"held": self._spread(rows, facts["held"]), "particles": self._spread(rows, facts["particles"])}
            found["region"] = self._masked(rows, region | {"thresholds": self._masked(rows, thresholds)})
        return self._masked(rows, found)

    def _spread(self, rows: Ints, values: Any) -> Any:
        """Values (m, ...) of some environments, placed among all: (n, ...)."""
        every = np.zeros((self.num_envs, *values.shape[1:]), dtype=values.dtype)
        every[rows] = values
        return every

    def _masked(self, rows: Ints, found: dict[str, Any]) -> dict[str, Any]:
        """The entries, each with a mask of the environments it applies to."""
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[rows] = True
        return found | {f"_{name}": mask.copy() for name in found}

    def _check_open(self) -> None:
        if self.closed:
            raise CaptureError("the environments are closed; make new ones.")
