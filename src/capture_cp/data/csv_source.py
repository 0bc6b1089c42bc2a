"""Logs in CSV files: their text is read once, and their numbers are then read in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError
from capture_cp.data.csv_tables import CsvFile, Table, labels_of
from capture_cp.data.selection import base_name
from capture_cp.data.source import Column, LogSource, limits
from capture_cp.data.spool import Spool


class CsvSource(LogSource):
    """A CSV file; `labels` is a column that may contain text."""

    rereads_cheaply = spools = True

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path, self.labels = path, labels
        self._needed: frozenset[str] | None = None  # names of columns or their common beginnings; None for all
        self._spool: Spool | None = None
        self._names: tuple[str, ...] = ()
        self._words: npt.NDArray[Any] = np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_spool": None}  # the receiver reads the file again

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        self._needed, self._spool = frozenset(base_name(name) for name in names), None
        return self

    def columns(self) -> tuple[Column, ...]:
        self._read()
        text = "text" if self._words.dtype.kind == "U" else "number"
        return tuple(Column(name, text if name == self.labels else "number") for name in self._names)

    @property
    def rows(self) -> int:
        return self._read().rows

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        if self._spool is not None and not all(map(self._keeps, names)):
            self._needed, self._spool = None, None
        first, last = limits(self.rows, start, stop)
        for table in self._read().pieces(names, first, last):
            if self.labels in table:
                table[self.labels] = self._words[table[self.labels]]
            yield table

    def release(self) -> None:
        self._spool = None

    def _keeps(self, column: str) -> bool:
        needed = self._needed
        return needed is None or column == self.labels or column in needed or column.rpartition("_")[0] in needed

    def _read(self) -> Spool:
        if self._spool is None:
            file = CsvFile(self.path, self.labels)
            self._names, spool = tuple(file.names), Spool()
            for table, afresh in file.tables():
                spool = Spool() if afresh else spool
                spool.add({name: column for name, column in table.items() if self._keeps(name)} or table)
            if spool.rows == 0:
                raise CaptureError(
                    f"transition file {self.path} holds no transitions; expected named columns with at least one row."
                )
            self._words = labels_of(self.path, list(file.words))
            self._spool = spool
        return self._spool
