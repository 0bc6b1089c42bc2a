"""A part of a log in chunks: the same chunks whether it is in memory, on disk, or read by several workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.data.transitions import TransitionLog, Transitions

#: Rows per chunk. The model is called on one chunk at a time, each with its own random numbers.
CHUNK = 65_536
#: Chunks that a worker reads at once: few enough to distribute the work, many enough that files are rarely reopened.
SPAN = 16

Result = TypeVar("Result")
#: `run(work, spans)`: the results of `work(span)`, in order, computed in this process or by workers.
Runner = Callable[[Callable[[Any], Result], Sequence[Any]], Iterator[Result]]


class Chunk(NamedTuple):
    """Consecutive rows of a part of a log."""

    number: int  # number of the chunk, from 0
    first: int  # its first row, within the part
    X: Floats  # (n, dx)
    Y: Floats  # (n, dc)
    episode: npt.NDArray[Any] | None  # (n,): names

    @property
    def rows(self) -> slice:
        """Its rows, within the part."""
        return slice(self.first, self.first + len(self.X))


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
        row, number, missing = 0, self.number, self.size
        for piece in self.log.pieces(self.start, self.start + len(self.chosen)):
            rows = np.flatnonzero(self.chosen[row : row + len(piece)])
            row += len(piece)
            while len(rows):
                held.append(piece if len(rows) == len(piece) <= missing else piece.rows(rows[:missing]))
                rows, missing = rows[missing:], missing - len(held[-1])
                if missing == 0:
                    yield self._chunk(number, joined(held))
                    held, number, missing = [], number + 1, self.size
        if held:
            yield self._chunk(number, joined(held))

    def _chunk(self, number: int, rows: Transitions) -> Chunk:
        X, Y = (np.ascontiguousarray(part) for part in (rows.X, rows.Y))
        return Chunk(number, number * self.size, X, Y, rows.episode)

    def wanted_of(self, chunk: Chunk) -> Bools:
        """Which rows of a chunk are wanted: bool (n,)."""
        first = chunk.first - self.first
        return np.zeros(len(chunk.X), dtype=bool) if self.wanted is None else self.wanted[first : first + len(chunk.X)]


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
        return self._length

    @cached_property
    def _length(self) -> int:
        return int(np.count_nonzero(self.chosen))

    def episodes(self) -> Ints | None:
        """Episode of each row as numbers 0, 1, ...: (n,); None where the log has none."""
        numbers = self.log.episodes()
        return None if numbers is None else np.unique(numbers[self.chosen], return_inverse=True)[1].astype(np.int64)

    def spans(self, wanted: Bools | None = None) -> list[Span]:
        """The part divided into spans for workers; `wanted` (n,) are rows to return."""
        begins, size = self._begins(), SPAN * CHUNK
        found = []
        for i, (a, b) in enumerate(zip(begins, [*begins[1:], len(self.chosen)])):
            # a worker receives data in memory, or the location of data on disk
            log, start = (self.log.rows(slice(a, b)), 0) if isinstance(self.log, Transitions) else (self.log, a)
            mine = None if wanted is None else wanted[i * size : (i + 1) * size]
            found.append(Span(log, start, self.chosen[a:b], i * SPAN, CHUNK, mine))
        return found

    def _begins(self) -> list[int]:
        """Row of the log at which each span begins."""
        found, seen = [0], 0
        for row in range(0, len(self.chosen), CHUNK):
            here = self.chosen[row : row + CHUNK]
            before, seen = seen, seen + int(np.count_nonzero(here))
            while seen > len(found) * SPAN * CHUNK:
                found.append(row + int(np.flatnonzero(here)[len(found) * SPAN * CHUNK - before]))
        return found


def joined(parts: Sequence[Transitions]) -> Transitions:
    """Concatenated transitions."""
    if len(parts) == 1:
        return parts[0]
    columns = [part.arrays() for part in parts]
    whole: dict[str, Any] = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    return replace(parts[0], **whole)


def in_turn(work: Callable[[Any], Result], spans: Sequence[Any]) -> Iterator[Result]:
    """Do the work in this process, one span after the other."""
    return map(work, spans)


def chunks_of(n: int) -> Iterator[tuple[int, slice]]:
    """Number and rows of each chunk of n rows."""
    for number, first in enumerate(range(0, n, CHUNK)):
        yield number, slice(first, min(first + CHUNK, n))
