"""Logs in several files, concatenated: a folder, a pattern such as runs/*.csv, a LeRobot data set."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.sage import STATE, SageSource, motions_in
from capture_cp.data.source import (
    ENDINGS,
    LONGEST_LABEL,
    PIECE,
    Column,
    LogSource,
    Table,
    is_bag,
    limits,
    natural,
    open_file,
)

#: Name of the column with the file name in the rows of a folder, unless a column already has that name.
FILE = "file"
MOST_FILES = 1_000_000
INFO = Path("meta", "info.json")  # what a LeRobot data set says of itself


def open_files(pattern: Path, labels: str | None) -> LogSource:
    """The log in all files whose names match a pattern with * or ?."""
    found = [Path(name) for name in glob.iglob(str(pattern), recursive=True)]
    files = sorted((file for file in found if file.is_file() or is_bag(file)), key=natural)
    if not files:
        raise CaptureError(f"no file matches the pattern {pattern}; check the path.")
    return FolderSource(pattern, files, labels)


def open_folder(folder: Path, labels: str | None) -> LogSource:
    """The log in a folder: a LeRobot data set, motions of SAGE, or files of one format."""
    if (folder / INFO).is_file():
        # only its tables are opened; there may be videos of any size
        files = sorted((folder / "data").glob("**/*.parquet"), key=natural)
        if not files:
            raise CaptureError(f"LeRobot data set {folder} has no Parquet file below {folder / 'data'}; copy it there.")
        return FolderSource(folder, files, labels)
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    files = [entry for entry in entries if entry.is_file() and entry.suffix.lower() in ENDINGS]
    files = sorted(files or filter(is_bag, entries), key=natural)
    motions = motions_in(folder) if not files or files[-1].name == STATE else []
    if motions:
        return SageSource(folder, motions)
    if not files:
        raise CaptureError(f"folder {folder} contains no log; expected files that end in {', '.join(ENDINGS)}.")
    return FolderSource(folder, files, labels)


class FolderSource(LogSource):
    """Files of one format with the same columns, as one log."""

    def __init__(
        self, path: Path, files: Sequence[Path], labels: str | None = None, arrangement: tuple[Any, ...] | None = None
    ) -> None:
        self.path, self.labels, self.files, self._arrangement = path, labels, tuple(files), arrangement
        if len(files) > MOST_FILES:
            raise CaptureError(f"{path} has {len(files):,} files; expected at most {MOST_FILES:,}.")
        for file in self.files:
            if file.suffix.lower() != self.files[0].suffix.lower():
                raise CaptureError(
                    f"{path} mixes formats: {file.name} and {self.files[0].name}; keep one format per folder."
                )
        first = self._open(0)
        self.messages, self._columns = first.messages, first.columns()
        self._own = FILE not in {column.name for column in self._columns}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"files": tuple(file.absolute() for file in self.files)}

    @cached_property
    def _index(self) -> tuple[Ints, Ints, list[str]]:
        """Ends of the files, rows without a successor and notes: every file is read once."""
        rows, breaks, notes = [0], [], list[str]()
        for number, file in enumerate(self.files):
            source = self._open(number)
            self._check_columns(file, source)
            breaks.append(source.breaks() + sum(rows))
            notes += [f"{file.name}: {note}" for note in source.notes()]
            rows.append(source.rows)
            source.release()
        return np.cumsum(rows, dtype=np.int64), np.concatenate(breaks), notes

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        inner = [name for name in names if name != FILE or not self._own]
        return FolderSource(self.path, self.files, self.labels, (inner, rows_of, after, clock))

    def entry_names(self) -> dict[str, str]:
        try:  # of a LeRobot data set: a list of names, or one by the kind of the entries
            features = json.loads(existing_file(self.path / INFO, "description").read_text("utf-8"))["features"]
            found: dict[str, str] = {}
            for column in self._columns:
                names = features[column.name]["names"] if column.width else ()
                names = next(iter(names.values()), ()) if isinstance(names, dict) else names
                found |= {entry: str(name) for entry, name in zip(column.entries, names)}
            return found
        except (CaptureError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}

    def breaks(self) -> Ints:
        return self._index[1]

    def notes(self) -> list[str]:
        return self._index[2]

    def columns(self) -> tuple[Column, ...]:
        return (*self._columns, *([Column(FILE, "text")] if self._own else []))

    @property
    def _ends(self) -> Ints:
        return self._index[0]

    @property
    def rows(self) -> int:
        return int(self._ends[-1])

    def parts(self) -> Ints:
        return self._ends[:-1]

    def locate(self, row: int) -> tuple[Path, int]:
        number = int(np.searchsorted(self._ends, row, "right")) - 1
        return self.files[number], row - int(self._ends[number])

    def check_whole(self, names: Sequence[str]) -> None:
        for number in range(len(self.files)):
            self._open(number).check_whole(names)

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        inner = [name for name in names if name != FILE or not self._own]
        for number in range(int(np.searchsorted(self._ends, first, "right")) - 1, len(self.files)):
            begins, ends = int(self._ends[number]), int(self._ends[number + 1])
            if begins >= last:
                return
            for table in self._inside(number, inner, max(first, begins) - begins, min(last, ends) - begins):
                n = len(next(iter(table.values())))
                file = {FILE: np.full(n, self._label(number))} if len(inner) < len(names) else {}
                yield {name: (table | file)[name] for name in names}

    def _inside(self, number: int, names: Sequence[str], low: int, high: int) -> Iterator[Table]:
        """Rows of one file; without columns, tables of so many rows that have only a column of their numbers."""
        if not names:
            yield from ({"": np.arange(row, min(row + PIECE, high))} for row in range(low, high, PIECE))
            return
        source = self._open(number)
        known = {name for column in source.columns() for name in column.entries}
        for name in names:
            if name not in known:
                raise CaptureError(
                    f"{self.files[number]} has no value {shortened(name)!r}, although other files of {self.path} do; "
                    "give all files the same columns."
                )
        yield from source.pieces(names, low, high)

    def _label(self, number: int) -> str:
        file = self.files[number]
        inside = file.relative_to(self.path) if file.is_relative_to(self.path) else file
        name = inside.as_posix()
        return name if len(name) <= LONGEST_LABEL else f"{number}: {name[-LONGEST_LABEL + 20 :]}"  # unique

    def _open(self, number: int) -> LogSource:
        file = self.files[number]
        source = open_file(file if file.is_dir() else existing_file(file, "transition file"), self.labels)
        return source if self._arrangement is None else source.arranged(*self._arrangement)

    def _check_columns(self, file: Path, source: LogSource) -> None:
        """Raise an error if a file's columns differ from the first file's in name or type."""
        columns = {column.name: column for column in self._columns}
        here = {column.name: column for column in source.columns()}
        for name in (*columns, *here):
            if columns.get(name) != here.get(name):
                raise CaptureError(
                    f"{file} differs from {self.files[0].name} in column {shortened(name)!r}; give all files of "
                    f"{self.path} the same columns."
                )
