"""Logged steps with a calibration: the region of each, its true outcome, and coverage so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import derived_seed
from capture_cp.capture.region_draws import particles_of
from capture_cp.commands.robot import Robot
from capture_cp.conformal.coverage import Count
from capture_cp.data.transitions import Transitions
from capture_cp.report.space import Step
from capture_cp.spaces.strata import INFEASIBLE

#: Failure rates whose results are cached.
MOST_ASKED = 32


@dataclass(frozen=True, kw_only=True)
class Look(Step):
    """A step of a log with its input x (dx,); the true outcome is unknown for an input that was chosen by hand."""

    x: Floats


def look_by_hand(robot: Robot, x: Floats, alpha: float, seed: int) -> Look:
    """The region of an input x (dx,) that a person chose."""
    x = robot.cap.model.nearest(x) if hasattr(robot.cap.model, "nearest") else x  # whose steps are whole numbers
    region = robot.cap.region(x, alpha, robot.confidence, rng=seed)
    none = np.empty((0, robot.cap.n_outputs_))
    return Look(region, particles_of(region.prediction), robot.start_of(x), None, None, none, x=x)


class Replay:
    """Some rows of a log, step by step.

    The model is called once, when its prediction is first needed. The same seed gives the same prediction.

    Args:
        robot: the calibration.
        log: the log that contains the rows.
        rows: (n,), in order.
        episode: whether the rows are consecutive steps of one episode.
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
        """Whether the model has been called."""
        return self._prediction is not None

    @property
    def prediction(self) -> Any:
        """The model's prediction of every step: for particle scores, particles (n, L, dc)."""
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
        return Look(region, cloud, self.robot.start_of(x), self.Y[step], held, self.path(step), x=x)

    def path(self, step: int) -> Floats:
        """Configurations up to the start of a step, (t, dc); none if the rows are not one episode."""
        if not self.episode:
            return self.Y[:0]
        before = self.robot.before
        return self.Y[:step] if before is None else self.X[: step + 1][:, list(before)]

    def counts(self, alpha: float, steps: int) -> list[Count]:
        """Coverage of the first `steps` steps: over all, and by stratum if there are several, infeasible ones last."""
        m, held = self.labels[:steps], self.inside(alpha)[:steps]
        found = [Count("all", int(held.sum()), len(held))]
        names = self.robot.strata
        if len(names) > 1:
            found += [Count(name, int(held[m == i].sum()), int((m == i).sum())) for i, name in enumerate(names)]
        lost = int((m == INFEASIBLE).sum())
        return [*found, Count("infeasible", int(held[m == INFEASIBLE].sum()), lost)] if lost else found
