"""A log in parts to look at one after another: its episodes, or blocks of rows if it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.arrays import digest, digest_of_chunks
from capture_cp.base.checks import CaptureError, Ints, printable, shortened
from capture_cp.commands.reading import check_fits, made_from, remembered
from capture_cp.commands.robot import Robot, RobotOptions
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.data.transitions import Transitions, chunks_of

#: Rows of a block, where a log has no episodes; and how many names a message lists.
BLOCK, LISTED = 500, 12
#: Steps per second where the log does not tell, and between which others are kept.
RATE, SLOWEST, FASTEST = 4.0, 0.5, 30.0


@dataclass(frozen=True)
class Runs:
    """Parts of a log by name, in the order in which they begin.

    Attributes:
        log: all of its transitions.
        rows: row numbers (n,) of each part, in order.
        episodes: whether the parts are episodes; otherwise rows follow one another by chance.
        calibrated_on: whether this is the log of the calibration itself.
    """

    log: Transitions
    rows: Mapping[str, Ints]
    episodes: bool
    calibrated_on: bool

    @property
    def names(self) -> list[str]:
        return list(self.rows)

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
        there = ", ".join(shortened(printable(one), 30) for one in self.names[:LISTED])
        more = f" and {len(self.rows) - LISTED:,} more" if len(self.rows) > LISTED else ""
        raise CaptureError(f"there is no episode {shortened(name)!r} in the log; there are {there}{more}.")


def read_runs(command: RobotOptions, robot: Robot) -> Runs | None:
    """The log that a command names, by the columns that it names or that the calibration remembers; None without one."""
    if command.log is None:
        return None
    logged = remembered(command, command.calibration, robot.facts, command.log, command.episode_column)
    check_fits(robot.cap, logged, command.log)
    log = logged.read()
    X, Y = log.X, log.Y
    same = digest_of_chunks([digest(X[rows], Y[rows]) for _, rows in chunks_of(len(log))]) in made_from(robot.facts)
    return runs_of(log, same)


def runs_of(log: Transitions, calibrated_on: bool = False) -> Runs:
    """The parts of a log: its episodes by name, in the order in which they begin, or blocks of rows."""
    if log.episode is None:
        starts = range(0, len(log), BLOCK)
        blocks = {rows_name(first, min(first + BLOCK, len(log))): (first, min(first + BLOCK, len(log))) for first in starts}
        return Runs(log, {name: np.arange(*ends) for name, ends in blocks.items()}, False, calibrated_on)
    numbers = episode_numbers(log.episode, len(log))
    order = np.argsort(numbers, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
    parts.sort(key=lambda rows: int(rows[0]))
    return Runs(log, {_text(log.episode[rows[0]]): rows for rows in parts}, True, calibrated_on)


def rows_name(first: int, stop: int) -> str:
    """What rows first .. stop - 1, counted from 0, are called: counted from 1, as in messages about data rows."""
    return f"rows {first + 1} to {stop}"


def chosen_rows(given: str, log: Transitions) -> Ints:
    """The rows (n,) that START:STOP stands for, counted from 1, the last included; either may be left out."""
    parts: Sequence[str] = given.split(":")
    if len(parts) != 2 or not all(part == "" or part.isdecimal() for part in parts):
        raise CaptureError(f"rows are {shortened(given)!r}; expected START:STOP, such as 1:100.")
    first, last = int(parts[0] or 1), int(parts[1] or len(log))
    if not 1 <= first <= last <= len(log):
        raise CaptureError(f"rows are {first}:{last}; expected two of the log's rows in order, from 1 to {len(log)}.")
    return np.arange(first - 1, last)


def _text(value: Any) -> str:
    """An episode's name in words: 3.0 is called 3."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
