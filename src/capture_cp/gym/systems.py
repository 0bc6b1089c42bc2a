"""Many true systems at once: by the task's own batch, by one call for all, or each by itself in threads."""

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
from capture_cp.tasks.task import Task

Stepped = tuple[Floats, list[str | None]]


class Fleet(Protocol):
    """The true systems of n runs, some of which are stepped at a time."""

    def place(self, row: int, state: Floats) -> None:
        """Run `row` begins anew from a state (ds,)."""

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        """Next states (m, ds) and outcomes of the runs `rows` (m,), from states (m, ds) under actions (m, da)."""

    def close(self) -> None:
        """Let go of threads."""


def fleet_of(task: Task, n: int, shared: np.random.Generator) -> Fleet:
    """What steps n runs of a task; `shared` makes the noise where runs have none of their own."""
    together = task.closed_loops()
    if together is not None:
        return Together(together)
    if type(task).closed_loop is Task.closed_loop:
        return InOneCall(task, shared)
    return EachByItself(task, n)


class Together:
    """By the task's own batch, in which every run has its own noise: a run is the same in any company."""

    def __init__(self, systems: Systems) -> None:
        self._systems = systems

    def place(self, row: int, state: Floats) -> None:
        pass  # the state is all there is

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        after, outcomes = self._systems(states, actions, rngs)
        return after, list(outcomes)

    def close(self) -> None:
        pass


class InOneCall:
    """By one call of the task's `true_step`, whose noise all runs share out among them."""

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
    """A closed loop per run, as simulators have it, in threads: they leave Python's lock while they step."""

    def __init__(self, task: Task, n: int) -> None:
        self._task = task
        self._loops: list[System | None] = [None] * n
        # one thread for the kernels of each of these threads: there is one row to each
        self._pool = ThreadPoolExecutor(min(n, os.cpu_count() or 1), initializer=numba.set_num_threads, initargs=(1,))

    def place(self, row: int, state: Floats) -> None:
        self._loops[row] = self._task.closed_loop(state)

    def step(self, rows: Ints, states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> Stepped:
        def one(number: int) -> tuple[Floats, str | None]:
            loop = self._loops[int(rows[number])]
            assert loop is not None  # placed by reset
            return loop(states[number].copy(), actions[number].copy(), rngs[number])

        found = list(self._pool.map(one, range(len(rows))))
        return np.array([after for after, _ in found], dtype=np.float64), [outcome for _, outcome in found]

    def close(self) -> None:
        self._pool.shutdown()
