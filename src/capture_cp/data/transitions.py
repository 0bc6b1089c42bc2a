"""Transitions, in memory or on disk, with named columns for state, action and next configuration; and their chunks.

The chunks of a log are the same whether it is in memory, on disk, or read by several workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest_of_chunks
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, same_length
from capture_cp.base.files import Pathlike
from capture_cp.conformal.drift import MOST_ROWS, column_quantiles
from capture_cp.conformal.episodes import episode_numbers, one_of_each, split_rows
from capture_cp.data.arrays import write_table
from capture_cp.data.source import PIECE, Columns, limits

#: Rows per chunk. The model is called on one chunk at a time, each with its own random numbers.
CHUNK = 65_536
#: Chunks that a worker reads at once: few enough to distribute the work, many enough that files are rarely reopened.
SPAN = 16

Result = TypeVar("Result")
#: `run(work, spans)`: the results of `work(span)`, in order, computed in this process or by workers.
Runner = Callable[[Callable[[Any], Result], Sequence[Any]], Iterator[Result]]


class TransitionLog(ABC):
    """Transitions in memory or on disk, read in pieces: `Transitions` and `LoggedTransitions`."""

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    next_names: tuple[str, ...]
    episode_name: str
    time_name: str

    @property
    def X_names(self) -> tuple[str, ...]:
        return self.state_names + self.action_names

    @abstractmethod
    def __len__(self) -> int:
        """The number of transitions."""

    @abstractmethod
    def episodes(self) -> Ints | None:
        """Episode of every transition as numbers 0, 1, ... in the order of their names, (n,); None if unknown."""

    @abstractmethod
    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[Transitions]:
        """Transitions from `start` to `stop`, in order, at most 65,536 at a time."""


@dataclass(frozen=True)
class Transitions(TransitionLog):
    """Logged transitions: `state` (n, ds), `action` (n, da), `next` (n, dc), and the names of their columns.

    `episode` (n,), numbers or text, is the episode of each transition, `time` (n,) its time; None if unknown.
    """

    state: Floats
    action: Floats
    next: Floats
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    next_names: tuple[str, ...]
    episode: npt.NDArray[Any] | None = None
    time: Floats | None = None
    episode_name: str = "episode"
    time_name: str = "time"

    @classmethod
    def from_arrays(
        cls,
        state: Any,
        action: Any,
        next: Any,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        next_names: Sequence[str] | None = None,
        episode: Any = None,
        time: Any = None,
        episode_name: str = "episode",
        time_name: str = "time",
    ) -> Transitions:
        """Transitions from arrays; unnamed columns are called state_0, action_0, next_0 and so on.

        `episode` (n,) and `time` (n,) are optional; within an episode, rows must be in order of time.
        """
        none = np.ndim(action) == 2 and np.shape(action)[1] == 0  # of a passive object
        widths = {"action": 0 if none else None}
        s, a, c = (finite_array(n, v, (None, widths.get(n)), "(n, d)") for n, v in zip(_ROLES, (state, action, next)))
        same_length("state", s, "action", a)
        same_length("state", s, "next", c)
        named: list[tuple[str, ...]] = []
        for role, part, names in zip(_ROLES, (s, a, c), (state_names, action_names, next_names)):
            named.append(tuple(names if names is not None else [f"{role}_{i}" for i in range(part.shape[1])]))
            if len(named[-1]) != part.shape[1]:
                have = f"{part.shape[1]} columns and {len(named[-1])} names"
                raise CaptureError(f"{role} has {have}; pass one name per column.")
        s_names, a_names, c_names = named
        check_distinct(s_names + a_names + c_names)
        kept = None if episode is None else _checked_episodes(episode, len(s), episode_name)
        when = None if time is None else finite_array("time", time, (len(s),), "(n,): one time per transition")
        if when is not None:
            numbers = np.zeros(len(s), dtype=np.int64) if kept is None else episode_numbers(kept, len(s))
            check_order([(when, numbers)], time_name)
        return cls(s, a, c, s_names, a_names, c_names, kept, when, episode_name, time_name)

    @property
    def X(self) -> Floats:
        """Inputs (n, ds + da): state and action side by side, in a new array."""
        return np.hstack([self.state, self.action])

    @property
    def Y(self) -> Floats:
        """Outputs (n, dc): the next configurations."""
        return self.next

    def __len__(self) -> int:
        return len(self.state)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Every column by name, (n,) each."""
        names = self.state_names + self.action_names + self.next_names
        found: dict[str, npt.NDArray[Any]] = dict(zip(names, np.hstack([self.state, self.action, self.next]).T))
        for name, column in ((self.episode_name, self.episode), (self.time_name, self.time)):
            if column is not None and name not in found:  # the time may be part of the state
                found[name] = column
        return found

    def rows(self, index: Any) -> Transitions:
        """A subset of the transitions, by row numbers or a mask (n,)."""
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = np.flatnonzero(index) if index.dtype == bool else index

        def chosen(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return part[index] if isinstance(index, slice) else part.take(index, axis=0)

        parts: dict[str, Any] = {name: chosen(part) for name, part in self.arrays().items()}
        return replace(self, **parts)

    def arrays(self) -> dict[str, Any]:
        """The fields that have one entry per transition, by name."""
        fields = {name: getattr(self, name) for name in ("state", "action", "next", "episode", "time")}
        return {name: array for name, array in fields.items() if array is not None}

    def episodes(self) -> Ints | None:
        return None if self.episode is None else episode_numbers(self.episode, len(self))

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[Transitions]:
        first, last = limits(len(self), start, stop)
        for row in range(first, last, PIECE):
            yield self.rows(slice(row, min(row + PIECE, last)))

    def split(self, shares: Sequence[float], seed: int = 0) -> tuple[Transitions, ...]:
        """Random parts with these fractions, with a sum of at most 1; parts of whole episodes, if there are episodes."""
        return tuple(self.rows(rows) for rows in split_rows(len(self), shares, self.episode, seed))


_ROLES = ("state", "action", "next")


def check_distinct(names: Sequence[str]) -> None:
    """Raise an error if state, action and next share a column name."""
    if len(set(names)) != len(names):
        raise CaptureError(f"column names {list(names)} repeat; every column of state, action and next needs its own name.")


def _checked_episodes(given: Any, n: int, name: str) -> npt.NDArray[Any]:
    """Episodes (n,), checked to be numbers or text in every row."""
    column = np.asarray(given)
    missing = np.flatnonzero(column != column)  # NaN differs from itself
    if column.shape == (n,) and len(missing):
        raise no_episode(name, len(missing), n, int(missing[0]))
    if column.shape != (n,) or column.dtype.kind not in "US":  # text needs no check, and sorting millions of words is slow
        episode_numbers(column, n)
    return column


def no_episode(name: str, missing: int, rows: int, first: int) -> CaptureError:
    """The error for rows that name no episode, of which `first` is the first one."""
    return CaptureError(
        f"{name} has no value in {missing} of {rows} rows, first in data row {first + 1}; it must name the "
        "episode of every row."
    )


def read_transitions(
    path: Pathlike,
    state: Columns,
    action: Columns,
    next: Columns | None = None,
    episode: str | None = None,
    time: str | None = None,
    following: Columns | None = None,
    clock: str = "received",
) -> Transitions:
    """Read all transitions of a log into memory.

    Args:
        path: a .parquet, .npz, .csv, .mcap, .db3, .bag or .hdf5 file, a folder of files of one format, a LeRobot data set, a
            rosbag2 folder, or a pattern with * or ?.
        state: names of the state's columns, in order: a whole column, one entry, name[3], or a slice, name[0:7]. The entries
            of a column of lists, and of a two-dimensional array in an npz file, are then called name_0, name_1 and so on.
        action: names of the action's columns.
        next: names of the next configuration's columns.
        episode: name of the column with the episode of each row, as numbers or text.
        time: name of the time column, which must not go backwards within an episode.
        following: instead of `next`: columns that contain the next configuration in the following row of the same episode.
        clock: for a bag, "received" or "header": the time stamps that order its messages.
    """
    from capture_cp.data.logged import LoggedTransitions  # which makes transitions

    return LoggedTransitions(path, state, action, next, episode, time, following, clock).read()


def write_transitions(path: Pathlike, transitions: Transitions) -> None:
    """Write transitions to a .parquet, .npz or .csv file, atomically."""
    write_table(path, transitions.columns())


def rows_to_remember(n: int, episodes: Ints | None, rng: np.random.Generator) -> Ints:
    """Rows, out of n, whose inputs represent a calibration set; at most one random step of each of the `episodes` (n,)."""
    # steps of an episode are not independent
    if episodes is None:
        return np.arange(0, n, -(-n // MOST_ROWS))
    rows = one_of_each(episodes, rng)
    return np.asarray(rows[:: -(-len(rows) // MOST_ROWS)])


def provenance(n: int, digests: Sequence[str], sampled: Floats, episodes: Ints | None) -> dict[str, Any]:
    """Facts about n transitions that a calibration stores, as JSON-compatible data.

    `digests` are the digests of the chunks, `sampled` (r, dx) the inputs of `rows_to_remember`, and `episodes` (n,) the
    episode of each transition.
    """
    facts: dict[str, Any] = {"rows": n, "sha256": digest_of_chunks(digests)}
    if episodes is not None:
        facts["episodes"] = int(episodes.max()) + 1
    return facts | {"inputs": column_quantiles(sampled)}


def check_order(pieces: Iterable[tuple[Floats, Ints]], time: str) -> None:
    """Raise an error if time goes backwards within an episode: rows are then missing, mixed up, or from several runs.

    `pieces` are the times (n,) of consecutive rows, and the episodes of these as numbers 0, 1, ...: (n,).
    """
    row, held = 0, (np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    for times, number in pieces:
        piece = times, number, np.arange(row, row + len(times))
        both = [np.concatenate(parts) for parts in zip(held, piece)]  # after the last row of each episode so far
        when, which, where = (part[np.argsort(both[1], kind="stable")] for part in both)
        same = which[1:] == which[:-1]
        back = np.flatnonzero(same & (when[1:] < when[:-1]))
        if len(back):
            at = back[np.argmin(where[back + 1])]
            raise CaptureError(
                f"{time} goes backwards within an episode in data row {where[at + 1] + 1}: {when[at + 1]:g} after "
                f"{when[at]:g} in data row {where[at] + 1}; sort the log by time, or name the episode of each row."
            )
        last = np.append(~same, True)[: len(which)]
        held, row = (when[last], which[last], where[last]), row + len(times)


# -- parts of a log in chunks ---------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """Consecutive rows of a part of a log."""

    number: int  # number of the chunk, from 0
    first: int  # its first row, within the part
    X: Floats  # (n, dx)
    Y: Floats  # (n, dc)
    episode: npt.NDArray[Any] | None  # (n,): names
    wanted: Bools  # (n,): which of them are returned unchanged


@dataclass(frozen=True)
class Span:
    """Consecutive chunks of a part of a log, which one worker reads at once.

    Attributes:
        log: the log that contains them.
        start: first row of the log.
        chosen: which of the rows from there on belong to the part, bool (r,).
        number: number of the first chunk.
        size: rows per chunk.
        wanted: which rows of the span are returned unchanged, bool (n,); None for none.
    """

    log: TransitionLog
    start: int
    chosen: Bools
    number: int
    size: int
    wanted: Bools | None = None

    @property
    def first(self) -> int:
        """First row of the span, within the part."""
        return self.number * self.size

    def __len__(self) -> int:
        return int(np.count_nonzero(self.chosen))

    def chunks(self) -> Iterator[Chunk]:
        """The chunks, in order."""
        held: list[Transitions] = []
        row, number, left = 0, self.number, len(self)
        missing = min(self.size, left)
        for piece in self.log.pieces(self.start, self.start + len(self.chosen)):
            rows = np.flatnonzero(self.chosen[row : row + len(piece)])
            row += len(piece)
            while len(rows):
                held.append(piece if len(rows) == len(piece) <= missing else piece.rows(rows[:missing]))
                rows, missing = rows[missing:], missing - len(held[-1])
                if missing == 0:
                    log, at = joined(held), (number - self.number) * self.size
                    wanted = np.zeros(len(log), dtype=bool) if self.wanted is None else self.wanted[at : at + len(log)]
                    X, Y = np.ascontiguousarray(log.X), np.ascontiguousarray(log.Y)
                    yield Chunk(number, number * self.size, X, Y, log.episode, wanted)
                    held, number, left = [], number + 1, left - len(log)
                    missing = min(self.size, left)


def in_columns(work: Callable[[Chunk], Sequence[Any]], span: Span) -> tuple[Any, ...]:
    """What `work` returns for each chunk of a span, several arrays (n, ...), each joined over the chunks."""
    return tuple(map(np.concatenate, zip(*map(work, span.chunks()))))


@dataclass(frozen=True)
class LogPart:
    """The `chosen` transitions of a log, bool (rows of the log,)."""

    log: TransitionLog
    chosen: Bools

    @classmethod
    def whole(cls, log: TransitionLog) -> LogPart:
        """A whole log."""
        return cls(log, np.ones(len(log), dtype=bool))

    def __len__(self) -> int:
        return int(np.count_nonzero(self.chosen))

    def episodes(self) -> Ints | None:
        """Episode of each row as numbers 0, 1, ...: (n,); None where the log has none."""
        numbers = self.log.episodes()
        return None if numbers is None else np.unique(numbers[self.chosen], return_inverse=True)[1].astype(np.int64)

    def spans(self, wanted: Bools | None = None) -> list[Span]:
        """The part divided into spans for workers; `wanted` (n,) are rows to return."""
        size, seen = SPAN * CHUNK, 0
        begins, found = [0], []  # rows of the log at which spans begin
        for row in range(0, len(self.chosen), CHUNK):
            here = np.flatnonzero(self.chosen[row : row + CHUNK])
            before, seen = seen, seen + len(here)
            while seen > len(begins) * size:
                begins.append(row + int(here[len(begins) * size - before]))
        for i, (a, b) in enumerate(zip(begins, [*begins[1:], len(self.chosen)])):
            # a worker receives data in memory, or the location of data on disk
            log, start = (self.log.rows(slice(a, b)), 0) if isinstance(self.log, Transitions) else (self.log, a)
            mine = None if wanted is None else wanted[i * size : (i + 1) * size]
            found.append(Span(log, start, self.chosen[a:b], i * SPAN, CHUNK, mine))
        return found


def joined(parts: Sequence[Transitions]) -> Transitions:
    """Concatenated transitions."""
    if len(parts) == 1:
        return parts[0]
    columns = [part.arrays() for part in parts]
    whole: dict[str, Any] = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    return replace(parts[0], **whole)


in_turn: Runner[Any] = map  # in this process, one span after the other


def chunks_of(n: int) -> Iterator[tuple[int, slice]]:
    """Number and rows of each chunk of n rows."""
    for number, first in enumerate(range(0, n, CHUNK)):
        yield number, slice(first, min(first + CHUNK, n))
