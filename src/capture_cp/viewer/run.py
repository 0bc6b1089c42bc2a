"""One closed-loop episode, a step at a time."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import TIMED_OUT, episode_seeds
from capture_cp.viewer.world import World, kinds_of


@dataclass(frozen=True)
class Moment:
    """What there is to see at one time.

    Attributes:
        state: (ds,).
        plan: actions from here on, (H, da); empty when the episode is over.
        trail: states so far, the present one last, (t + 1, ds).
        outcome: how the episode ended, or None.
        plan_ms: time spent on the plan.
        particles: recorded particles of the first step (L, dc), or None.
    """

    state: Floats
    plan: Floats
    trail: Floats
    outcome: str | None = None
    plan_ms: float | None = None
    particles: Floats | None = None


@dataclass(frozen=True)
class Landing:
    """What a step of the true system has shown: the kind of stratum it ended in, and whether the region held it."""

    kind: int
    inside: bool


class Run:
    """Plans with a calibrated method and acts on the true system; the same episodes as `run_episode`, if left alone.

    Attributes:
        now: the latest moment; replaced as a whole, so that another thread may look at any time.
        pure: whether all steps were planned with the same settings.
    """

    def __init__(self, world: World, cap: Capture, settings: Any, start: Floats, episode: int) -> None:
        self.world, self.cap, self.settings, self.pure = world, cap, settings, True
        self._seed, noise = episode_seeds(settings.seed, world.where, episode)
        self._planner = world.planner(cap, settings, self._seed)
        self._act, self._rng, self._particles = world.system(start), stream(noise, "system"), stream(noise, "question")
        self._trail = [start]
        self.now = self._think()

    def retune(self, cap: Capture, settings: Any) -> None:
        """Go on with another method or other settings, from the plan so far if it is as long."""
        planner = self.world.planner(cap, settings, self._seed)
        if planner.nominal.shape == self._planner.nominal.shape:
            planner.nominal = self._planner.nominal
        self.cap, self.settings, self._planner, self.pure = cap, settings, planner, False
        self.now = self._think()

    def step(self) -> Landing:
        """Do what was planned, see where it leads, and plan again from there."""
        before, action = self._trail[-1], self.now.plan[0]
        after, outcome = self._act(before.copy(), action.copy(), self._rng)
        self._trail.append(after)
        if outcome is None and len(self._trail) > self.world.max_steps:
            outcome = TIMED_OUT
        Y = after[list(self.world.axes)][None]
        inside = self.cap.contains(np.concatenate([before, action])[None], Y, self.settings.alpha, rng=self._particles)
        landing = Landing(int(kinds_of(self.world, self.world.strata.index(Y))[0]), bool(inside[0]))
        self.now = self._think() if outcome is None else self._over(outcome)
        return landing

    def _think(self) -> Moment:
        began = perf_counter()
        self._planner.plan(self._trail[-1])
        spent = 1e3 * (perf_counter() - began)
        return Moment(self._trail[-1], self._planner.nominal.copy(), np.array(self._trail), plan_ms=spent)

    def _over(self, outcome: str) -> Moment:
        return Moment(self._trail[-1], self.now.plan[:0], np.array(self._trail), outcome)
