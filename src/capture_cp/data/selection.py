"""Column names as users write them: a whole column, one entry, name[3], or a slice, name[0:7]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, known_name, shortened
from capture_cp.base.files import Pathlike
from capture_cp.data.source import Column, entries_of

Columns = str | Sequence[str]

_INDEXED = re.compile(r"(?P<name>.+)\[(?:(?P<entry>\d{1,9})|(?P<start>\d{0,9}):(?P<stop>\d{0,9}))\]", re.DOTALL)


def expanded(path: Pathlike, role: str, given: Columns, columns: Sequence[Column]) -> tuple[str, ...]:
    """Names of the values of one part of a transition, in the order of `given`.

    A name that is not a column may also refer to all columns name_0, name_1, ... of a flat table.
    """
    wanted = [given] if isinstance(given, str) else list(given)
    if not wanted:
        raise CaptureError(f"no {role} columns are named; {path} has {', '.join(column.name for column in columns)}.")
    known = entries_of(path, columns)
    names: list[str] = []
    for name in wanted:
        found = _INDEXED.fullmatch(name) if name not in known and not _has(columns, name) else None
        names += _entries(path, name, columns, known) if found is None else _indexed(path, found, columns, known)
    for name in names:
        check_numbers(path, known[name])
    return tuple(names)


def base_name(name: str) -> str:
    """A name without its entry or slice."""
    found = _INDEXED.fullmatch(name)
    return name if found is None else found["name"]


def check_numbers(path: Pathlike, column: Column) -> None:
    """Raise an error if a column does not contain numbers."""
    if column.kind != "number":
        raise CaptureError(f"column {shortened(column.name)!r} of {path} contains {column.kind}, not numbers.")


def known_column(path: Pathlike, name: str, columns: Sequence[Column]) -> Column:
    """The column with one value per row under this name."""
    known = entries_of(path, columns)
    return known[known_name(f"column in {path}", name, known)]


def _has(columns: Sequence[Column], name: str) -> bool:
    return any(column.name == name for column in columns)


def _entries(path: Pathlike, name: str, columns: Sequence[Column], known: dict[str, Column]) -> list[str]:
    """Names of all values of a column."""
    if name in known:
        return [name]
    for column in columns:
        if column.name == name:
            check_numbers(path, column)
            return list(column.entries)
    numbered = [entry for entry in known if entry.rpartition("_")[0] == name and entry.rpartition("_")[2].isdecimal()]
    if not numbered:
        known_name(f"column in {path}", name, [column.name for column in columns])
    return numbered


def _indexed(path: Pathlike, found: re.Match[str], columns: Sequence[Column], known: dict[str, Column]) -> list[str]:
    """Names of one value of a column, or of the values of a slice."""
    every = _entries(path, found["name"], columns, known)
    entries = [f"{found['name']}_{i}" for i in range(len(every))]
    if set(entries) != set(every):
        raise CaptureError(
            f"column {shortened(found['name'])!r} of {path} is not a list of numbers; name it without brackets."
        )
    if found["entry"] is not None:
        start, stop = int(found["entry"]), int(found["entry"]) + 1
    else:
        start, stop = int(found["start"] or 0), int(found["stop"] or len(entries))
    if not start < stop <= len(entries):
        raise CaptureError(
            f"{shortened(found[0])!r} does not exist: column {shortened(found['name'])!r} of {path} has entries 0 to "
            f"{len(entries) - 1}; name some of those."
        )
    return entries[start:stop]


def stacked(columns: Sequence[npt.NDArray[Any]]) -> Floats:
    """Columns (n,) side by side: (n, d)."""
    found = np.empty((len(columns[0]), len(columns)))
    for i, column in enumerate(columns):
        found[:, i] = column
    return found
