"""Logged steps seen through a calibration: the region of each, where the robot really went, and coverage so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import derived_seed
from capture_cp.capture.region import Region
from capture_cp.capture.region_search import particles_of
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.data.transitions import Transitions
from capture_cp.logs.robot import Robot
from capture_cp.spaces.strata import INFEASIBLE

#: Failure rates whose answers are kept at hand.
MOST_ASKED = 32


@dataclass(frozen=True)
class Look:
    """All that a picture shows of one step.

    Attributes:
        x: the input (dx,).
        region: of the step.
        cloud: the model's particles (L, dc), or the mean (1, dc) of a Gaussian.
        start: the configuration (dc,) before, or None where it is unknown.
        went: where the robot really went (dc,), or None for an input that was chosen by hand.
        inside: whether the region held that, or None.
        path: configurations so far (t, dc); empty where rows are not steps of an episode.
    """

    x: Floats
    region: Region
    cloud: Floats
    start: Floats | None
    went: Floats | None
    inside: bool | None
    path: Floats

    @property
    def middle(self) -> Floats:
        """The configuration (dc,) that a slice goes through: where the robot went, else what the particles say."""
        if self.went is not None:
            return self.went
        return np.asarray(self.cloud[np.argmin(((self.cloud - self.cloud.mean(axis=0)) ** 2).sum(axis=1))])


class Count(NamedTuple):
    """Steps that ended in a stratum, or in any, and how many of them ended in their region."""

    name: str
    held: int
    steps: int

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95% interval of the share, for independent steps."""
        return clopper_pearson(self.held, self.steps) if self.steps else (0.0, 1.0)


def look_by_hand(robot: Robot, x: Floats, alpha: float, seed: int) -> Look:
    """The region of an input x (dx,) that a person chose."""
    region = robot.cap.region(x, alpha, robot.confidence, rng=seed)
    none = np.empty((0, robot.cap.n_outputs_))
    return Look(x, region, particles_of(region.prediction), robot.start_of(x), None, None, none)


class Replay:
    """Some rows of a log, step by step.

    What the model predicts is asked for once, at the first question. It is the same at every call with the same seed.

    Args:
        robot: the calibration.
        log: where the rows are from.
        rows: (n,), in order.
        episode: whether they follow one another.
        seed: of the particles.
    """

    def __init__(self, robot: Robot, log: Transitions, rows: Ints, episode: bool, seed: int = 0) -> None:
        self.robot, self.episode, part = robot, episode, log.rows(rows)
        self.X, self.Y = part.X, part.Y
        self.labels = robot.cap.index(self.Y)
        self._seed, self._prediction = derived_seed(seed, int(rows[0])), None
        self._inside: dict[float, Bools] = {}

    def __len__(self) -> int:
        return len(self.X)

    @property
    def ready(self) -> bool:
        """Whether the model has been asked."""
        return self._prediction is not None

    @property
    def prediction(self) -> Any:
        """What the model predicts at every step: for particle scores, particles (n, L, dc)."""
        if self._prediction is None:
            self._prediction = self.robot.cap.predict(self.X, self._seed)
        return self._prediction

    def inside(self, alpha: float) -> Bools:
        """Whether each step ended in its region, (n,)."""
        if alpha not in self._inside:
            if len(self._inside) >= MOST_ASKED:
                self._inside.clear()
            known = {"prediction": self.prediction, "labels": self.labels}
            self._inside[alpha] = self.robot.cap.contains(self.X, self.Y, alpha, self.robot.confidence, **known)
        return self._inside[alpha]

    def within(self, levels: Floats, alpha: float) -> Bools:
        """Whether configurations `levels` (r, dc) are in the region of each step: (n, r)."""
        labels = np.tile(self.robot.cap.index(levels), (len(self), 1))
        every = np.tile(levels, (len(self), 1, 1))
        known = {"prediction": self.prediction, "labels": labels}
        return self.robot.cap.contains(self.X, every, alpha, self.robot.confidence, **known)

    def look(self, step: int, alpha: float) -> Look:
        """One step, counted from 0."""
        x, cap = self.X[step], self.robot.cap
        region = cap.region(x, alpha, self.robot.confidence, prediction=self.prediction[[step]])
        held = bool(self.inside(alpha)[step])
        cloud = particles_of(region.prediction)
        return Look(x, region, cloud, self.robot.start_of(x), self.Y[step], held, self.path(step))

    def path(self, step: int) -> Floats:
        """Configurations up to the beginning of a step, (t, dc); none where rows do not follow one another."""
        if not self.episode:
            return self.Y[:0]
        before = self.robot.before
        return self.Y[:step] if before is None else self.X[: step + 1][:, list(before)]

    def counts(self, alpha: float, steps: int) -> list[Count]:
        """Coverage of the first `steps` steps: of all, and by stratum where there are several, infeasible ones last."""
        m, held = self.labels[:steps], self.inside(alpha)[:steps]
        found = [Count("all", int(held.sum()), len(held))]
        names = self.robot.strata
        if len(names) > 1:
            found += [Count(name, int(held[m == i].sum()), int((m == i).sum())) for i, name in enumerate(names)]
        lost = int((m == INFEASIBLE).sum())
        return [*found, Count("infeasible", int(held[m == INFEASIBLE].sum()), lost)] if lost else found
