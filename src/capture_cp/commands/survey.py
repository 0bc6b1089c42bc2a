"""The first reading of a log: checks, ranges, and a sample of its rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest, rows_where
from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.capture.preflight import check_unseen
from capture_cp.commands.user_objects import labels_of_user, refuse_infeasible
from capture_cp.conformal.episodes import part_of_rows
from capture_cp.conformal.scores import Model
from capture_cp.data.transitions import Chunk, LogPart, Runner, Span, TransitionLog, Transitions
from capture_cp.spaces.strata import INFEASIBLE, Strata

#: Rows of a log, or of a part of it, that stand for all of them where that suffices.
SAMPLE = 200_000
#: Rows that the linear model is trained on.
TRAINED = 1_000_000
BLOCK = 1 << 20  # rows that are numbered at a time
MOST_SHOWN = 6  # infeasible rows whose numbers are kept


@dataclass(frozen=True)
class Split:
    """A log in parts by purpose; episodes are kept whole if there are any.

    Attributes:
        names: of the parts.
        number: the part of each transition, (n,).
    """

    log: TransitionLog
    names: tuple[str, ...]
    number: npt.NDArray[np.int8]

    @classmethod
    def of(cls, log: TransitionLog, shares: Mapping[str, float], seed: int) -> Split:
        """The log in random parts of these fractions."""
        return cls(log, tuple(shares), part_of_rows(len(log), tuple(shares.values()), log.episodes(), seed))

    @property
    def sizes(self) -> dict[str, int]:
        """How many transitions are in each part."""
        return {name: int(np.count_nonzero(self.number == i)) for i, name in enumerate(self.names)}

    def part(self, name: str) -> LogPart:
        """One of the parts."""
        return LogPart(self.log, self._where(name))

    def some(self, name: str, most: int) -> Ints:
        """At most so many transitions of a part, evenly spaced: row numbers, ascending."""
        number, seen, found = self.names.index(name), 0, []
        stride = -(-self.sizes[name] // most)
        for first in range(0, len(self.number), BLOCK):  # row numbers of all at once would take eight bytes each
            rows = first + np.flatnonzero(self.number[first : first + BLOCK] == number)
            found.append(rows[-seen % stride :: stride])
            seen += len(rows)
        return np.concatenate(found)

    def _where(self, name: str) -> Bools:
        return np.asarray(self.number == self.names.index(name))


@dataclass(frozen=True)
class Survey:
    """The results of the first reading.

    Attributes:
        digests: of the chunks of the log.
        low: smallest number of each axis of the next configurations, (dc,).
        high: largest ones, (dc,).
        sample: transitions that stand for the log.
        parts: transitions that stand for the parts to train and to check on; all of them where there are few.
        marks: for some rows, chosen by their numbers alone, row and a hash of all of its numbers, (k, 2).
        stride: one row of so many has a mark.
    """

    digests: list[str]
    low: Floats
    high: Floats
    sample: Transitions
    parts: dict[str, Transitions]
    marks: npt.NDArray[np.uint64]
    stride: int


def survey(split: Split, strata: Strata | None, model: Model | None, name: str, folder: Path, run: Runner[Any]) -> Survey:
    """Read a log once. `strata` and `model` are the user's own, if any; `name` is what errors call the strata."""
    log = split.log
    n = len(log)
    stride = -(-n // SAMPLE)
    most = {"to train": TRAINED, "to check": SAMPLE}
    of_parts = {name: split.some(name, most[name]) for name in split.names if name in most}
    rows = _Rows(log, [np.arange(0, n, stride), *of_parts.values()])
    look = partial(_look_at, strata, model, name, folder, stride)
    spans, found = LogPart.whole(log).spans(rows.wanted), []
    for span, one in zip(spans, run(partial(_look, look), spans)):
        rows.add(span, one)
        found.append(one._replace(X=None, Y=None, episode=None))
    outside = np.concatenate([one.outside for one in found])
    refuse_infeasible(name, sum(one.infeasible for one in found), n, outside)
    sample, *parts = rows.transitions()
    return Survey(
        [digest for one in found for digest in one.digests],
        np.min([one.low for one in found], axis=0),
        np.max([one.high for one in found], axis=0),
        sample,
        dict(zip(of_parts, parts)),
        np.concatenate([one.marks for one in found]),
        stride,
    )


class _Rows:
    """Several samples of transitions of a log; those of a log on disk are gathered while its spans are read."""

    def __init__(self, log: TransitionLog, samples: Sequence[Ints]) -> None:
        self.log, self._samples = log, samples
        self.wanted = np.zeros(len(log), dtype=bool)
        self._found: list[tuple[Floats, Floats, list[Any]]] = []
        if not isinstance(log, Transitions):
            for rows in samples:
                self.wanted[rows] = True
            sizes = len(log.X_names), len(log.next_names)
            self._found = [(np.empty((len(rows), sizes[0])), np.empty((len(rows), sizes[1])), []) for rows in samples]

    def add(self, span: Span, found: _Seen) -> None:
        """Add the wanted rows of a span, which `found` holds."""
        there = span.first + np.flatnonzero(self.wanted[span.first : span.first + len(span)])
        for rows, (X, Y, episodes) in zip(self._samples, self._found):
            low, high = np.searchsorted(rows, (span.first, span.first + len(span)))
            here = np.searchsorted(there, rows[low:high])
            np.take(found.X, here, axis=0, out=X[low:high], mode="clip")  # with other modes it would copy once more
            np.take(found.Y, here, axis=0, out=Y[low:high], mode="clip")
            episodes.append(None if found.episode is None else found.episode[here])

    def transitions(self) -> list[Transitions]:
        """The samples."""
        if isinstance(self.log, Transitions):
            return [replace(self.log.rows(rows), time=None) for rows in self._samples]
        return [
            _transitions(self.log, X, Y, None if episodes[0] is None else np.concatenate(episodes))
            for X, Y, episodes in self._found
        ]


class _Seen(NamedTuple):
    digests: list[str]
    low: Floats
    high: Floats
    infeasible: int
    outside: Ints
    X: Any  # of wanted rows
    Y: Any
    episode: Any
    marks: npt.NDArray[np.uint64]


def _look(look: Callable[[Span, Chunk], _Seen], span: Span) -> _Seen:
    seen = [look(span, chunk) for chunk in span.chunks()]
    outside = np.concatenate([one.outside for one in seen])
    return _Seen(
        [digest for one in seen for digest in one.digests],
        np.min([one.low for one in seen], axis=0),
        np.max([one.high for one in seen], axis=0),
        len(outside),
        outside[:MOST_SHOWN],
        np.concatenate([one.X for one in seen]),
        np.concatenate([one.Y for one in seen]),
        None if seen[0].episode is None else np.concatenate([one.episode for one in seen]),
        np.concatenate([one.marks for one in seen]),
    )


def _look_at(
    strata: Strata | None, model: Model | None, name: str, folder: Path, stride: int, span: Span, chunk: Chunk
) -> _Seen:
    if model is not None:
        check_unseen(model, chunk.X, chunk.Y)  # of the whole log: what it is checked on must be new to it as well
    outside = np.empty(0, dtype=np.int64)
    if strata is not None:
        outside = chunk.first + np.flatnonzero(labels_of_user(strata, name, folder, chunk.Y) == INFEASIBLE)
    parts = chunk.X, chunk.Y, chunk.episode
    X, Y, episode = (None if part is None else rows_where(span.wanted_of(chunk), part) for part in parts)
    return _Seen(
        [digest(chunk.X, chunk.Y)],
        np.array([column.min() for column in chunk.Y.T]),  # several times faster than min(axis=0)
        np.array([column.max() for column in chunk.Y.T]),
        len(outside),
        outside,
        X,
        Y,
        episode,
        marked(chunk.X, chunk.Y, chunk.first, stride),
    )


def marked(X: Floats, Y: Floats, first: int, stride: int) -> npt.NDArray[np.uint64]:
    """Row and hash of one of `stride` transitions X (n, dx), Y (n, dc), numbered from `first`: (k, 2).

    Equal transitions have equal hashes, and which ones have a mark depends on the hash alone: where two parts of a log share
    rows, their marks do.
    """
    found = np.full(len(X), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in (*X.T, *Y.T):
        found ^= (column + 0.0).view(np.uint64)  # no negative zeros
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(29)
    found *= np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(32)
    chosen = np.flatnonzero(found % np.uint64(stride) == 0)
    return np.stack([(first + chosen).astype(np.uint64), found[chosen]], axis=1)


def _transitions(log: TransitionLog, X: Floats, Y: Floats, episode: npt.NDArray[Any] | None) -> Transitions:
    ds = len(log.state_names)
    names = log.state_names, log.action_names, log.next_names
    return Transitions(X[:, :ds], X[:, ds:], Y, *names, episode, None, log.episode_name, log.time_name)


def shared_rows(found: Survey, split: Split) -> Sequence[tuple[str, str, int, int]]:
    """Pairs of parts that share transitions: both names, how many of the second are in the first, and how many it has."""
    part = split.number[found.marks[:, 0].astype(np.int64)]
    hashes = {name: found.marks[part == i, 1] for i, name in enumerate(split.names)}
    sizes, names = split.sizes, split.names
    pairs = [(first, second) for i, first in enumerate(names) for second in names[i + 1 :]]
    counts = [(one, two, int(np.isin(hashes[two], hashes[one]).sum()) * found.stride) for one, two in pairs]
    return [(one, two, min(count, sizes[two]), sizes[two]) for one, two, count in counts if count]
