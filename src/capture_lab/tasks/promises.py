"""Coverage guarantees for a planner's episodes: an ordinary calibration compared with one made for the guarantee.

All are measured on fresh episodes of the same planner, and an episode is one trial. See `capture_cp.planning.chosen` and
`capture_cp.planning.braking` for why the calibrations made for a guarantee are valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, CaptureError
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.on_policy import on_policy_coverage
from capture_cp.conformal.coverage import CoverageRow, tally
from capture_cp.conformal.groups import Groups, OneGroup
from capture_cp.data.rollouts import Rollouts
from capture_cp.planning.chosen import Which, chosen_rollouts
from capture_cp.planning.episode import Episode
from capture_lab.tasks.practice import on_episodes
from capture_lab.tasks.rows import FittedRow
from capture_lab.tasks.task import Task


class Played(NamedTuple):
    """Episodes of one planner, with different seeds for calibration and test."""

    calibration: Sequence[Episode]
    tests: Sequence[Episode]


@dataclass(frozen=True)
class Promise:
    """A guarantee, and how often it held in the test episodes.

    Attributes:
        name: the guarantee in words.
        target: how often it must hold.
        ordinary: how often it held with regions calibrated for something else.
        calibrated: how often it held with regions calibrated for this guarantee.
        examples: number of episodes that the latter were calibrated on.
    """

    name: str
    target: float
    ordinary: CoverageRow
    calibrated: CoverageRow
    examples: int

    def rows(self, **labels: Any) -> list[dict[str, Any]]:
        """Two JSON-ready records, with `labels` in front."""
        both = {"ordinary": self.ordinary, "calibrated": self.calibrated}
        return [
            labels
            | {
                "promise": self.name,
                "regions": regions,
                "target": self.target,
                "coverage": row.coverage if row.n else None,
                "ci95": list(row.ci95) if row.n else None,
                "n": row.n,
                "examples": self.examples,
            }
            for regions, row in both.items()
        ]


@dataclass(frozen=True)
class Promises:
    """The guarantees for a row's planner, one method each.

    Attributes:
        fitted: the row, with one-step regions.
        alpha: failure rate of all regions.
        seed: draws steps, particles and the noise of open-loop plans.
    """

    fitted: FittedRow
    alpha: float = 0.1
    seed: int = 0

    def executed_step(self, runs: Played) -> Promise:
        """A random step of an episode lies in its region."""
        task, first = self.fitted.task, self._one_step
        caps = first, on_episodes(task, first, runs.calibration)
        ordinary, calibrated = (
            on_policy_coverage(cap, runs.tests, task.axes, self.alpha, self._seed("executed")).all for cap in caps
        )
        return Promise("one executed step", 1 - self.alpha, ordinary, calibrated, len(runs.calibration))

    def all_executed_steps(self, runs: Played) -> Promise:
        """All steps of an episode lie in their regions; compared with regions calibrated for one executed step."""
        task, rng = self.fitted.task, self._seed("executed")
        cap = on_episodes(task, self._one_step, runs.calibration)
        ordinary, found = (
            on_policy_coverage(cap, runs.tests, task.axes, self.alpha, rng, simultaneous=together)
            for together in (False, True)
        )
        return Promise("all executed steps", 1 - self.alpha, ordinary.together, found.together, len(runs.calibration))

    def chosen_plan(self, runs: Played, ahead: HorizonCapture) -> tuple[Promise, HorizonCapture]:
        """All steps of a chosen plan, executed open loop, lie in their regions; also returns regions calibrated for this.

        `ahead` has ordinary regions of a horizon, calibrated on random actions.
        """
        return self._of_plans("all steps of the plan that was chosen", runs, ahead, None)

    def passed_plan(self, runs: Played, judge: HorizonCapture) -> tuple[Promise, HorizonCapture] | None:
        """The same for plans that passed a filter with the regions of `judge`; `runs` were played with that filter.

        None if no plan has passed, in calibration or in test episodes.
        """
        if any(all(run.braked.all() for run in part) for part in runs):
            return None
        return self._of_plans("all steps of a plan that passed the brake", runs, judge, "passed")

    def _of_plans(
        self, name: str, runs: Played, ordinary: HorizonCapture, which: Which | None
    ) -> tuple[Promise, HorizonCapture]:
        log, fresh = (self._rollouts(part, purpose, which) for part, purpose in zip(runs, ("log", "fresh")))
        cap, seed = chosen_capture(ordinary, log), self._seed("plans")
        before, after = (
            one.coverage(fresh, self.alpha, simultaneous=True, volumes=False, rng=seed).together for one in (ordinary, cap)
        )
        return Promise(name, 1 - self.alpha, before, after, len(log)), cap

    def _rollouts(self, runs: Sequence[Episode], purpose: str, which: Which | None) -> Rollouts:
        """One chosen plan per episode, executed by the true system."""
        task, rng = self.fitted.task, stream(self.seed, "chosen", purpose, which or "all")
        return chosen_rollouts(runs, task.true_step, task.axes, rng, which=which)

    @property
    def _one_step(self) -> Capture:
        cap = self.fitted.cap
        if isinstance(cap, Capture):
            return cap
        raise CaptureError("guarantees on executed steps need one-step regions; use a row without regions for a horizon.")

    def _seed(self, purpose: str) -> int:
        return derived_seed(self.seed, "promises", purpose)


def chosen_capture(like: HorizonCapture, rollouts: Rollouts, groups: Groups | None = None) -> HorizonCapture:
    """Regions like those of `like` and for the same steps, calibrated on rollouts of chosen plans, too few for a tree.

    The tree is replaced by one group per step, or by `groups`. The simultaneous guarantee is not by stratum, and a planner
    avoids some strata: by stratum their thresholds would be infinite, and a filter would brake for any hazard in them.
    """
    settings = like.get_params(deep=False) | {"groups": groups or OneGroup()}
    return HorizonCapture(**settings).fit(rollouts, steps=like.steps_)


def can_branch(task: Task) -> bool:
    """Whether the true system can continue from any state of an episode, which open-loop plans need."""
    return type(task).true_step is not Task.true_step


def share(held: Bools) -> CoverageRow:
    """The fraction of independent trials (n,) that held, with an exact interval."""
    return tally(["all"], np.zeros(len(held), dtype=np.int64), held, None, None)[0]
