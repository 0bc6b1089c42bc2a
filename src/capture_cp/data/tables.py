"""Tables read by pyarrow: Parquet files in pieces, and CSV files, which are parsed once and then kept as Parquet."""

from __future__ import annotations

import csv
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import check_unpacked
from capture_cp.data.source import (
    LONGEST_LABEL,
    Column,
    LogSource,
    Table,
    base_name,
    check_names,
    check_width,
    damage_explained,
    limits,
    no_rows,
    rows_at_once,
)

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
#: Bytes of a CSV file's numbers that are kept in memory; more of them lie in a temporary file.
IN_MEMORY = 1 << 26
BLOCK = 1 << 22  # bytes of text that are parsed at a time


class ParquetSource(LogSource):
    """A Parquet file with columns of numbers, text, and lists of equal length, or `content`, a file open for reading."""

    def __init__(self, path: Path, labels: str | None = None, content: IO[bytes] | None = None) -> None:
        self.path, self._content = path, content
        self._widths: dict[str, int | None] = {}
        self._kinds: dict[str, str] = {}
        with self._opened() as file:
            schema, metadata = file.schema_arrow, file.metadata
            check_names(path, schema.names)
            self._kinds = {field.name: _kind(field.type) for field in schema}
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
                raise ValueError("the number of rows differs from the stated one")
        self._ends: Ints = np.cumsum([0, *groups], dtype=np.int64)
        if not self._kinds or self.rows == 0:
            raise no_rows(path)

    @property
    def rows(self) -> int:
        return int(self._ends[-1])

    def columns(self) -> tuple[Column, ...]:
        found = tuple(self._column(name) for name in self._kinds)
        check_width(self.path, sum(column.width or 1 for column in found))
        return found

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        # other columns are not examined, since that may require reading a row
        owners = [self._column(name if name in self._kinds else name.rpartition("_")[0]) for name in names]
        wanted = {column.name: column for column in owners}
        if first == last:
            return
        if 8 * (last - first) * len(names) > STREAMED:  # run-length encoding can store any number of rows in a small file
            check_unpacked(self.path, "transition file", 8 * (last - first) * len(names) - STREAMED)
        groups = range(int(np.searchsorted(self._ends, first, "right")) - 1, int(np.searchsorted(self._ends, last)))
        row = int(self._ends[groups[0]])
        size = rows_at_once(wanted.values())
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

    def _column(self, name: str) -> Column:
        """A column; the length of its lists, if it has any, is that of the first one."""
        kind = self._kinds[name]
        if kind != "list":
            return Column(name, kind)
        if name not in self._widths:
            with self._opened() as file:
                group = int(np.flatnonzero(np.diff(self._ends))[0])
                batch = next(file.iter_batches(1, [group], [name], use_threads=False))
                self._widths[name] = len(batch.column(name).flatten()) or None
        width = self._widths[name]
        return Column(name, "lists that are empty or missing" if width is None else "number", width)

    def _values(self, column: Column, values: Any, row: int) -> Table:
        """Arrays (n,) by name of one column, whose first value is in `row`."""
        if column.width is not None:
            return dict(zip(column.entries, self._lists(column, values, row).T))
        return {column.name: self._words(column.name, values) if column.kind == "text" else _numbers(values)}

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
        words = [name for name, kind in self._kinds.items() if kind == "text"]
        source = self.path if self._content is None else self._content
        what = f"transition file {self.path}", "a Parquet file"  # errors of Arrow, and of its bindings
        with damage_explained(*what), pyarrow.parquet.ParquetFile(source, read_dictionary=words, **_SETTINGS) as file:
            yield file


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


class CsvSource(LogSource):
    """A CSV file: a line of names, then numbers, and text in `labels` and wherever the first row has text."""

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path = path
        with self._explained(), path.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            self._names = [name.strip() for name in next(lines, [])]
            self._header, second = lines.line_num, next(lines, None)
        check_names(path, self._names)
        if not self._names or second is None:
            raise no_rows(path)
        self._parsed = self._names  # columns that are parsed; text in others does no harm
        self._labels = labels
        self._text = {labels, *(name for name, cell in zip(self._names, second) if cell.strip() and not _is_number(cell))}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_table"}  # read again

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        needed = {base_name(name) for name in names}
        self._text -= needed  # those are to be numbers
        wanted = {self._labels, *needed}
        chosen = [name for name in self._names if name in wanted or name.rpartition("_")[0] in needed]
        self._parsed = chosen or self._names
        return self

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "text" if name in self._text else "number") for name in self._names)

    @property
    def rows(self) -> int:
        return self._table.rows

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        yield from self._table.pieces(names, start, stop)

    def release(self) -> None:
        self.__dict__.pop("_table", None)

    @cached_property
    def _table(self) -> ParquetSource:
        """The columns that are needed, in a temporary Parquet file."""
        fields = [(name, pyarrow.string() if name in self._text else pyarrow.float64()) for name in self._parsed]
        schema = pyarrow.schema(fields)
        words: Any = [name for name in self._parsed if name in self._text] or False
        plain = {"compression": "none", "write_statistics": False, "use_dictionary": words}
        try:
            file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - open as long as this source
            weakref.finalize(self, file.close)
            with self._explained(), pyarrow.parquet.ParquetWriter(file, schema, **plain) as writer:
                for batch in pyarrow.csv.open_csv(
                    self.path,
                    pyarrow.csv.ReadOptions(column_names=self._names, skip_rows=self._header, block_size=BLOCK),
                    pyarrow.csv.ParseOptions(newlines_in_values=True),
                    pyarrow.csv.ConvertOptions(column_types=schema, include_columns=schema.names, null_values=[]),
                ):
                    columns = [  # without the spaces around words
                        pyarrow.compute.utf8_trim_whitespace(column) if types.is_string(column.type) else column
                        for column in batch.columns
                    ]
                    writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
            return ParquetSource(self.path, content=file)
        except OSError as error:
            raise CaptureError(
                f"cannot keep the numbers of {self.path} in a temporary file: {error.strerror or error}; free space in "
                f"{tempfile.gettempdir()}, set TMPDIR, or convert the file to Parquet."
            ) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error of the readers into one sentence."""
        try:
            yield
        except (UnicodeDecodeError, csv.Error):
            raise CaptureError(
                f"transition file {self.path} is neither Parquet, npz, HDF5, a bag nor CSV text, or is damaged; a CSV file "
                "is a line of names, then numbers."
            ) from None
        except pyarrow.ArrowInvalid as error:
            trouble = self._trouble() or shortened(" ".join(str(error).split()))
            raise CaptureError(
                f"transition file {self.path} is not a CSV of numbers under one line of names: {trouble}."
            ) from None

    def _trouble(self) -> str | None:
        """A description of the first place where the file is not a table of numbers."""
        numbers = set(self._parsed) - self._text
        with self.path.open(newline="", encoding="utf-8-sig", errors="replace") as text:
            rows = csv.reader(text)
            try:
                next(rows, None)
                for row in rows:
                    if row and len(row) != len(self._names):
                        return f"line {rows.line_num} has {len(row)} values under {len(self._names)} names"
                    for name, value in zip(self._names, row):
                        if name in numbers and not _is_number(value):
                            return f"line {rows.line_num}, column {shortened(name)!r} contains {shortened(value)!r}"
            except csv.Error as error:
                return f"line {rows.line_num}, {error}"
        return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
