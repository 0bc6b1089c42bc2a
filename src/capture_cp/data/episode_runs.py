"""The start and end of each episode of a log, found in one scan of one column and stored as runs of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.data.selection import check_numbers, known_column
from capture_cp.data.source import LogSource


@dataclass(frozen=True)
class Runs:
    """Runs of consecutive rows of one episode, in the order of the log.

    Attributes:
        starts: first row of each run, then the number of rows: (runs + 1,).
        numbers: episode of each run, (runs,), as an index into `labels`.
        labels: names of the episodes in the log, ascending: (episodes,).
    """

    starts: Ints
    numbers: Ints
    labels: npt.NDArray[Any]

    def at(self, rows: Ints) -> Ints:
        """Episode numbers (n,) of rows (n,)."""
        return np.asarray(self.numbers[np.searchsorted(self.starts, rows, "right") - 1])

    def between(self, low: int, high: int) -> Ints:
        """Episode numbers (high - low,) of the rows from low to high."""
        return np.asarray(self.numbers[spread(self.starts, low, high)])

    def check_together(self, source: LogSource, name: str) -> None:
        """Raise an error if an episode continues after another one."""
        first = np.unique(self.numbers, return_index=True)[1]
        if len(first) < len(self.numbers):
            again = int(np.setdiff1d(np.arange(len(self.numbers)), first)[0])
            file, row = source.locate(int(self.starts[again]))
            raise CaptureError(
                f"episode {self.labels[self.numbers[again]]} of column {name!r} begins again in data row {row + 1} of "
                f"{file}, after another one; sort the log by episode and time."
            )


def spread(starts: Ints, low: int, high: int) -> Ints:
    """Which interval each of the numbers from low to high lies in, (high - low,); interval j begins at starts[j]."""
    first, last = int(np.searchsorted(starts, low, "right")) - 1, int(np.searchsorted(starts, high))
    counts: Ints = np.diff(np.clip(starts[first : last + 1], low, high)).astype(np.int64)
    return np.repeat(np.arange(first, last), counts)


def runs_of(source: LogSource, episode: str) -> Runs:
    """The runs of a log by the column that names the episode of each row, in numbers or text."""
    column = known_column(source.path, episode, source.columns())
    if column.kind != "text":
        check_numbers(source.path, column)
    starts: list[Ints] = []
    values: list[npt.NDArray[Any]] = []
    row, missing, first, last = 0, 0, -1, None
    for table in source.pieces([episode]):
        piece = table[episode]
        absent = np.flatnonzero(piece != piece)  # NaN differs from itself
        if len(absent):
            missing, first = missing + len(absent), first if first >= 0 else row + int(absent[0])
        begins = np.concatenate([[last is None or piece[0] != last], piece[1:] != piece[:-1]])
        starts.append(row + np.flatnonzero(begins))
        values.append(piece[begins])
        row, last = row + len(piece), piece[-1]
    if missing:
        raise CaptureError(
            f"{episode} has no value in {missing} of {row} rows, first in data row {first + 1}; it must name the episode of "
            "every row."
        )
    return _runs(source, np.concatenate([*starts, [row]]), np.concatenate(values))


def _runs(source: LogSource, starts: Ints, values: npt.NDArray[Any]) -> Runs:
    if values.dtype.kind == "U":  # integers if all of them are, so that 9 comes before 10
        words, number = np.unique(values, return_inverse=True)
        with suppress(ValueError, OverflowError):
            words = np.array([int(word) for word in words.tolist()], dtype=np.int64)
        values = words[number]
    return Runs(starts, episode_numbers(values, len(values)), np.unique(values))


def one_run(rows: int) -> Runs:
    """All rows as one run."""
    return Runs(np.array([0, rows]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))


def check_order(pieces: Iterable[tuple[Floats, Ints]], time: str) -> None:
    """Raise an error if time goes backwards within an episode: rows are then missing, mixed up, or from several runs.

    `pieces` are the times (n,) of consecutive rows, and the episodes of these as numbers 0, 1, ...: (n,).
    """
    latest, row_of, row = np.empty(0), np.empty(0, dtype=np.int64), 0
    for times, number in pieces:
        new = max(0, int(number.max(initial=-1)) + 1 - len(latest))
        latest, row_of = np.pad(latest, (0, new), constant_values=-np.inf), np.pad(row_of, (0, new))
        rows = np.arange(row, row + len(times))
        order = np.argsort(number, kind="stable")
        same = np.concatenate([[False], np.diff(number[order]) == 0])
        before = np.where(same, np.roll(order, 1), -1)  # position in this piece, or -1 if in an earlier one
        earlier = np.where(same, times[before], latest[number[order]])
        backwards = np.flatnonzero(times[order] < earlier)
        if len(backwards):
            at = backwards[np.argmin(order[backwards])]
            last = rows[before[at]] if same[at] else row_of[number[order[at]]]
            raise CaptureError(
                f"{time} goes backwards within an episode in data row {rows[order[at]] + 1}: {times[order[at]]:g} after "
                f"{earlier[at]:g} in data row {last + 1}; sort the log by time, or name the episode of each row."
            )
        ends = np.concatenate([~same[1:], [True]])
        latest[number[order[ends]]], row_of[number[order[ends]]] = times[order[ends]], rows[order[ends]]
        row += len(times)


def times_of(source: LogSource, runs: Runs, time: str) -> Iterator[tuple[Floats, Ints]]:
    """The times (n,) of every piece, all finite, and the episode numbers (n,) of its rows."""
    row = 0
    for table in source.pieces([time]):
        times = table[time].astype(np.float64)
        if not np.isfinite(times).all():
            raise not_finite(source, time)
        yield times, runs.between(row, row + len(times))
        row += len(times)


def not_finite(source: LogSource, name: str, rows: Any = None) -> CaptureError:
    """The error for a column with missing or non-finite values; `rows(low, high)` are the relevant row numbers (n,)."""
    row, count, first = 0, 0, -1
    for table in source.pieces([name]):
        bad = row + np.flatnonzero(~np.isfinite(table[name].astype(np.float64)))
        row += len(table[name])
        bad = bad if rows is None else bad[np.isin(bad, rows(row - len(table[name]), row))]
        count, first = count + len(bad), first if first >= 0 or not len(bad) else int(bad[0])
    file, at = source.locate(first)
    where = f"{at + 1}" if file == source.path else f"{at + 1} of {file}"
    return CaptureError(
        f"column {name!r} of {source.path} has {count} missing, NaN or infinite values, first in data row {where}; remove "
        "or repair those rows."
    )
