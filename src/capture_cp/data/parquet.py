"""Logs in Parquet files, with columns of numbers, text, and lists of equal length; read in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
from pyarrow import types

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import check_unpacked
from capture_cp.data.source import LONGEST_LABEL, MOST_COLUMNS, PIECE, Column, LogSource, Table, check_names, limits, no_rows

#: Largest number of values in a piece: 64 MiB.
MOST_NUMBERS = 1 << 23
#: Additional unpacked bytes allowed for a file that is streamed, since these cost only time.
STREAMED = 1 << 36
#: How files are opened: with small buffers, and none of a whole row group, which may be larger than memory; and with limits
#: for the longest text and the longest list in their metadata.
_SETTINGS = {
    "buffer_size": 1 << 20,
    "pre_buffer": False,
    "thrift_string_size_limit": 1 << 24,
    "thrift_container_size_limit": 1 << 20,
}


class ParquetSource(LogSource):
    """A Parquet file; `labels` is a column that may contain text. With `content`, a file open for reading, that is read."""

    def __init__(self, path: Path, labels: str | None = None, content: IO[bytes] | None = None) -> None:
        self.path, self.labels, self._content = path, labels, content
        self._widths: dict[str, int | None] = {}
        self._kinds: dict[str, str] = {}
        with self._opened() as file:
            schema = file.schema_arrow
            check_names(path, schema.names)
            self._kinds = {field.name: _kind(field.type) for field in schema}
            groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            if min(groups, default=0) < 0 or sum(groups) != file.metadata.num_rows:
                raise ValueError("the number of rows differs from the stated one")
        self._ends: Ints = np.cumsum([0, *groups], dtype=np.int64)
        if not self._kinds or self.rows == 0:
            raise no_rows(path)

    @property
    def rows(self) -> int:
        return int(self._ends[-1])

    def columns(self) -> tuple[Column, ...]:
        found = [self._column(name) for name in self._kinds]
        if sum(column.width or 1 for column in found) > MOST_COLUMNS:
            raise CaptureError(
                f"transition file {self.path} has more than {MOST_COLUMNS:,} numbers per row; that is too many for a log."
            )
        return tuple(found)

    def check_whole(self, names: Sequence[str]) -> None:
        check_unpacked(self.path, "transition file", 8 * self.rows * max(1, len(names)))

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        wanted = {column.name: column for column in map(self._owner, names)}
        if first == last:
            return
        self._check_streamed(last - first, len(names))
        groups = range(int(np.searchsorted(self._ends, first, "right")) - 1, int(np.searchsorted(self._ends, last)))
        row = int(self._ends[groups[0]])
        numbers = sum(column.width or 1 for column in wanted.values())
        size = max(1, min(PIECE, MOST_NUMBERS // max(1, numbers)))
        with self._opened() as file:
            for batch in file.iter_batches(size, list(groups), list(wanted), use_threads=False):
                low, high = max(first - row, 0), min(last - row, batch.num_rows)
                if low < high:
                    table: Table = {}
                    for name, column in wanted.items():
                        table |= self._values(column, batch.column(name).slice(low, high - low), row + low)
                    yield {name: table[name] for name in names}
                row += batch.num_rows
            if row < last:
                raise ValueError("the number of rows differs from the stated one")

    def _check_streamed(self, rows: int, columns: int) -> None:
        """Raise an error for an implausible number of rows: run-length encoding can store any number in a small file."""
        if 8 * rows * columns > STREAMED:
            check_unpacked(self.path, "transition file", 8 * rows * columns - STREAMED)

    def _column(self, name: str) -> Column:
        kind = self._kinds[name]
        if kind != "list":
            return Column(name, kind)
        width = self._width(name)
        return Column(name, "lists that are empty or missing" if width is None else "number", width)

    def _owner(self, entry: str) -> Column:
        """The column that a value belongs to; other columns are not examined, since that may require reading a row."""
        return self._column(entry if entry in self._kinds else entry.rpartition("_")[0])

    def _width(self, name: str) -> int | None:
        """Length of the lists of a column, from the first list."""
        if name not in self._widths:
            with self._opened() as file:
                group = int(np.flatnonzero(np.diff(self._ends))[0])
                batch = next(file.iter_batches(1, [group], [name], use_threads=False))
                self._widths[name] = len(batch.column(name).flatten()) or None
        return self._widths[name]

    def _values(self, column: Column, values: Any, row: int) -> Table:
        """Arrays (n,) by name of one column, whose first value is in `row`."""
        if column.width is not None:
            numbers = self._lists(column, values, row)
            return {name: numbers[:, i] for i, name in enumerate(column.entries)}
        if column.kind == "text":
            return {column.name: self._words(column.name, values)}
        return {column.name: _numbers(values)}

    def _lists(self, column: Column, values: Any, row: int) -> npt.NDArray[Any]:
        """Numbers (n, width) of a column of lists, checked to be complete and of equal length."""
        if values.null_count:
            where = row + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) + 1
            raise CaptureError(f"column {column.name!r} of {self.path} has no list in data row {where}; fill it in.")
        if not types.is_fixed_size_list(values.type):
            other = np.flatnonzero(np.diff(np.from_dlpack(values.offsets)) != column.width)
            if len(other):
                raise CaptureError(
                    f"column {column.name!r} of {self.path} contains lists of different lengths, first in data row "
                    f"{row + int(other[0]) + 1}, not numbers of one width; make them {column.width} long."
                )
        return _numbers(values.flatten()).reshape(len(values), -1)

    def _words(self, name: str, values: Any) -> npt.NDArray[Any]:
        """Words (n,) of a dictionary-encoded column."""
        words = values if types.is_dictionary(values.type) else values.dictionary_encode()
        if words.null_count:
            raise CaptureError(
                f"column {shortened(name)!r} of {self.path} has no value in {words.null_count} rows; fill them in."
            )
        known = [str(word) for word in words.dictionary.to_pylist()]
        if max(map(len, known), default=0) > LONGEST_LABEL:
            raise CaptureError(
                f"transition file {self.path} has a label of over {LONGEST_LABEL} characters; use shorter ones."
            )
        return np.asarray(np.array(known)[np.from_dlpack(words.indices)])

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file opened with pyarrow; any error becomes one sentence.

        Column metadata are not accessed: an inconsistent footer makes pyarrow abort the process.
        """
        # dictionary-encoded: otherwise a long word that every row points to could fill memory
        words = [name for name in [self.labels] if name is not None and self._kinds.get(name) == "text"]
        source = self.path if self._content is None else self._content
        try:
            with pyarrow.parquet.ParquetFile(source, read_dictionary=words, **_SETTINGS) as file:
                yield file
        except (CaptureError, GeneratorExit):
            raise
        except Exception:  # Arrow's own errors, and those of its bindings on inconsistent metadata
            raise CaptureError(f"transition file {self.path} is not a Parquet file, or is damaged.") from None


def _numbers(values: Any) -> npt.NDArray[Any]:
    """Numbers (n,) of an Arrow array, NaN where one is missing."""
    if values.null_count or values.type.bit_width < 8:
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return np.from_dlpack(values)  # unlike to_numpy, it does not import pandas


def _kind(kind: Any) -> str:
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_dictionary(kind):
        return "text"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _kind(kind.value_type)
        return "list" if inner == "number" else f"lists of {inner}"
    return shortened(str(kind))
