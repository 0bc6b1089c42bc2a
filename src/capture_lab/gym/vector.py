"""Many robots as one Gymnasium vector environment: their true systems are stepped in one batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, failure_rate, finite_array, whole_number
from capture_cp.base.streams import fresh, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.planning.episode import System
from capture_cp.planning.rollout import Stage
from capture_cp.spaces.strata import INFEASIBLE, grid_of, has_grid
from capture_lab.gym import task_at
from capture_lab.tasks.task import STARTS, Task

#: Bound on state entries without known limits; finite, because environment checkers warn of infinite bounds.
FAR = 1e6


class TaskVectorEnv(VectorEnv[Floats, Any, Any]):
    """n true systems of a task, stepped together; observations (n, ds), actions (n, da), otherwise like `TaskEnv`.

    An environment whose episode has ended is reset by the next step, which ignores its action (`AutoresetMode.NEXT_STEP`).
    With seed s, environment i has the start of a `TaskEnv` with seed s + i and, if the task supports it, its noise: for the
    marble, the peg and the shelf, results are bit-identical to those of `SyncVectorEnv`. A task stepped by `true_step` has
    one stream of noise for all environments. No result depends on the number of threads.

    Args:
        num_envs: number of environments, n.
        task: a task, or its registered name.
        place: one of its places, such as a map.
        max_episode_steps: steps after which an episode is truncated, by default `task.max_steps`; -1 for never.
        own_limit: whether that default applies; False where Gymnasium truncates.
        dense: whether the decrease of the planner's cost is added to the reward, for tasks that have `cost`.
        own_units: whether actions are in the task's own units instead of fractions of its bounds.
        regions: calibration, or its file, for the reported regions; costs one prediction per step.
        alpha: failure rate of these regions.
        render_mode: None; only a single environment can be rendered.
        options: options of the task, by name.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # type: ignore[misc]

    _pool: ThreadPoolExecutor | None = None  # on the class too: close() also runs when __init__ failed

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
        if isinstance(task, Task) and (place is not None or options):
            raise CaptureError("place and options need a task given by name; this one is an object, made already.")
        self.task = task = task if isinstance(task, Task) else task_at(str(task), place, options)
        if dense and type(task).cost is Task.cost:
            raise CaptureError(f"{task.name} has no stage cost in Python; leave dense out, or give its class `cost`.")
        self.num_envs = n = whole_number("num_envs", num_envs, 1)
        self._dense, self._own_units, self._alpha = dense, own_units, failure_rate(alpha)
        self._regions = None if regions is None else regions_for(task, regions)
        limit = task.max_steps if max_episode_steps is None and own_limit else max_episode_steps
        self._limit = np.inf if limit is None or limit == -1 else whole_number("max_episode_steps", limit, 1)
        self.single_observation_space, self.single_action_space = observation_space(task), action_space(task, own_units)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self._rngs, self._shared, self._particles = [fresh() for _ in range(n)], fresh(), fresh()
        self._axes, self._states = list(task.axes), np.zeros((n, len(task.states)))
        self._steps = np.zeros(n, dtype=np.int64)
        self._over: Bools | None = None  # which episodes have ended; None before the first reset
        self._together = task.closed_loops() if n > 1 else None
        self._loops: list[System] = []  # one per environment, where each is stepped by itself, as simulators need

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start new episodes everywhere; a seed, or one per environment, fixes their starts and all noise from here on.

        The option `state` may be one state (ds,) or one per environment, (n, ds).
        """
        self._check_open()
        if seed is not None:
            self._seed([seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed))
        given = {"state": None, "anywhere": False} | (options or {})
        if unknown := sorted(given.keys() - {"state", "anywhere"}):
            raise CaptureError(f"reset has no options {unknown}; known: 'state' (ds,) and 'anywhere', true or false.")
        states = given["state"] if np.ndim(given["state"]) == 2 else [given["state"]] * self.num_envs
        if len(states) != self.num_envs:
            raise CaptureError(f"the option 'state' has {len(states)} rows; expected one state, or {self.num_envs}.")
        with threads_for(self.num_envs):
            for row, state in enumerate(states):
                self._begin(row, state, given["anywhere"])
            self._over = np.zeros(self.num_envs, dtype=bool)
            return self._states.copy(), self._infos(np.full(self.num_envs, None))

    def step(self, actions: Any) -> tuple[Floats, Floats, Bools, Bools, dict[str, Any]]:
        """Advance every environment by one control step; where an episode has ended, start a new one instead."""
        self._check_open()
        if self._over is None:
            raise CaptureError("no episode has begun; call reset() before step().")
        n, bounds = self.num_envs, np.asarray(self.task.bounds, dtype=np.float64)
        given = finite_array("actions", actions, (n, len(bounds)), "(n, da): one action per environment")
        rows, over = np.flatnonzero(~self._over), np.flatnonzero(self._over)
        own = np.clip(given if self._own_units else given * bounds, -bounds, bounds)[rows]
        before, outcomes, rewards = self._states[rows], np.full(n, None), np.zeros(n)
        with threads_for(n):
            for row in over:
                self._begin(int(row))
            if len(rows):
                self._states[rows], outcomes[rows] = self._advance(rows, before, own)
                self._steps[rows] += 1
                rewards[rows] = self._rewards(before, own, self._states[rows], outcomes[rows])
            infos = self._infos(outcomes) | (self._executed(rows, before, own) if len(rows) else {})
        terminated = np.array([outcome is not None for outcome in outcomes])
        truncated = ~terminated & (self._steps >= self._limit)
        self._over = terminated | truncated
        return self._states.copy(), rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulators and stop their threads."""
        self._loops = []
        if self._pool is not None:
            self._pool.shutdown()

    def _check_open(self) -> None:
        if self.closed:
            raise CaptureError("the environment is closed; make a new one.")

    def _seed(self, seeds: Sequence[int | None]) -> None:
        if len(seeds) != self.num_envs:
            raise CaptureError(f"there are {len(seeds)} seeds for {self.num_envs} environments; give one each, or just one.")
        # separate streams, so that a policy's default_rng(seed) draws other numbers
        self._rngs = [rng if s is None else stream(s, "gym") for rng, s in zip(self._rngs, seeds)]
        if seeds[0] is not None:
            self._shared, self._particles = stream(seeds[0], "gym", "shared"), stream(seeds[0], "gym", "regions")
            self._np_random, self._np_random_seed = self._shared, int(seeds[0])

    @cached_property
    def _starts(self) -> Floats | None:
        """States (STARTS, ds) that episodes start from; None for a task without start states."""
        if type(self.task).starts is Task.starts:
            return None
        return finite_array("starts", self.task.starts(STARTS), (None, len(self.task.states)), "(n, ds)")

    def _begin(self, row: int, state: Any = None, anywhere: bool = False) -> None:
        """Start an episode from a given state (ds,), a random feasible one, or one of the starts."""
        rng, task, ds = self._rngs[row], self.task, len(self.task.states)
        if state is not None:
            start = finite_array("the state to start from", state, (ds,), "(ds,): one state")
            if self._strata_of(start[None])[0] == INFEASIBLE:
                raise CaptureError(f"the state to start from, {start.tolist()}, lies in no stratum; give a feasible one.")
        elif anywhere or self._starts is None:
            start = task.inputs(1, rng)[0, :ds]
        else:
            start = self._starts[int(rng.integers(len(self._starts)))]
        self._states[row], self._steps[row] = start, 0
        if self.num_envs == 1 or (self._together is None and type(task).closed_loop is not Task.closed_loop):
            self._loops[row : row + 1] = [task.closed_loop(self._states[row].copy())]

    def _advance(self, rows: Ints, before: Floats, own: Floats) -> Any:
        """Next states (m, ds) and outcomes of the environments `rows` (m,), in a batch, in one call, or one by one.

        The task's batch has separate noise per environment. One call of `true_step` draws the noise of all from one stream.
        """
        rngs = [self._rngs[row] for row in rows]
        if self._together is not None:
            return self._together(before, own, rngs)
        if not self._loops:
            after = np.asarray(self.task.true_step(before, own, self._shared), dtype=np.float64)
            return after, [self.task.outcome(state) for state in after]

        def one(number: int) -> tuple[Floats, str | None]:
            loop = self._loops[int(rows[number])]
            return loop(before[number].copy(), own[number].copy(), rngs[number])

        if self._pool is None and self.num_envs > 1:  # simulators release Python's lock while they step
            threads = min(self.num_envs, os.cpu_count() or 1)
            self._pool = ThreadPoolExecutor(threads, initializer=numba.set_num_threads, initargs=(1,))
        return tuple(zip(*(self._pool.map if self._pool else map)(one, range(len(rows)))))

    def _rewards(self, before: Floats, own: Floats, after: Floats, outcomes: Any) -> Floats:
        """Rewards (m,): 1 for success, -1 for any other end, else 0; if dense, plus the decrease of the cost.

        The negative cost itself would reward every way to end early, including a fall.
        """
        found = np.array([0.0 if end is None else 1.0 if end == "success" else -1.0 for end in outcomes])
        return found + costs(self.task, before, own) - costs(self.task, after, own) if self._dense else found

    def _strata_of(self, states: Floats) -> Ints:
        """The strata (n,) of states (n, ds), -1 for none."""
        return np.asarray(self.task.strata.index(np.ascontiguousarray(states[:, self._axes])))

    def _infos(self, outcomes: Any) -> dict[str, Any]:
        names = np.array([*self.task.strata.names, "infeasible"], dtype=object)  # the last one is -1
        strata, configuration = names[self._strata_of(self._states)], self._states[:, self._axes]
        found = {"outcome": outcomes, "stratum": strata, "configuration": configuration, "steps": self._steps}
        return self._placed(np.arange(self.num_envs), found)

    def _executed(self, rows: Ints, before: Floats, own: Floats) -> dict[str, Any]:
        """Info of the environments `rows` (m,) that made a step from states `before` (m, ds) with actions `own` (m, da)."""
        found: dict[str, Any] = {"action": own}
        if self._regions is not None:
            Y = self._states[rows][:, self._axes]
            regions = self._regions.executed_regions(before, own, Y, self._alpha, self._particles)
            q = {name: regions.thresholds[:, m] for m, name in enumerate(self._regions.strata.names)}
            found["region"] = {"held": np.asarray(regions.inside), "thresholds": q, "particles": regions.particles}
        return self._placed(rows, found)

    def _placed(self, rows: Ints, found: dict[str, Any]) -> dict[str, Any]:
        """Values (m, ...) of some environments among zeros for all, (n, ...), each with Gymnasium's mask of those."""
        every: dict[str, Any] = {}
        for name, values in found.items():
            if isinstance(values, dict):
                every[name] = self._placed(rows, values)
            else:
                every[name] = np.zeros((self.num_envs, *values.shape[1:]), dtype=values.dtype)
                every[name][rows] = values
            every[f"_{name}"] = np.isin(np.arange(self.num_envs), rows)
        return every


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit compiled loops to one thread per 256 rows: waking a thread takes longer than a step of one robot."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, rows // 256)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


# -- a task as its environments present it --------------------------------------------------------------------------------


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
