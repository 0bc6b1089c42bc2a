"""Columns of a table that are kept for reading in pieces: in memory while they are few, then in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from capture_cp.data.csv_tables import Table
from capture_cp.data.source import PIECE, LogSource

#: Bytes that are kept in memory.
IN_MEMORY = 1 << 24


class _Part(NamedTuple):
    first: int
    rows: int
    place: int  # in the file
    table: Table | None  # in memory


class Spool:
    """Parts of a table of numbers, added once in order and read any number of times."""

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
        self._types = self._types or {name: column.dtype for name, column in table.items()}
        place = self._written(table) if self.bytes + self.row_bytes * rows > IN_MEMORY else None
        kept = {name: column.copy() for name, column in table.items()} if place is None else None
        self._parts.append(_Part(self.rows, rows, place or 0, kept))
        self.rows += rows

    @property
    def row_bytes(self) -> int:
        """Bytes per row."""
        return sum(kind.itemsize for kind in self._types.values())

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.row_bytes

    def fits(self, table: Table) -> bool:
        """Whether a table has the same columns, of the same types."""
        return not self._types or {name: column.dtype for name, column in table.items()} == self._types

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

    @property
    def on_disk(self) -> bool:
        """Whether all rows beyond the first few are in a file."""
        return all(part.table is None for part in self._parts[-1:]) or self.bytes <= IN_MEMORY

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
        before = list(self._types.values())[: list(self._types).index(name)]
        self._file.seek(part.place + part.rows * sum(kind.itemsize for kind in before) + low * found.itemsize)
        if self._file.readinto(found.view(np.uint8).data) != found.nbytes:  # type: ignore[attr-defined]
            raise OSError("the temporary file was cut short")
        return found


class Rereading:
    """Columns of a source that is read several times: rows are kept in a temporary file when they are first read.

    Numbers in a file are read far faster than packed ones. Rows beyond `most` bytes, and all later ones if the file cannot
    be written, are read from the source each time.
    """

    def __init__(self, source: LogSource, most: int = 1 << 32) -> None:
        self._source, self._most = source, most
        self._spool, self._open = Spool(), True

    def pieces(self, names: Sequence[str], first: int, last: int) -> Iterator[Table]:
        """Rows from first to last, in order; `names` are the same each time."""
        kept = min(last, max(first, self._spool.rows))
        yield from self._spool.pieces(names, first, kept)
        row = kept
        for table in self._source.pieces(names, kept, last) if kept < last else ():
            if self._open and row == self._spool.rows:
                self._keep(table)
            row += len(table[names[0]])
            yield table

    def _keep(self, table: Table) -> None:
        self._open = self._spool.fits(table) and self._spool.bytes < self._most
        if self._open:
            self._spool.add(table)
            self._open = self._spool.on_disk
