"""Columns of a table that are kept for reading in pieces: in memory while they are few, then in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from capture_cp.data.csv_tables import Table
from capture_cp.data.source import PIECE

#: Bytes that are kept in memory.
IN_MEMORY = 1 << 24


class _Part(NamedTuple):
    first: int
    rows: int
    place: int  # in the file
    table: Table | None  # in memory


class Spool:
    """Parts of a table, added once in order, of float64 and int64 columns; read any number of times."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._file: IO[bytes] | None = None
        self._types: dict[str, np.dtype[np.generic]] = {}
        self.rows = 0

    def add(self, table: Table) -> None:
        """Append rows."""
        rows = len(next(iter(table.values())))
        if rows == 0:
            return
        self._types = {name: column.dtype for name, column in table.items()}
        place = self._written(table) if 8 * (self.rows + rows) * len(table) > IN_MEMORY else None
        kept = {name: column.copy() for name, column in table.items()} if place is None else None
        self._parts.append(_Part(self.rows, rows, place or 0, kept))
        self.rows += rows

    def _written(self, table: Table) -> int | None:
        """Where in the file the columns begin; None if they cannot be written, as without a folder for temporary files."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the spool, and without a name
            place = self._file.seek(0, 2)
            for column in table.values():
                self._file.write(np.ascontiguousarray(column).data)
            self._file.flush()
        except OSError:
            return None
        return place

    def pieces(self, names: Sequence[str], first: int, last: int) -> Iterator[Table]:
        """Rows from first to last of some columns, in order, at most `PIECE` at a time."""
        for part in self._parts:
            for row in range(max(first, part.first), min(last, part.first + part.rows), PIECE):
                stop = min(row + PIECE, last, part.first + part.rows)
                yield {name: self._column(part, name, row - part.first, stop - part.first) for name in names}

    def _column(self, part: _Part, name: str, low: int, high: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        if part.table is not None:
            return part.table[name][low:high]
        assert self._file is not None
        found = np.empty(high - low, dtype=self._types[name])
        self._file.seek(part.place + 8 * (part.rows * list(self._types).index(name) + low))
        if self._file.readinto(found.view(np.uint8).data) != found.nbytes:  # type: ignore[attr-defined]
            raise OSError("the temporary file was cut short")
        return found
