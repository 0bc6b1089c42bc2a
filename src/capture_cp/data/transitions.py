"""Transition files: Parquet, npz or CSV with named columns for state, action and next configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest_of_chunks
from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, same_length
from capture_cp.base.files import Pathlike
from capture_cp.conformal.drift import MOST_ROWS, column_quantiles
from capture_cp.conformal.episodes import episode_numbers, one_of_each, split_rows
from capture_cp.data.csv_tables import Table
from capture_cp.data.tables import read_table, write_table

Columns = str | Sequence[str]


@dataclass(frozen=True)
class Transitions:
    """Logged transitions: `state` (n, ds), `action` (n, da), `next` (n, dc), and the names of their columns.

    `episode` (n,), numbers or text, is the run that each belongs to, `time` (n,) when it happened; None where unknown.
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
        """Transitions from arrays; columns without names are called state_0, action_0, next_0 and so on.

        `episode` (n,) and `time` (n,) are optional; within an episode, rows must be in the order of time.
        """
        s, a, c = (finite_array(n, v, (None, None), "(n, d)") for n, v in zip(_ROLES, (state, action, next)))
        same_length("state", s, "action", a)
        same_length("state", s, "next", c)
        given = zip(_ROLES, (s, a, c), (state_names, action_names, next_names))
        s_names, a_names, c_names = (_names(role, part, names) for role, part, names in given)
        every = s_names + a_names + c_names
        if len(set(every)) != len(every):
            raise CaptureError(f"column names {list(every)} repeat; state, action and next need names of their own.")
        kept = None if episode is None else _checked_episodes(episode, len(s), episode_name)
        when = None if time is None else finite_array("time", time, (len(s),), "(n,): one time per transition")
        if when is not None:
            numbers = np.zeros(len(s), dtype=np.int64) if kept is None else episode_numbers(kept, len(s))
            _check_order(when, numbers, time_name)
        return cls(s, a, c, s_names, a_names, c_names, kept, when, episode_name, time_name)

    @property
    def X(self) -> Floats:
        """Inputs (n, ds + da): state and action side by side."""
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
        """Some of the transitions: those at `index`, row numbers or a mask (n,)."""
        parts: dict[str, Any] = {
            name: None if part is None else part[index]
            for name in (*_ROLES, "episode", "time")
            for part in [getattr(self, name)]
        }
        return replace(self, **parts)

    def split(self, shares: Sequence[float], seed: int = 0) -> tuple[Transitions, ...]:
        """Random parts with the given shares, at most 1 in sum; of whole episodes, where the transitions have any."""
        return tuple(self.rows(rows) for rows in split_rows(len(self), shares, self.episode, seed))


_ROLES = ("state", "action", "next")


def _names(role: str, part: Floats, given: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(given) if given is not None else tuple(f"{role}_{i}" for i in range(part.shape[1]))
    if len(names) != part.shape[1]:
        raise CaptureError(f"{role} has {part.shape[1]} columns and {len(names)} names; give one name per column.")
    return names


def _checked_episodes(given: Any, n: int, name: str) -> npt.NDArray[Any]:
    """Episodes (n,), known to be numbers or text for every row."""
    column = np.asarray(given)
    missing = np.flatnonzero(column != column)  # NaN is not equal to itself
    if column.shape == (n,) and len(missing):
        raise CaptureError(
            f"{name} has no value in {len(missing)} of {n} rows, first in data row {missing[0] + 1}; it must name the "
            "episode of every row."
        )
    if column.shape != (n,) or column.dtype.kind not in "US":  # text is text; sorting millions of words takes long
        episode_numbers(column, n)
    return column


def _check_order(time: Floats, episodes: Ints, name: str) -> None:
    """Refuse a time that goes backwards within an episode: rows are then missing, mixed up, or of several runs."""
    order = np.argsort(episodes, kind="stable")
    backwards = (np.diff(time[order]) < 0) & (np.diff(episodes[order]) == 0)
    if backwards.any():
        later = order[1:][backwards]
        row = int(later.min())
        before = int(order[:-1][backwards][np.argmin(later)])
        raise CaptureError(
            f"{name} goes backwards within an episode in data row {row + 1}: {time[row]:g} after {time[before]:g} in data "
            f"row {before + 1}; sort the log by time, or say which episode each row belongs to."
        )


def read_transitions(
    path: Pathlike, state: Columns, action: Columns, next: Columns, episode: str | None = None, time: str | None = None
) -> Transitions:
    """Transitions from a .parquet, .npz or .csv file.

    Args:
        path: the file; its ending is the format.
        state: names of the state's columns, in order. In an npz file a name may also stand for a two-dimensional array,
            whose columns are then called name_0, name_1 and so on.
        action: names of the action's columns.
        next: names of the next configuration's columns.
        episode: name of the column with the run that each row belongs to, in numbers or text.
        time: name of the column of times, which must not go backwards within an episode.
    """
    table = read_table(path, episode)
    s, a, c = parts = [_expand(path, role, given, table) for role, given in zip(_ROLES, (state, action, next))]
    extra: dict[str, Any] = {}
    if episode is not None:
        extra |= {"episode": table[known_name(f"column in {path}", episode, table)], "episode_name": episode}
    if time is not None:
        column = _columns(path, [known_name(f"column in {path}", time, table)], table)
        extra |= {"time": column[:, 0], "time_name": time}
    arrays: list[Floats] = []
    for number, part in enumerate(parts):
        arrays.append(_columns(path, part, table))
        later = {name for other in parts[number + 1 :] for name in other}
        table = {name: column for name, column in table.items() if name in later}  # a log may fill half of the memory
    return Transitions.from_arrays(arrays[0], arrays[1], arrays[2], s, a, c, **extra)


def write_transitions(path: Pathlike, transitions: Transitions) -> None:
    """Write transitions to a .parquet, .npz or .csv file, atomically."""
    write_table(path, transitions.columns())


def _expand(file: Pathlike, role: str, given: Columns, table: Table) -> list[str]:
    """Column names of one part, with the names of two-dimensional npz arrays replaced by those of their columns."""
    wanted = [given] if isinstance(given, str) else list(given)
    if not wanted:
        raise CaptureError(f"no {role} columns are named; {file} has {', '.join(table)}.")
    names: list[str] = []
    for name in wanted:
        split = [column for column in table if column.rpartition("_")[0] == name and column.rpartition("_")[2].isdigit()]
        names += split if name not in table and split else [known_name(f"column in {file}", name, table)]
    return names


def _columns(file: Pathlike, names: Iterable[str], table: Table) -> Floats:
    parts = []
    for name in names:
        if table[name].dtype.kind not in "biuf":
            raise CaptureError(f"column {name!r} of {file} holds {table[name].dtype}, not numbers.")
        column = table[name].astype(np.float64, copy=False)
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise CaptureError(
                f"column {name!r} of {file} has {len(bad)} missing, NaN or infinite values, first in data row {bad[0] + 1}; "
                "remove or repair those rows."
            )
        parts.append(column)
    return np.stack(parts, axis=1)


def rows_to_remember(n: int, episodes: Ints | None, rng: np.random.Generator) -> Ints:
    """Rows, of n, whose inputs stand for those of a calibration; of each of the `episodes` (n,) one random step at most."""
    # steps of an episode are not independent
    rows = np.arange(n) if episodes is None else one_of_each(episodes, rng)
    return np.asarray(rows[:: -(-len(rows) // MOST_ROWS)])


def provenance(n: int, digests: Sequence[str], told: Floats, episodes: Ints | None) -> dict[str, Any]:
    """What a calibration remembers of n transitions, as JSON can hold it.

    `digests` are those of its chunks, `told` (r, dx) the inputs of `rows_to_remember`, `episodes` (n,) the episode of each.
    """
    facts: dict[str, Any] = {"rows": n, "sha256": digest_of_chunks(digests)}
    if episodes is not None:
        facts["episodes"] = int(episodes.max()) + 1
    return facts | {"inputs": column_quantiles(told)}
