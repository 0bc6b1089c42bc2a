"""A log seen through a calibration: its episodes, the region of each step, its true outcome, and coverage so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, printable, shortened
from capture_cp.base.streams import derived_seed
from capture_cp.capture.region_draws import particles_of
from capture_cp.commands.robot import Robot
from capture_cp.conformal.coverage import Count
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.data.transitions import Transitions
from capture_cp.report.space import Step
from capture_cp.spaces.strata import INFEASIBLE

#: Rows of a block, where a log has no episodes; and how many names a message lists.
BLOCK, LISTED = 500, 12
#: Steps per second where the log does not tell, and between which others are kept.
RATE, SLOWEST, FASTEST = 4.0, 0.5, 30.0
#: Failure rates whose results are cached.
MOST_ASKED = 32


@dataclass(frozen=True)
class Runs:
    """Parts of a log by name, in the order in which they begin.

    Attributes:
        log: all of its transitions.
        rows: row numbers (n,) of each part, in order.
        calibrated_on: whether this is the log of the calibration itself.
    """

    log: Transitions
    rows: Mapping[str, Ints]
    calibrated_on: bool

    @classmethod
    def of(cls, log: Transitions, calibrated_on: bool = False) -> Runs:
        """Its episodes by name, or blocks of rows."""
        if log.episode is None:
            blocks = [np.arange(first, min(first + BLOCK, len(log))) for first in range(0, len(log), BLOCK)]
            return cls(log, {rows_name(rows): rows for rows in blocks}, calibrated_on)
        numbers = episode_numbers(log.episode, len(log))
        order = np.argsort(numbers, kind="stable")
        parts = sorted(np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1), key=lambda rows: int(rows[0]))
        return cls(log, {_text(log.episode[rows[0]]): rows for rows in parts}, calibrated_on)

    @property
    def episodes(self) -> bool:
        """Whether the parts are episodes; otherwise rows follow one another by chance."""
        return self.log.episode is not None

    @cached_property
    def rate(self) -> float:
        """Steps per second: of the log's times, or a pace that is easy to follow."""
        if self.log.time is None:
            return RATE
        gaps = np.concatenate([np.diff(self.log.time[rows]) for rows in self.rows.values()])
        gaps = gaps[gaps > 0]
        return float(np.clip(1 / np.median(gaps), SLOWEST, FASTEST)) if len(gaps) else RATE

    def named(self, name: str) -> Ints:
        """The rows (n,) of an episode; for an unknown one the error lists those that exist."""
        if name in self.rows:
            return self.rows[name]
        if not self.episodes:
            raise CaptureError(f"the log has no episodes, so there is none called {name!r}; give --rows START:STOP instead.")
        there = ", ".join(shortened(printable(one), 30) for one in [*self.rows][:LISTED])
        more = f" and {len(self.rows) - LISTED:,} more" if len(self.rows) > LISTED else ""
        raise CaptureError(f"there is no episode {shortened(name)!r} in the log; there are {there}{more}.")

    def chosen(self, given: str) -> Ints:
        """The rows (n,) that START:STOP stands for, counted from 1, the last included; either may be left out."""
        parts = given.split(":")
        if len(parts) != 2 or not all(part == "" or part.isdecimal() for part in parts):
            raise CaptureError(f"rows are {shortened(given)!r}; expected START:STOP, such as 1:100.")
        first, last = int(parts[0] or 1), int(parts[1] or len(self.log))
        if not 1 <= first <= last <= len(self.log):
            raise CaptureError(
                f"rows are {first}:{last}; expected two of the log's rows in order, from 1 to {len(self.log)}."
            )
        return np.arange(first - 1, last)


def rows_name(rows: Ints) -> str:
    """What consecutive rows are called: counted from 1, as in messages about data rows."""
    return f"rows {rows[0] + 1} to {rows[-1] + 1}"


def _text(value: Any) -> str:
    """An episode's name in words: 3.0 is called 3."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def by_hand(robot: Robot, x: Floats, alpha: float, seed: int) -> Step:
    """The region of an input x (dx,) that a person chose; its true outcome is unknown."""
    model: Any = robot.cap.model
    x = model.nearest(x) if "gap" in robot.facts else x  # whose steps are whole numbers
    region = robot.cap.region(x, alpha, robot.confidence, rng=seed)
    none = np.empty((0, robot.cap.n_outputs_))
    return Step(region, particles_of(region.prediction), robot.start_of(x), None, None, none)


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
        self.X, self.Y, self._seed = part.X, part.Y, derived_seed(seed, int(rows[0]))
        self.labels = robot.cap.index(self.Y)
        self.inside = lru_cache(MOST_ASKED)(self._inside)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def ready(self) -> bool:
        """Whether the model has been called."""
        return "prediction" in vars(self)

    @cached_property
    def prediction(self) -> Any:
        """The model's prediction of every step: for particle scores, particles (n, L, dc)."""
        return self.robot.cap.predict(self.X, self._seed)

    def _inside(self, alpha: float) -> Bools:
        """Whether each step ended in its region, (n,)."""
        known = {"prediction": self.prediction, "labels": self.labels}
        return self.robot.cap.contains(self.X, self.Y, alpha, self.robot.confidence, **known)

    def look(self, step: int, alpha: float) -> Step:
        """One step, counted from 0."""
        x, robot = self.X[step], self.robot
        region = robot.cap.region(x, alpha, robot.confidence, prediction=self.prediction[[step]])
        held, cloud = bool(self.inside(alpha)[step]), particles_of(region.prediction)
        return Step(region, cloud, robot.start_of(x), self.Y[step], held, self.path(step))

    def path(self, step: int) -> Floats:
        """Configurations up to the start of a step, (t, dc); none if the rows are not one episode."""
        if not self.episode:
            return self.Y[:0]
        before = self.robot.before
        return self.Y[:step] if before is None else self.X[: step + 1][:, list(before)]

    def counts(self, alpha: float, steps: int) -> list[Count]:
        """Coverage of the first `steps` steps: over all, and by stratum if there are several, infeasible ones last."""
        m, held, names = self.labels[:steps], self.inside(alpha)[:steps], self.robot.strata
        parts = {"all": np.ones(len(m), dtype=bool)}
        if len(names) > 1:
            parts |= {name: m == i for i, name in enumerate(names)}
        if (m == INFEASIBLE).any():
            parts["infeasible"] = m == INFEASIBLE
        return [Count(name, int(held[here].sum()), int(here.sum())) for name, here in parts.items()]
