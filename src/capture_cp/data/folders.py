"""Several logs with the same columns as one: a folder, a pattern such as runs/*.csv, a LeRobot data set, motions of SAGE."""

from __future__ import annotations

import glob
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.sage import STATE, motions_in
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

INFO = Path("meta", "info.json")  # what a LeRobot data set says of itself


class JoinedSource(LogSource):
    """Logs one after the other, such as the files of a folder, as one log; a column `label` has the name of each.

    Attributes:
        files: where they are, as paths of files or of groups in a file.
        label: the column of their names; it is left out where they have a column of that name.
    """

    files: Sequence[Path]
    label: str

    @abstractmethod
    def _open(self, number: int) -> LogSource:
        """One of them."""

    @abstractmethod
    def _name(self, number: int) -> str:
        """Its name in the column `label`."""

    @cached_property
    def _first(self) -> tuple[Column, ...]:
        return self._open(0).columns()

    @cached_property
    def _own(self) -> bool:
        return self.label not in {column.name for column in self._first}

    @cached_property
    def _index(self) -> tuple[Ints, Ints, list[str]]:
        """Their ends, rows without a successor and notes: each is read once."""
        rows, breaks, notes = [0], [], list[str]()
        for number, file in enumerate(self.files):
            source = self._open(number)
            breaks.append(source.breaks() + sum(rows))
            notes += [f"{file.name}: {note}" for note in source.notes()]
            rows.append(source.rows)
            source.release()
        return np.cumsum(rows, dtype=np.int64), np.concatenate(breaks), notes

    def breaks(self) -> Ints:
        return self._index[1]

    def notes(self) -> list[str]:
        return self._index[2]

    def columns(self) -> tuple[Column, ...]:
        return (*self._first, *([Column(self.label, "text")] if self._own else []))

    @property
    def rows(self) -> int:
        return int(self._index[0][-1])

    def parts(self) -> Ints:
        return self._index[0][:-1]

    def locate(self, row: int) -> tuple[Path, int]:
        number = int(np.searchsorted(self.parts(), row, "right")) - 1
        return self.files[number], row - int(self.parts()[number])

    def check_whole(self, names: Sequence[str]) -> None:
        for number in range(len(self.files)):
            self._open(number).check_whole(names)

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        inner, ends = self._inner(names), self._index[0].tolist()
        for number in range(int(np.searchsorted(ends, first, "right")) - 1, len(self.files)):
            begins = ends[number]
            if begins >= last:
                return
            low, high = max(first, begins) - begins, min(last, ends[number + 1]) - begins
            for table in self._checked(number, inner).pieces(inner, low, high) if inner else _numbered(low, high):
                if len(inner) < len(names):
                    table[self.label] = np.full(len(next(iter(table.values()))), self._label(number))
                yield {name: table[name] for name in names}

    def _inner(self, names: Sequence[str]) -> list[str]:
        """The names of columns that they have themselves."""
        return [name for name in names if name != self.label or not self._own]

    def _label(self, number: int) -> str:
        name = self._name(number)
        return name if len(name) <= LONGEST_LABEL else f"{number}: {name[-LONGEST_LABEL + 20 :]}"  # unique

    def _checked(self, number: int, names: Sequence[str]) -> LogSource:
        """One of them, whose columns of these names have the types and widths of the first one."""
        source, first = self._open(number), {name: column for column in self._first for name in column.entries}
        here = {column.name: column for column in source.columns()}
        for column in dict.fromkeys(first[name] for name in names):
            other = here.get(column.name)
            if other != column:
                width = f", {other.width} per row" if other and other.width else ""
                raise CaptureError(
                    f"{self.files[number]} differs from {self.files[0].name} in column {shortened(column.name)!r}, which "
                    f"{f'contains {other.kind}{width}' if other else 'is missing'}; give all parts of {self.path} the same."
                )
        return source


def _numbered(low: int, high: int) -> Iterator[Table]:
    """Tables of rows that have only their numbers."""
    yield from ({"": np.arange(row, min(row + PIECE, high))} for row in range(low, high, PIECE))


class FolderSource(JoinedSource):
    """Files of one format, or motions of SAGE."""

    def __init__(
        self,
        path: Path,
        files: Sequence[Path],
        labels: str | None = None,
        label: str = "file",
        arrangement: tuple[Any, ...] | None = None,
    ) -> None:
        self.path, self.files, self.labels, self.label = path, tuple(files), labels, label
        self._arrangement = arrangement
        for file in self.files:
            if label == "file" and file.suffix.lower() != self.files[0].suffix.lower():
                raise CaptureError(
                    f"{path} mixes formats: {file.name} and {self.files[0].name}; keep one format per folder."
                )
        self.messages = self._open(0).messages

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"files": tuple(file.absolute() for file in self.files)}

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        arrangement = self._inner(names), rows_of, after, clock
        return FolderSource(self.path, self.files, self.labels, self.label, arrangement)

    def entry_names(self) -> dict[str, str]:
        try:  # of a LeRobot data set: a list of names, or one by the kind of the entries
            features = json.loads(existing_file(self.path / INFO, "description").read_text("utf-8"))["features"]
            found: dict[str, str] = {}
            for column in self._first:
                names = features[column.name]["names"] if column.width else ()
                names = next(iter(names.values()), ()) if isinstance(names, dict) else names
                found |= {entry: str(name) for entry, name in zip(column.entries, names)}
            return found
        except (CaptureError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}

    def _open(self, number: int) -> LogSource:
        file = self.files[number]
        source = open_file(file if file.is_dir() else existing_file(file, "transition file"), self.labels)
        return source if self._arrangement is None else source.arranged(*self._arrangement)

    def _name(self, number: int) -> str:
        file = self.files[number]
        inside = file.relative_to(self.path) if file.is_relative_to(self.path) else file
        return inside.as_posix() if inside.name else file.absolute().name


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
        return FolderSource(folder, motions, labels, "motion")
    if not files:
        raise CaptureError(f"folder {folder} contains no log; expected files that end in {', '.join(ENDINGS)}.")
    return FolderSource(folder, files, labels)
