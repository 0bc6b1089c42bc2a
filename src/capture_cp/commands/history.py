"""Batches that a calibration was checked on, one after another: false alarms are limited over all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capture_cp.base.arrays import digest, digest_of_chunks
from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.capture.capture import Capture
from capture_cp.capture.monitor import Monitor


@dataclass
class History:
    """A monitor that continues from batch to batch, and the batches it has seen.

    The martingale of the monitor can be checked as often as you like: its false alarms are limited over all time. The other
    questions of a check are tests of one batch, and their p-values share the draw of the calibration set, so that they can
    neither be multiplied nor bet on. They are given a share 1 / (b (b + 1)) of their level at batch b instead. These shares
    add up to 1, so whatever the dependence, a test raises a false alarm ever with probability at most its level (the union
    bound). Late batches must deviate more than early ones to raise such an alarm, though not by much: the level enters the
    deviation as the root of its logarithm. A small change that lasts is found by the martingale.

    Attributes:
        monitor: bets on all scores so far.
        level: false-alarm rate of all questions and batches together.
        batches: rows and digest of each batch so far.
        alarm: what the first alarm was about, and its batch; None while there is none.
    """

    monitor: Monitor
    level: float
    batches: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None

    @classmethod
    def begun_or_continued(cls, file: Path, cap: Capture, level: float, seed: int) -> History:
        """The history in the file, which must be of that calibration, or a new one if there is no such file."""
        if not file.exists():
            return cls(Monitor(cap, seed), level)
        try:
            monitor = Monitor.load(file, cap)
            found = cls(monitor, *_checked(monitor.notes, file))
        except CaptureError as error:
            raise CaptureError(f"{error} To begin anew, give --history the name of a new file.") from None
        if found.level != level:
            raise CaptureError(f"history {file} was begun with --alarm {found.level:g}, not {level:g}; use the same value.")
        return found

    @property
    def share(self) -> float:
        """The fraction of the level that a test of the next batch gets."""
        number = len(self.batches) + 1
        return 1.0 / (number * (number + 1))

    def check_new(self, n: int, digests: Sequence[str], beginning: tuple[Floats, Floats]) -> None:
        """Reject a batch of n transitions that is, or begins with, one that was checked before.

        `digests` are those of its chunks, `beginning` inputs and outcomes of the first: a longer batch is known as a whole.
        """
        X, Y = beginning
        beginnings = {rows: digest(X[:rows], Y[:rows]) for rows in {seen["rows"] for seen in self.batches} if rows <= len(X)}
        beginnings[n] = digest_of_chunks(digests)
        for number, seen in enumerate(self.batches, 1):
            if beginnings.get(seen["rows"]) == seen["sha256"]:
                what = "are" if seen["rows"] == n else f"begin with the {seen['rows']:,} of"
                raise CaptureError(
                    f"these transitions {what} batch {number} of the history, which was checked before; give new ones."
                )

    def add(self, n: int, digests: Sequence[str], alarms: str) -> None:
        """Remember a batch of n transitions that was checked, and what its alarms were about, if there were any."""
        self.batches.append({"rows": n, "sha256": digest_of_chunks(digests)})
        if alarms and self.alarm is None:
            self.alarm = {"batch": len(self.batches), "about": alarms}

    def save(self, file: Path) -> None:
        """Write it to the file, completely or not at all."""
        self.monitor.notes = {"level": self.level, "batches": self.batches, "alarm": self.alarm}
        self.monitor.save(file)


def _checked(notes: Mapping[str, Any], file: Path) -> tuple[float, list[dict[str, Any]], dict[str, Any] | None]:
    """Level, batches and first alarm out of the notes of a file, which may hold anything."""
    if not notes:
        raise CaptureError(f"{file} was written by Monitor.save and not by capture check, so its batches are unknown.")
    try:
        level, alarm = float(notes["level"]), notes["alarm"]
        batches = [{"rows": whole_number("rows", one["rows"], 1), "sha256": str(one["sha256"])} for one in notes["batches"]]
        if alarm is not None:
            alarm = {"batch": whole_number("batch", alarm["batch"], 1), "about": str(alarm["about"])}
    except (KeyError, TypeError, ValueError) as error:
        raise CaptureError(f"history {file} is damaged ({error}).") from None
    return level, batches, alarm
