"""Many true systems at once: through the task's batch, through one call for all, or one by one in threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numba
import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.planning.batch import Systems
from capture_cp.planning.episode import System
from capture_lab.tasks.task import Task

Stepped = tuple[Floats, list[str | None]]


class Fleet(Protocol):
    """The true systems of n runs; any subset of them can be stepped."""

    def place(self, row: int, state: Floats) -> None:
        """Restart run `row` from a state (ds,)."""

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        """Next states (m, ds) and outcomes of the runs `rows` (m,), from states (m, ds) under actions (m, da)."""

    def close(self) -> None:
        """Stop the threads."""


def fleet_of(task: Task, n: int, shared: np.random.Generator) -> Fleet:
    """The stepper of n runs of a task; `shared` draws the noise where runs have no generators."""
    together = task.closed_loops()
    if together is not None:
        return Together(together)
    if type(task).closed_loop is Task.closed_loop:
        return InOneCall(task, shared)
    return EachByItself(task, n)


class Together:
    """Steps runs through the task's batch, with separate noise per run: a run does not depend on the others."""

    def __init__(self, systems: Systems) -> None:
        self._systems = systems

    def place(self, row: int, state: Floats) -> None:
        pass  # the state is all it needs

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        after, outcomes = self._systems(states, actions, rngs)
        return after, list(outcomes)

    def close(self) -> None:
        pass


class InOneCall:
    """Steps runs through one call of the task's `true_step`, with noise from one shared stream."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self._task, self._rng = task, rng

    def place(self, row: int, state: Floats) -> None:
        pass

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        after = np.asarray(self._task.true_step(states, actions, self._rng), dtype=np.float64)
        return after, [self._task.outcome(state) for state in after]

    def close(self) -> None:
        pass


class EachByItself:
    """One closed loop per run, as simulators need, in threads: simulators release Python's lock while they step."""

    def __init__(self, task: Task, n: int) -> None:
        self._task = task
        self._loops: list[System | None] = [None] * n
        # each of these threads handles one row, so its kernels need one thread only
        self._pool = ThreadPoolExecutor(min(n, os.cpu_count() or 1), initializer=numba.set_num_threads, initargs=(1,))

    def place(self, row: int, state: Floats) -> None:
        self._loops[row] = self._task.closed_loop(state)

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        def one(number: int) -> tuple[Floats, str | None]:
            loop = self._loops[int(rows[number])]
            assert loop is not None  # set by reset
            return loop(states[number].copy(), actions[number].copy(), rngs[number])

        found = list(self._pool.map(one, range(len(rows))))
        return np.array([after for after, _ in found], dtype=np.float64), [outcome for _, outcome in found]

    def close(self) -> None:
        self._pool.shutdown()
