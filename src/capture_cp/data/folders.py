"""Logs in several files, concatenated: a folder, a pattern such as runs/*.csv, a LeRobot data set."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.bag_files import is_bag
from capture_cp.data.source import ENDINGS, LONGEST_LABEL, Column, LogSource, Table, limits, open_file

#: Name of the column with the file name in the rows of a folder, unless a column already has that name.
FILE = "file"
MOST_FILES = 1_000_000


def open_files(pattern: Path, labels: str | None) -> LogSource:
    """The log in all files whose names match a pattern with * or ?."""
    found = [Path(name) for name in glob.iglob(str(pattern), recursive=True)]
    files = sorted((file for file in found if file.is_file() or is_bag(file)), key=natural)
    if not files:
        raise CaptureError(f"no file matches the pattern {pattern}; check the path.")
    return FolderSource(pattern, files, labels)


def open_folder(folder: Path, labels: str | None) -> LogSource | None:
    """The log in a folder, or None if there is none: a LeRobot data set, or files of one format."""
    if (folder / "meta" / "info.json").is_file():
        # only its tables are opened; there may be videos of any size
        files = sorted((folder / "data").glob("**/*.parquet"), key=natural)
        if not files:
            raise CaptureError(f"LeRobot data set {folder} has no Parquet file below {folder / 'data'}; copy it there.")
        return FolderSource(folder, files, labels)
    if is_bag(folder):
        return open_file(folder, labels)
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    files = [entry for entry in entries if entry.is_file() and entry.suffix.lower() in ENDINGS]
    files = sorted(files or filter(is_bag, entries), key=natural)
    return FolderSource(folder, files, labels) if files else None


def natural(file: Path) -> list[tuple[int, str]]:
    """Sort key for natural order: run 9 before run 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", str(file)) if part]


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
        self.messages = first.messages
        self._columns = () if self.messages else first.columns()  # a log of messages has many, which are not needed here
        self._own = FILE not in {column.name for column in self._columns}
        self._breaks, self._notes, self._ends = np.empty(0, dtype=np.int64), list[str](), np.zeros(1, dtype=np.int64)
        if not self.messages:
            self._index(first)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"files": tuple(file.absolute() for file in self.files)}

    def _index(self, first: LogSource) -> None:
        """Read the columns, the number of rows and the rows without a successor of every file, once."""
        rows, breaks = [0], []
        for number, file in enumerate(self.files):
            source = first if number == 0 else self._open(number)
            if number:
                self._check_columns(file, source)
            breaks.append(source.breaks() + sum(rows))
            self._notes += [f"{file.name}: {note}" for note in source.notes()]
            rows.append(source.rows)
            source.release()
        self._ends, self._breaks = np.cumsum(rows, dtype=np.int64), np.concatenate(breaks)

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        if not self.messages:
            return self
        return FolderSource(self.path, self.files, self.labels, (names, rows_of, after, clock))

    def breaks(self) -> Ints:
        return self._breaks

    def notes(self) -> list[str]:
        return self._notes

    def columns(self) -> tuple[Column, ...]:
        if self.messages:
            return (*self._open(0).columns(), Column(FILE, "text"))
        return (*self._columns, *([Column(FILE, "text")] if self._own else []))

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
            source = self._open(number)
            known = {name for column in source.columns() for name in column.entries}
            for name in inner:
                if name not in known:
                    raise CaptureError(
                        f"{self.files[number]} has no value {shortened(name)!r}, although other files of {self.path} do; "
                        "give all files the same columns."
                    )
            low, high = max(first, begins) - begins, min(last, ends) - begins
            yield from self._named(source.pieces(inner or [next(iter(known))], low, high), number, names)

    def _named(self, tables: Iterator[Table], number: int, names: Sequence[str]) -> Iterator[Table]:
        """Rows of one file, with its name if requested."""
        for table in tables:
            if FILE in names and self._own:
                n = len(next(iter(table.values())))
                table = table | {FILE: np.full(n, self._label(number))}
            yield {name: table[name] for name in names}

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
