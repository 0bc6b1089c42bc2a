"""An episode that is planned live, step by step, with settings that may change on the way."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.planning.episode import TIMED_OUT, episode_seeds
from capture_cp.planning.mppi import MPPI
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.studies.view import TaskView
from capture_lab.tasks.moment import Moment
from capture_lab.tasks.rows import FittedRow
from capture_lab.tasks.task import Task


class Run:
    """Plans with a calibrated method and acts on the true system; if nothing is changed, the same as `run_episode`.

    Attributes:
        now: the latest moment; replaced as a whole, so that other threads can read it at any time.
        pure: whether all steps were planned with the same settings.
    """

    now: Moment

    def __init__(self, fitted: FittedRow, settings: TaskView, start: Floats, episode: int) -> None:
        self.task, self.pure = fitted.task, True
        self._seed, noise = episode_seeds(settings.seed, self.task.place, episode)
        self._act = self.task.closed_loop(start)
        self._rng, self._particles = stream(noise, "system"), stream(noise, "question")
        self._trail, self._missed = [start], [False]
        self._use(fitted, settings)

    def retune(self, fitted: FittedRow, settings: TaskView) -> None:
        """Continue with another method or other settings, from the plan so far if it has the same length."""
        self.pure = False
        self._use(fitted, settings, self._planner.nominal)

    def step(self) -> tuple[int, bool]:
        """Execute the first action and plan again; returns the regime where it ended, and whether inside its region."""
        before, action = self._trail[-1], self.now.plan[0]
        after, outcome = self._act(before.copy(), action.copy(), self._rng)
        self._trail.append(after)
        if outcome is None and len(self._trail) > self.task.max_steps:
            outcome = TIMED_OUT
        Y, alpha = after[list(self.task.axes)][None], self.settings.alpha
        found = self.fitted.executed.executed_regions(before[None], action[None], Y, alpha, rng=self._particles)
        inside = bool(found.inside[0])
        self._missed.append(not inside)
        self.now = self._think() if outcome is None else self._moment(self.now.plan[:0], outcome)
        return int(regimes_of(self.task, Y)[0]), inside

    def _use(self, fitted: FittedRow, settings: TaskView, plan: Floats | None = None) -> None:
        self.fitted, self.settings = fitted, settings
        planning = settings.planner, settings.weights, settings.alpha, self._seed
        self._planner: MPPI = fitted.task.planner(fitted.cap, *planning)
        if plan is not None and plan.shape == self._planner.nominal.shape:
            self._planner.nominal = plan
        self.now = self._think()

    def _think(self) -> Moment:
        began = perf_counter()
        self._planner.plan(self._trail[-1])
        return self._moment(self._planner.nominal.copy(), plan_ms=1e3 * (perf_counter() - began))

    def _moment(self, plan: Floats, outcome: str | None = None, plan_ms: float | None = None) -> Moment:
        return Moment(self._trail[-1], np.array(self._trail), np.array(self._missed), plan, outcome, plan_ms)


def regimes_of(task: Task, Y: Floats) -> Ints:
    """The regime of every configuration Y (n, dc), -1 where infeasible: (n,)."""
    return np.asarray(np.append(task.stratum_regimes, INFEASIBLE)[task.strata.index(Y)])
