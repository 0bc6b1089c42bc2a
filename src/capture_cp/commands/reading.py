"""Reading a log for a command: by the columns that are named or remembered, divided into parts, and surveyed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, Floats, Ints, whole_number
from capture_cp.base.progress import stage
from capture_cp.capture.capture import Capture
from capture_cp.capture.preflight import check_unseen
from capture_cp.commands import options
from capture_cp.commands.bundle import named_calibration
from capture_cp.commands.user_objects import labels_of_user, refuse_infeasible
from capture_cp.conformal.episodes import part_of_rows
from capture_cp.conformal.scores import Model
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.transitions import Chunk, LogPart, Runner, TransitionLog, Transitions, in_columns, joined
from capture_cp.spaces.strata import INFEASIBLE, Strata

IN_MEMORY = 32_000_000  # numbers of a log up to which all of it is kept in memory
BEGINNING = 200_000  # transitions of a longer one that stand for it
#: Rows of a log, or of a part of it, that stand for all of them where that suffices.
SAMPLE = 200_000
#: Most rows of a part that stand for it: the linear model is trained on a million.
MOST = {"to train": 1_000_000, "to check": SAMPLE}


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Options of commands that read a log and a calibration; by default they are those of the calibration."""

    state: options.StateColumns = ()
    action: options.ActionColumns = ()
    next: options.NextColumns = ()
    following: options.FollowingColumns = ()
    clock: options.Clock = None
    time: options.TimeColumn = None
    model: options.RememberedModel = None
    strata: options.RememberedStrata = None
    trust: options.Trust = False
    folder: options.Folder = Path()

    def calibrated(self, file: Path, facts: Mapping[str, Any]) -> Capture:
        """A calibration, of which `facts` are known, with its model and strata."""
        return named_calibration(file, facts, self.model, self.strata, self.folder, self.trust)

    def logged(self, cap: Capture, calibration: Path, facts: Mapping[str, Any], file: Path, episode: str | None) -> Any:
        """The log in `file` by the columns that are named, `episode` among them, or else that a calibration remembers."""
        if "gap" in facts:
            from capture_cp.gap.saved import new_transitions

            return new_transitions(cap, file, episode)
        known = facts.get("columns", {})
        given = "next" if self.next else "following" if self.following else ""
        last = given or ("following" if "following" in known else "next")
        columns: dict[str, Any] = {name: getattr(self, name) or known.get(name) for name in ("state", "action", last)}
        missing = [f"--{name}" for name, names in columns.items() if not names and not (name == "action" and name in known)]
        if missing:
            raise CaptureError(f"calibration {calibration} remembers no columns; name them with {', '.join(missing)}.")
        more: dict[str, Any] = {"episode": episode or facts.get("episode"), "time": self.time or facts.get("time")}
        more["steps"] = whole_number("steps of the calibration", facts.get("steps", 1), 1)
        log = LoggedTransitions(file, **columns, **more, clock=self.clock or facts.get("clock") or "received")
        dx, dc = len(log.X_names), len(log.next_names)
        if (dx, dc) != (cap.n_inputs_, cap.n_outputs_):
            raise CaptureError(
                f"{file} has {dx} inputs and {dc} numbers of a configuration by the columns named; the calibration has "
                f"{cap.n_inputs_} and {cap.n_outputs_}."
            )
        return log


def opened(log: LoggedTransitions, console: Console) -> TransitionLog:
    """The log, in memory if it is small, so that it is read once, otherwise on disk; prints notes about skipped data."""
    with stage("reading the log", everywhere=False):
        notes = list(log.notes())
        small = len(log) * (len(log.X_names) + len(log.next_names)) <= IN_MEMORY
        found = log.read() if small else log
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    return found


def columns_of(log: TransitionLog, follows: bool, steps: int = 1) -> dict[str, list[str]]:
    """The columns of a log by their parts, as a calibration remembers them; of several steps the actions of the first."""
    last = {"following": [name.removeprefix("next_") for name in log.next_names]} if follows else {"next": [*log.next_names]}
    return {"state": list(log.state_names), "action": list(log.action_names[: len(log.action_names) // steps]), **last}


def made_from(facts: Mapping[str, Any]) -> list[str]:
    """Digests of the logs that a calibration was made from, whole ones."""
    return [one for one in (facts.get("log_sha256"), *facts.get("extended_by", ())) if one]


def beginning(log: TransitionLog) -> Transitions:
    """The first transitions of a log, in memory; all of them where they are not very many."""
    return log if isinstance(log, Transitions) else joined(list(log.pieces(0, BEGINNING)))


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
        return LogPart(self.log, self.number == self.names.index(name))

    def some(self, name: str, most: int) -> Ints:
        """At most so many transitions of a part, evenly spaced: row numbers, ascending."""
        rows = np.flatnonzero(self.number == self.names.index(name))
        return rows[:: -(-len(rows) // most)]


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
    log, n = split.log, len(split.number)
    stride = -(-n // SAMPLE)
    known = {part: split.some(part, most) for part, most in MOST.items() if part in split.names}
    samples, wanted = [np.arange(0, n, stride), *known.values()], np.zeros(n, dtype=bool)
    wanted[np.concatenate(samples)] = True
    look = partial(in_columns, partial(_look, strata, model, name, folder, stride))
    found = zip(*run(look, LogPart.whole(log).spans(wanted)))
    digests, low, high, outside, X, Y, episode, marks = map(np.concatenate, found)
    if len(outside):
        refuse_infeasible(name, len(outside), n, outside)
    there, ds = np.flatnonzero(wanted), len(log.state_names)
    names, runs = (log.state_names, log.action_names, log.next_names), episode if len(episode) else None
    kept = Transitions(X[:, :ds], X[:, ds:], Y, *names, runs, None, log.episode_name, log.time_name)
    sample, *parts = [kept.rows(np.searchsorted(there, rows)) for rows in samples]
    return Survey(digests.tolist(), low.min(axis=0), high.max(axis=0), sample, dict(zip(known, parts)), marks, stride)


def _look(strata: Strata | None, model: Model | None, name: str, folder: Path, stride: int, chunk: Chunk) -> tuple[Any, ...]:
    """Digest, ends and marks of a chunk, its infeasible rows, and inputs, outcomes and episodes of those wanted."""
    X, Y, rows = chunk.X, chunk.Y, np.flatnonzero(chunk.wanted)
    if model is not None:
        check_unseen(model, X, Y)  # of the whole log: what it is checked on must be new to it as well
    outside = rows[:0]
    if strata is not None:
        outside = chunk.first + np.flatnonzero(labels_of_user(strata, name, folder, Y) == INFEASIBLE)
    low, high = ([[end(column) for column in Y.T]] for end in (np.min, np.max))  # several times faster than min(axis=0)
    episode = rows[:0] if chunk.episode is None else chunk.episode[rows]
    hashes = row_hashes(X, Y)  # which rows have a mark depends on the hash alone, so equal ones do
    marked = np.flatnonzero(hashes % np.uint64(stride) == 0)
    marks = np.stack([(chunk.first + marked).astype(np.uint64), hashes[marked]], axis=1)
    return [digest(X, Y)], low, high, outside, X.take(rows, axis=0), Y.take(rows, axis=0), episode, marks


def row_hashes(X: Floats, Y: Floats) -> npt.NDArray[np.uint64]:
    """A hash of each transition X (n, dx), Y (n, dc): (n,). Equal transitions have equal ones."""
    found = np.full(len(X), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in (*X.T, *Y.T):
        found ^= (column + 0.0).view(np.uint64)  # no negative zeros
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(29)
    found *= np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(32))


def shared_rows(found: Survey, split: Split) -> list[tuple[str, str, int, int]]:
    """Pairs of parts that share transitions: both names, how many of the second are in the first, and how many it has."""
    part = split.number[found.marks[:, 0].astype(np.int64)]
    hashes = {name: found.marks[part == i, 1] for i, name in enumerate(split.names)}
    counts = {pair: int(np.isin(hashes[pair[1]], hashes[pair[0]]).sum()) for pair in combinations(split.names, 2)}
    sizes = split.sizes
    return [(*pair, min(count * found.stride, sizes[pair[1]]), sizes[pair[1]]) for pair, count in counts.items() if count]
