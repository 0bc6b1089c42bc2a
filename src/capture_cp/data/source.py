"""What every log offers, in whatever format it is: named columns, and their rows in pieces of bounded size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, known_name, shortened
from capture_cp.base.files import Pathlike, existing_file
from capture_cp.data.csv_tables import Table

#: Most rows of a piece.
PIECE = 65_536

#: Which clock of a bag counts.
CLOCKS = ("received", "header")


@dataclass(frozen=True)
class Column:
    """A column of a log: its `kind` is "number", "text", or in other words what it holds that is neither.

    `width` is None for one value per row. Of a column of lists it is their length; its entries are called name_0, ...
    """

    name: str
    kind: str
    width: int | None = None

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of its values in a row."""
        return (self.name,) if self.width is None else tuple(f"{self.name}_{i}" for i in range(self.width))


class LogSource(ABC):
    """A log on disk. It can be pickled: what is open is opened again where it arrives."""

    path: Path
    #: Whether it is a log of messages, that has no rows before it is arranged.
    messages = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"path": self.path.absolute()}  # whoever gets it may stand in another folder

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """What there is in a row."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        """Rows from `start` to `stop` of some columns, in order: arrays (n,) by name, n at most 65,536.

        `names` are those of `Column.entries`.
        """

    def parts(self) -> Ints:
        """First row of each recording of the log, such as a file of a folder: (p,)."""
        return np.zeros(1, dtype=np.int64)

    def breaks(self) -> Ints:
        """Rows that lead nowhere, because something is missing behind them: (b,), ascending."""
        return np.empty(0, dtype=np.int64)

    def notes(self) -> list[str]:
        """What was left out or looks odd, a sentence each."""
        return []

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        """The log as a table of rows for these columns.

        Only a log of messages has to be told. Its rows are the messages that hold the column `rows_of`, in the order of
        `clock`; `after` are the columns that are read in the row behind, if any.
        """
        return self

    def locate(self, row: int) -> tuple[Path, int]:
        """The file that holds a row, and which of its rows that is."""
        return self.path, row

    def check_whole(self, names: Sequence[str]) -> None:  # noqa: B027 - most formats know when they open the file
        """Refuse to have these columns of all rows in memory, where the file claims more than it can hold."""

    def release(self) -> None:  # noqa: B027 - most formats keep nothing
        """Forget what is kept in memory."""


def open_log(path: Pathlike, labels: str | None = None) -> LogSource:
    """A log, by what its path is: a file by its ending, a folder, or a pattern with * or ? for several files.

    `labels` is a column that may hold text; a CSV file must know before it is read.
    """
    from capture_cp.data.folders import open_files, open_folder
    from capture_cp.data.formats import FILES, open_file

    place = Path(path)
    if any(sign in str(path) for sign in "*?") and not place.exists():
        return open_files(place, labels)
    if place.is_dir():
        found = open_folder(place, labels)
        if found is not None:
            return found
        if place.suffix.lower() not in FILES:
            raise CaptureError(f"folder {place} holds no log; expected files that end in {', '.join(FILES)}.")
    return open_file(existing_file(place, "transition file"), labels)


def entries_of(path: Pathlike, columns: Sequence[Column]) -> dict[str, Column]:
    """Which column every name of a value belongs to."""
    found: dict[str, Column] = {}
    for column in columns:
        for name in column.entries:
            if name in found:
                raise CaptureError(f"two columns of {path} claim the name {shortened(name)!r}; rename one.")
            found[name] = column
    return found


def limits(rows: int, start: int, stop: int | None) -> tuple[int, int]:
    """First and last row, which is not meant any more, of a range that was asked for."""
    last = rows if stop is None else min(stop, rows)
    if start < 0 or last < 0:
        raise CaptureError(f"rows {start} to {stop} are asked for; expected numbers from 0 to {rows}.")
    return min(start, last), last


def checked_clock(clock: str) -> str:
    """The name of a clock."""
    return known_name("clock", clock, CLOCKS)
