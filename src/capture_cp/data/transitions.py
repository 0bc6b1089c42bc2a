"""Transition files: Parquet, npz or CSV with named columns for state, action and next configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest_of_chunks
from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, same_length
from capture_cp.base.files import Pathlike
from capture_cp.conformal.drift import MOST_ROWS, column_quantiles
from capture_cp.conformal.episodes import episode_numbers, one_of_each, split_rows
from capture_cp.data.episode_runs import check_order
from capture_cp.data.selection import Columns
from capture_cp.data.source import PIECE, limits
from capture_cp.data.tables import write_table


class TransitionLog(Protocol):
    """Interface of transitions in memory or on disk, read in pieces: `Transitions` and `LoggedTransitions`."""

    @property
    def state_names(self) -> tuple[str, ...]: ...

    @property
    def action_names(self) -> tuple[str, ...]: ...

    @property
    def next_names(self) -> tuple[str, ...]: ...

    @property
    def X_names(self) -> tuple[str, ...]: ...

    @property
    def episode_name(self) -> str: ...

    @property
    def time_name(self) -> str: ...

    def __len__(self) -> int: ...

    def episodes(self) -> Ints | None:
        """Episode of every transition as numbers 0, 1, ... in the order of their names, (n,); None if unknown."""

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[Transitions]:
        """Transitions from `start` to `stop`, in order, at most 65,536 at a time."""


@dataclass(frozen=True)
class Transitions:
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
        s, a, c = (finite_array(n, v, (None, None), "(n, d)") for n, v in zip(_ROLES, (state, action, next)))
        same_length("state", s, "action", a)
        same_length("state", s, "next", c)
        given = zip(_ROLES, (s, a, c), (state_names, action_names, next_names))
        s_names, a_names, c_names = (_names(role, part, names) for role, part, names in given)
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

    @property
    def X_names(self) -> tuple[str, ...]:
        return self.state_names + self.action_names

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
        """Episode of every transition as numbers 0, 1, ... in the order of their names, (n,); None if unknown."""
        return None if self.episode is None else episode_numbers(self.episode, len(self))

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[Transitions]:
        """Transitions from `start` to `stop`, in order, at most 65,536 at a time."""
        first, last = limits(len(self), start, stop)
        for row in range(first, last, PIECE):
            yield self.rows(slice(row, min(row + PIECE, last)))

    def split(self, shares: Sequence[float], seed: int = 0) -> tuple[Transitions, ...]:
        """Random parts with these fractions, with a sum of at most 1; parts of whole episodes, if there are episodes."""
        return tuple(self.rows(rows) for rows in split_rows(len(self), shares, self.episode, seed))


_ROLES = ("state", "action", "next")


def _names(role: str, part: Floats, given: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(given) if given is not None else tuple(f"{role}_{i}" for i in range(part.shape[1]))
    if len(names) != part.shape[1]:
        raise CaptureError(f"{role} has {part.shape[1]} columns and {len(names)} names; pass one name per column.")
    return names


def check_distinct(names: Sequence[str]) -> None:
    """Raise an error if state, action and next share a column name."""
    if len(set(names)) != len(names):
        raise CaptureError(f"column names {list(names)} repeat; every column of state, action and next needs its own name.")


def _checked_episodes(given: Any, n: int, name: str) -> npt.NDArray[Any]:
    """Episodes (n,), checked to be numbers or text in every row."""
    column = np.asarray(given)
    missing = np.flatnonzero(column != column)  # NaN differs from itself
    if column.shape == (n,) and len(missing):
        raise CaptureError(
            f"{name} has no value in {len(missing)} of {n} rows, first in data row {missing[0] + 1}; it must name the "
            "episode of every row."
        )
    if column.shape != (n,) or column.dtype.kind not in "US":  # text needs no check, and sorting millions of words is slow
        episode_numbers(column, n)
    return column


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
