"""Logs in files that can only be read whole, such as npz; they are divided into pieces in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from capture_cp.data.csv_tables import Table
from capture_cp.data.source import PIECE, Column, LogSource, limits
from capture_cp.data.tables import read_table


class TableSource(LogSource):
    """A log whose columns (n,) are loaded into memory on first use."""

    def __init__(self, path: Path, table: Table | None = None) -> None:
        self.path, self._table = path, table

    def _read(self) -> Table:
        """All columns (n,) by name."""
        raise NotImplementedError

    @property
    def _columns(self) -> Table:
        if self._table is None:
            self._table = self._read()
        return self._table

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, _kind(column)) for name, column in self._columns.items())

    @property
    def rows(self) -> int:
        return len(next(iter(self._columns.values())))

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        for row in range(first, last, PIECE):
            yield {name: self._columns[name][row : min(row + PIECE, last)] for name in names}


class WholeSource(TableSource):
    """An npz file."""

    def __init__(self, path: Path, labels: str | None = None) -> None:
        super().__init__(path)

    def _read(self) -> Table:
        return read_table(self.path)

    def release(self) -> None:
        self._table = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_table": None}  # the receiver reads the file again


def _kind(column: Any) -> str:
    kind = column.dtype.kind
    return "number" if kind in "biuf" else "text" if kind in "US" else str(column.dtype)
