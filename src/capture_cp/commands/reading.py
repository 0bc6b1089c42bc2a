"""Reading a log for a command: by the columns that are named or remembered, divided into parts, and surveyed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from capture_cp.base.arrays import digest
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, whole_number
from capture_cp.base.progress import stage
from capture_cp.capture.capture import Capture
from capture_cp.capture.preflight import check_unseen
from capture_cp.commands import options
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
#: Rows that the linear model is trained on.
TRAINED = 1_000_000
BLOCK = 1 << 20  # rows that are numbered at a time


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Options of commands that read a log and a calibration; by default they are those of the calibration."""

    state: options.StateColumns = ()
    action: options.ActionColumns = ()
    next: options.NextColumns = ()
    following: options.FollowingColumns = ()
    clock: options.RememberedClock = None
    time: options.TimeColumn = None
    model: options.RememberedModel = None
    strata: options.RememberedStrata = None
    trust: options.Trust = False
    folder: options.Folder = Path()


def remembered(command: Remembered, calibration: Path, facts: Mapping[str, Any], file: Path, episode: str | None) -> Any:
    """The log in `file` by the columns that a command names, `episode` among them, or else that a calibration remembers."""
    if "gap" in facts:
        from capture_cp.gap.saved import new_transitions

        return new_transitions(calibration, facts, file, episode)
    known = facts.get("columns", {})
    given = "next" if command.next else "following" if command.following else ""
    last = given or ("following" if "following" in known else "next")
    columns: dict[str, Any] = {name: getattr(command, name) or known.get(name) for name in ("state", "action", last)}
    missing = [f"--{name}" for name, names in columns.items() if not names and not (name == "action" and name in known)]
    if missing:
        raise CaptureError(f"calibration {calibration} remembers no columns; name them with {', '.join(missing)}.")
    more: dict[str, Any] = {"episode": episode or facts.get("episode"), "time": command.time or facts.get("time")}
    more["steps"] = whole_number("steps of the calibration", facts.get("steps", 1), 1)
    return LoggedTransitions(file, **columns, **more, clock=command.clock or facts.get("clock") or "received")


def opened(log: LoggedTransitions, console: Console) -> TransitionLog:
    """The log, in memory if it is small, so that it is read once, otherwise on disk; prints notes about skipped data."""
    with stage("reading the log", everywhere=False):
        notes = list(log.notes())
        small = len(log) * (len(log.X_names) + len(log.next_names)) <= IN_MEMORY
        found = log.read() if small else log
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    return found


def columns_after(next: Sequence[str], following: Sequence[str]) -> dict[str, Any]:
    """Which columns hold the configuration after a step, as `LoggedTransitions` takes them."""
    if bool(next) == bool(following):
        given = "both of --next and --following are" if next else "neither --next nor --following is"
        raise CaptureError(
            f"{given} given; name the columns of the configuration after a step, or those that hold it in the following row."
        )
    return {"next": next} if next else {"following": following}


def columns_of(log: TransitionLog, follows: bool, steps: int = 1) -> dict[str, list[str]]:
    """The columns of a log by their parts, as a calibration remembers them; of several steps the actions of the first."""
    last = {"following": [name.removeprefix("next_") for name in log.next_names]} if follows else {"next": [*log.next_names]}
    return {"state": list(log.state_names), "action": list(log.action_names[: len(log.action_names) // steps]), **last}


def check_fits(cap: Capture, log: TransitionLog, file: Path) -> None:
    """Reject a log whose number of columns differs from the calibration's."""
    dx, dc = len(log.X_names), len(log.next_names)
    if (dx, dc) != (cap.n_inputs_, cap.n_outputs_):
        raise CaptureError(
            f"{file} has {dx} inputs and {dc} numbers of a configuration by the columns named; the calibration has "
            f"{cap.n_inputs_} and {cap.n_outputs_}."
        )


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
    log, n = split.log, len(split.number)
    stride = -(-n // SAMPLE)
    most = {"to train": TRAINED, "to check": SAMPLE}
    samples = [np.arange(0, n, stride), *(split.some(part, most[part]) for part in split.names if part in most)]
    wanted = np.zeros(n, dtype=bool)
    for rows in samples:
        wanted[rows] = True
    look = partial(in_columns, partial(_look, strata, model, name, folder, stride))
    found = zip(*run(look, LogPart.whole(log).spans(wanted)))
    digests, low, high, outside, X, Y, episode, marks = map(np.concatenate, found)
    if len(outside):
        refuse_infeasible(name, len(outside), n, outside)
    there, ds = np.flatnonzero(wanted), len(log.state_names)
    names, run_names = (log.state_names, log.action_names, log.next_names), episode if len(episode) else None
    kept = Transitions(X[:, :ds], X[:, ds:], Y, *names, run_names, None, log.episode_name, log.time_name)
    sample, *parts = [kept.rows(np.searchsorted(there, rows)) for rows in samples]
    named = dict(zip([part for part in split.names if part in most], parts))
    return Survey(digests.tolist(), low.min(axis=0), high.max(axis=0), sample, named, marks, stride)


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
    marks = marked(X, Y, chunk.first, stride)
    return [digest(X, Y)], low, high, outside, X.take(rows, axis=0), Y.take(rows, axis=0), episode, marks


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


def shared_rows(found: Survey, split: Split) -> Sequence[tuple[str, str, int, int]]:
    """Pairs of parts that share transitions: both names, how many of the second are in the first, and how many it has."""
    part = split.number[found.marks[:, 0].astype(np.int64)]
    hashes = {name: found.marks[part == i, 1] for i, name in enumerate(split.names)}
    sizes, names = split.sizes, split.names
    pairs = [(first, second) for i, first in enumerate(names) for second in names[i + 1 :]]
    counts = [(one, two, int(np.isin(hashes[two], hashes[one]).sum()) * found.stride) for one, two in pairs]
    return [(one, two, min(count, sizes[two]), sizes[two]) for one, two, count in counts if count]
