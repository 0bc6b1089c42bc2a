"""Tables of named columns (n,) in memory: read from npz files, and written to files."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.arrays import read_arrays
from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.base.files import Pathlike, written_whole
from capture_cp.data.source import PIECE, Column, LogSource, Table, check_width, limits, no_rows


class TableSource(LogSource):
    """A log that can only be read whole: its columns (n,) are loaded into memory on first use, and divided there."""

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path = path
        self._table: Table | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_table": None}  # the receiver reads the file again

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

    def release(self) -> None:
        self._table = None


class NpzSource(TableSource):
    """An npz file of one array per column, or of arrays (n, d), whose columns are called name_0, name_1, ..."""

    def _read(self) -> Table:
        table: Table = {}
        for name, array in read_arrays(self.path, "transition file").items():
            what = f"array {shortened(name)!r} of {self.path} has"
            if array.ndim not in (1, 2):
                raise CaptureError(f"{what} shape {array.shape[:4]}; expected (n,) or (n, d).")
            check_width(self.path, len(table) + (array.shape[1] if array.ndim == 2 else 1))
            columns = {name: array} if array.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(array.T)}
            for column in columns.keys() & table.keys():
                raise CaptureError(f"two arrays of {self.path} have the column {column!r}; rename one.")
            table |= columns
        lengths = {len(column) for column in table.values()}
        if not table or lengths == {0}:
            raise no_rows(self.path)
        if len(lengths) > 1:
            raise CaptureError(
                f"transition file {self.path} has columns of different lengths {sorted(lengths)}; expected one length."
            )
        return table


def _kind(column: Any) -> str:
    kind = column.dtype.kind
    return "number" if kind in "biuf" else "text" if kind in "US" else str(column.dtype)


def write_table(path: Pathlike, table: Table) -> None:
    """Write columns (n,) to a file, atomically; its ending determines the format."""
    write = FORMATS[known_name(f"ending of {path},", Path(path).suffix.lower(), FORMATS)]
    with written_whole(path) as temporary:
        write(temporary, table)


def _write_parquet(file: Path, table: Table) -> None:
    import pyarrow.parquet  # only where one is written

    pyarrow.parquet.write_table(pyarrow.table(dict(table)), file)


def _write_npz(file: Path, table: Table) -> None:
    # not np.savez, which accepts column names as keyword arguments and so cannot write one called "file"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in table.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(column), allow_pickle=False)


def _write_csv(file: Path, table: Table) -> None:
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values())))


#: Formats that can be written.
FORMATS: Mapping[str, Callable[[Path, Table], None]] = {
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".csv": _write_csv,
}
