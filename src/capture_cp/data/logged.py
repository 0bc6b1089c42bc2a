"""A log on disk as transitions that are read in pieces, so that it may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.base.files import Pathlike
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.data.source import Columns, LogSource, Table, expanded, known_column, limits, open_log
from capture_cp.data.transitions import TransitionLog, Transitions, check_distinct, check_order, no_episode

#: The clocks of a bag that can order its messages.
CLOCKS = ("received", "header")


class LoggedTransitions(TransitionLog):
    """A log on disk as transitions. Only the positions of its episodes are held in memory; it can be pickled.

    The arguments are those of `read_transitions`. With `following`, the last `steps` rows of an episode are dropped, the
    rows of an episode must be consecutive, and the columns are called next_<name>; without `episode`, each file (each bag,
    each demonstration) is one episode. Of several steps the actions of all are inputs, called <name>, <name>+1, ...

    Attributes:
        dropped: number of rows dropped because they are the last of their episode.
    """

    def __init__(
        self,
        path: Pathlike,
        state: Columns,
        action: Columns,
        next: Columns | None = None,
        episode: str | None = None,
        time: str | None = None,
        following: Columns | None = None,
        clock: str = CLOCKS[0],
        steps: int = 1,
    ) -> None:
        follows = following is not None
        if (next is None) != follows:
            given = "both" if follows else "neither"
            raise CaptureError(
                f"{given} of next and following are set; name either the columns of the next configuration, or the columns "
                "that contain it in the following row."
            )
        if whole_number("steps", steps, 1) > 1 and not follows:
            raise CaptureError(f"steps is {steps}, but columns of the next configuration are one step ahead; use following.")
        last = following if follows else next
        self._source = open_log(path, episode).arranged(
            [*_listed(state), *_listed(action), *_listed(last), *([time] if time is not None else [])],
            rows_of=[*_listed(action), *_listed(state)][0],
            after=_listed(last) if follows else (),
            clock=known_name("clock", clock, CLOCKS),
        )
        columns = self._source.columns()
        self.state_names = expanded(path, "state", state, columns)
        self._action = expanded(path, "action", action, columns) if _listed(action) else ()  # none of a passive object
        self.action_names = tuple(f"{name}+{step}" if step else name for step in range(steps) for name in self._action)
        self._after = expanded(path, "following" if follows else "next", last or (), columns)
        self.next_names = tuple(f"next_{name}" for name in self._after) if follows else self._after
        check_distinct(self.state_names + self.action_names + self.next_names)
        self.path, self._lost = path, steps if follows else 0
        self._episode, self._time = episode, time
        self.episode_name, self.time_name = episode or "episode", time or "time"
        self._index()

    def _index(self) -> None:
        """Find the episodes, check the order of times, and count the transitions of every run of rows."""
        whole = Runs(np.array([0, self._source.rows]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        runs = whole if self._episode is None else runs_of(self._source, self._episode)
        if self._time is not None:
            known_column(self.path, self._time, self._source.columns(), text=False)
            check_order(times_of(self._source, runs, self._time), self._time)
        self.dropped = 0
        if self._lost:
            if self._episode is not None:
                runs.check_together(self._source, self._episode)
            parts = self._source.parts() if self._episode is None else runs.starts[:-1]
            self.dropped = len(parts) * self._lost
            starts = np.union1d(np.union1d(parts, runs.starts), self._source.breaks() + 1)
            runs = Runs(starts, runs.at(starts[:-1]), runs.labels)
        counts = np.maximum(np.diff(runs.starts) - self._lost, 0)
        present = np.unique(runs.numbers[counts > 0])  # episodes without transitions are not counted
        self._runs = Runs(runs.starts, np.searchsorted(present, runs.numbers), runs.labels[present])
        self._begins: Ints = np.concatenate([[0], np.cumsum(counts)])
        if len(self) == 0:
            few = "two consecutive rows" if self._lost < 2 else f"{self._lost + 1} consecutive rows"
            raise CaptureError(f"{self.path} has no {few} of one episode, so it has no transitions.")

    def __len__(self) -> int:
        return int(self._begins[-1])

    def episodes(self) -> Ints | None:
        return None if self._episode is None else np.repeat(self._runs.numbers, np.diff(self._begins))

    def notes(self) -> list[str]:
        """One sentence for each omission or irregularity of the log."""
        rows = "row" if self.dropped == 1 else "rows"
        which = "the last of each episode has" if self._lost == 1 else f"the last {self._lost} of each episode have"
        last = [f"{self.dropped:,} {rows} dropped: {which} no next configuration."] if self.dropped else []
        return [*last, *self._source.notes()]

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[Transitions]:
        """Transitions from `start` to `stop`, in order, at most 65,536 at a time; all numbers are checked to be finite."""
        begin, end = limits(len(self), start, stop)
        if begin == end:
            return
        ends = np.array([begin, end - 1])
        run = np.searchsorted(self._begins, ends, "right") - 1
        first, last = self._runs.starts[run] + ends - self._begins[run]  # rows
        inputs = [*self.state_names, *self._action]
        names = list(dict.fromkeys([*inputs, *self._after, *([self._time] if self._time is not None else [])]))
        held: Table = {}
        row = int(first)
        for table in self._source.pieces(names, row, int(last) + 1 + self._lost):
            if held:
                table = {name: np.concatenate([held[name], table[name]]) for name in names}
            n = max(len(table[names[0]]) - self._lost, 0)
            if n:
                kept = self._kept(row, row + n)
                if len(kept):
                    yield self._transitions(table, kept - row, begin)
                begin += len(kept)
            row += n
            held = {name: column[n:] for name, column in table.items()} if self._lost else {}

    def read(self) -> Transitions:
        """All transitions, in memory."""
        self._source.check_whole([*self.state_names, *self.action_names, *self._after])
        n, at = len(self), 0
        X, after = (np.empty((n, len(names))) for names in (self.X_names, self.next_names))
        time = None if self._time is None else np.empty(n)
        for piece in self.pieces():
            rows = slice(at, at := at + len(piece))
            X[rows], after[rows] = piece.X, piece.next
            if time is not None:
                time[rows] = piece.time
        self._source.release()
        numbers = self.episodes()
        named = None if numbers is None else self._runs.labels[numbers]
        return self._named(X, after, named, time)

    def _kept(self, low: int, high: int) -> Ints:
        """The rows from low to high that begin a transition, (n,)."""
        rows = np.arange(low, high)
        if not self._lost:
            return rows
        ends = self._runs.starts[1:][np.searchsorted(self._runs.starts[1:], rows, "right")]
        return rows[ends - rows > self._lost]

    def _transitions(self, table: Table, kept: Ints, begin: int) -> Transitions:
        """Transitions of the rows `kept` (n,) of a table whose first row is number `begin`."""
        first, n = int(kept[0]), len(kept)
        whole = int(kept[-1]) - first + 1 == n

        def numbers(wanted: list[tuple[str, int]]) -> Floats:
            """Columns, each so many rows ahead."""
            values = np.empty((n, len(wanted)))
            for i, (name, ahead) in enumerate(wanted):
                values[:, i] = table[name][slice(first + ahead, first + ahead + n) if whole else kept + ahead]
            finite = np.isfinite(values)
            if not finite.all():
                name, ahead = wanted[int(np.argmin(finite.all(axis=0)))]
                raise not_finite(self._source, name, lambda a, b: self._kept(max(a - ahead, 0), b - ahead) + ahead)
            return values

        actions = [(name, step) for step in range(max(self._lost, 1)) for name in self._action]
        X = numbers([*((name, 0) for name in self.state_names), *actions])
        after = numbers([(name, self._lost) for name in self._after])
        named = None
        if self._episode is not None:
            run = np.searchsorted(self._begins, np.arange(begin, begin + n), "right") - 1
            named = self._runs.labels[self._runs.numbers[run]]
        time = None if self._time is None else table[self._time][kept].astype(np.float64)
        return self._named(X, after, named, time)

    def _named(self, X: Floats, after: Floats, episode: npt.NDArray[Any] | None, time: Floats | None) -> Transitions:
        state, action = np.split(X, [len(self.state_names)], axis=1)
        names = self.state_names, self.action_names, self.next_names
        return Transitions(state, action, after, *names, episode, time, self.episode_name, self.time_name)


def _listed(given: Columns | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


# -- episodes, found in one scan of one column ----------------------------------------------------------------------------


class Runs(NamedTuple):
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


def runs_of(source: LogSource, episode: str) -> Runs:
    """The runs of a log by the column that names the episode of each row, in numbers or text."""
    known_column(source.path, episode, source.columns())
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
        raise no_episode(episode, missing, row, first)
    names = np.concatenate(values)
    if names.dtype.kind == "U":  # integers if all of them are, so that 9 comes before 10
        words, number = np.unique(names, return_inverse=True)
        with suppress(ValueError, OverflowError):
            words = np.array([int(word) for word in words.tolist()], dtype=np.int64)
        names = words[number]
    return Runs(np.concatenate([*starts, [row]]), episode_numbers(names, len(names)), np.unique(names))


def times_of(source: LogSource, runs: Runs, time: str) -> Iterator[tuple[Floats, Ints]]:
    """The times (n,) of every piece, all finite, and the episode numbers (n,) of its rows."""
    row = 0
    for table in source.pieces([time]):
        times = table[time].astype(np.float64)
        if not np.isfinite(times).all():
            raise not_finite(source, time)
        yield times, runs.at(np.arange(row, row + len(times)))
        row += len(times)


def not_finite(source: LogSource, name: str, rows: Callable[[int, int], Ints] | None = None) -> CaptureError:
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
