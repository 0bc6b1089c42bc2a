"""A live episode, step by step, and the contents of one frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.planning.episode import TIMED_OUT, episode_seeds
from capture_cp.planning.mppi import MPPI
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.viewer.view import View
from capture_lab.tasks.rows import FittedRow
from capture_lab.tasks.scene import PlanStep, Scene, Snapshot
from capture_lab.tasks.task import Task


@dataclass(frozen=True)
class Moment:
    """The episode at one time.

    Attributes:
        state: (ds,).
        plan: actions from here on, (H, da); empty when the episode is over.
        trail: states so far, the current one last, (t + 1, ds).
        outcome: how the episode ended, or None.
        plan_ms: time spent on the plan.
        particles: recorded particles of the first step (L, dc), or None.
        outside: whether each state of the trail was outside the region of its step, (t + 1,); None if unknown.
    """

    state: Floats
    plan: Floats
    trail: Floats
    outcome: str | None = None
    plan_ms: float | None = None
    particles: Floats | None = None
    outside: Bools | None = None


@dataclass(frozen=True)
class Landing:
    """The end of a step of the true system: its regime, -1 if infeasible, and whether it is inside the region."""

    regime: int
    inside: bool


class Run:
    """Plans with a calibrated method and acts on the true system; if nothing is changed, the same as `run_episode`.

    Attributes:
        now: the latest moment; replaced as a whole, so that other threads can read it at any time.
        pure: whether all steps were planned with the same settings.
    """

    def __init__(self, fitted: FittedRow, settings: View, start: Floats, episode: int) -> None:
        self.fitted, self.settings, self.pure = fitted, settings, True
        self.task = task = fitted.task
        self._seed, noise = episode_seeds(settings.seed, task.place, episode)
        self._planner = self._planner_of(fitted, settings)
        self._act, self._rng, self._particles = task.closed_loop(start), stream(noise, "system"), stream(noise, "question")
        self._trail, self._outside = [start], [False]
        self.now = self._think()

    def retune(self, fitted: FittedRow, settings: View) -> None:
        """Continue with another method or other settings, from the plan so far if it has the same length."""
        planner = self._planner_of(fitted, settings)
        if planner.nominal.shape == self._planner.nominal.shape:
            planner.nominal = self._planner.nominal
        self.fitted, self.settings, self._planner, self.pure = fitted, settings, planner, False
        self.now = self._think()

    def step(self) -> Landing:
        """Execute the first action of the plan, and plan again from the new state."""
        before, action = self._trail[-1], self.now.plan[0]
        after, outcome = self._act(before.copy(), action.copy(), self._rng)
        self._trail.append(after)
        if outcome is None and len(self._trail) > self.task.max_steps:
            outcome = TIMED_OUT
        Y = after[list(self.task.axes)][None]
        found = self.fitted.executed.executed_regions(
            before[None], action[None], Y, self.settings.alpha, rng=self._particles
        )
        landing = Landing(int(regimes_of(self.task, Y)[0]), bool(found.inside[0]))
        self._outside.append(not landing.inside)
        self.now = self._think() if outcome is None else self._over(outcome)
        return landing

    def _planner_of(self, fitted: FittedRow, settings: View) -> MPPI:
        return fitted.task.planner(fitted.cap, settings.planner, settings.weights, settings.alpha, self._seed)

    def _think(self) -> Moment:
        began = perf_counter()
        self._planner.plan(self._trail[-1])
        spent = 1e3 * (perf_counter() - began)
        plan, trail, outside = self._planner.nominal.copy(), np.array(self._trail), np.array(self._outside)
        return Moment(self._trail[-1], plan, trail, plan_ms=spent, outside=outside)

    def _over(self, outcome: str) -> Moment:
        trail, outside = np.array(self._trail), np.array(self._outside)
        return Moment(self._trail[-1], self.now.plan[:0], trail, outcome, outside=outside)


def regimes_of(task: Task, Y: Floats) -> Ints:
    """The regime of every configuration Y (n, dc), -1 where infeasible: (n,)."""
    return np.asarray(np.append(task.stratum_regimes, INFEASIBLE)[task.strata.index(Y)])


@dataclass
class Tally:
    """Running counts of one method: outcomes of episodes, and steps by the regime they ended in."""

    landed: Ints
    held: Ints
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Frame:
    """Everything that is drawn at one time.

    Attributes:
        mode: "by hand", "live" or "replay".
        plans: steps ahead with their regions, by method; only of methods that are calibrated.
        waiting: methods that are still being calibrated.
        progress: progress of a running calibration, in words.
        time, steps: of the replay, or of the live episode.
        practice: by method, runs of this planner on which the regions of executed steps are calibrated; 0 if they are
            calibrated on other transitions, or if the settings differ from those of the runs.
    """

    settings: View
    scene: Scene
    mode: str
    moment: Moment
    plans: Mapping[str, list[PlanStep]]
    waiting: tuple[str, ...]
    progress: str
    tallies: Mapping[str, Tally]
    time: int
    steps: int
    episode: int
    practice: Mapping[str, int] = field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """The part that a scene draws."""
        return Snapshot(self.moment.state, self.moment.trail, self.plans, self.moment.outside)
