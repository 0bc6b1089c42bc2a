"""Logs in CSV files: a line of names, then numbers; one column may contain text. Parsed once, then kept as Parquet."""

from __future__ import annotations

import csv
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.data.parquet import ParquetSource
from capture_cp.data.selection import base_name
from capture_cp.data.source import Column, LogSource, Table, check_names, no_rows

#: Bytes of numbers that are kept in memory; more of them lie in a temporary file.
IN_MEMORY = 1 << 26
BLOCK = 1 << 22  # bytes of text that are parsed at a time


class CsvSource(LogSource):
    """A CSV file; `labels` is a column that may contain text."""

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path, self.labels = path, labels
        self._needed: frozenset[str] | None = None  # names of columns or their common beginnings; None for all
        self._parsed: ParquetSource | None = None
        with self._explained(), path.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            self._names = [name.strip() for name in next(lines, [])]
            self._header, second = lines.line_num, next(lines, None)
        check_names(path, self._names)
        if not self._names or second is None:
            raise no_rows(path)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_parsed": None}  # the receiver reads the file again

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        self._needed = frozenset(base_name(name) for name in names)
        if self.labels in self._needed:  # then its labels are numbers
            self.labels = None
        return self

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "text" if name == self.labels else "number") for name in self._names)

    @property
    def rows(self) -> int:
        return self._table().rows

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        if not set(names) <= set(self._wanted):
            self._needed = self._parsed = None
        yield from self._table().pieces(names, start, stop)

    def release(self) -> None:
        self._parsed = None

    @property
    def _wanted(self) -> list[str]:
        """The columns that are parsed; text in others does no harm."""
        needed = self._needed
        if needed is None:
            return self._names
        wanted = {self.labels, *needed}
        return [name for name in self._names if name in wanted or name.rpartition("_")[0] in needed] or self._names

    def _table(self) -> ParquetSource:
        if self._parsed is None:
            try:
                self._parsed = ParquetSource(self.path, self.labels, self._converted())
            except OSError as error:
                raise CaptureError(
                    f"cannot keep the numbers of {self.path} in a temporary file: {error.strerror or error}; free space in "
                    f"{tempfile.gettempdir()}, set TMPDIR, or convert the file to Parquet."
                ) from None
        return self._parsed

    def _converted(self) -> IO[bytes]:
        """The columns that are needed, as a Parquet file."""
        fields = [(name, pyarrow.string() if name == self.labels else pyarrow.float64()) for name in self._wanted]
        schema = pyarrow.schema(fields)
        file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - open as long as this source
        weakref.finalize(self, file.close)
        words: Any = [self.labels] if self.labels in schema.names else False
        plain = {"compression": "none", "write_statistics": False, "use_dictionary": words}
        with self._explained(), pyarrow.parquet.ParquetWriter(file, schema, **plain) as writer:
            for batch in self._batches(schema):
                columns = [_trimmed(column) for column in batch.columns]
                writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
        return file

    def _batches(self, schema: Any) -> Any:
        return pyarrow.csv.open_csv(
            self.path,
            pyarrow.csv.ReadOptions(column_names=self._names, skip_rows=self._header, block_size=BLOCK),
            pyarrow.csv.ParseOptions(newlines_in_values=True),
            pyarrow.csv.ConvertOptions(column_types=schema, include_columns=schema.names, null_values=[]),
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error of the readers into one sentence."""
        try:
            yield
        except (UnicodeDecodeError, csv.Error):
            raise CaptureError(
                f"transition file {self.path} is not CSV text; expected a line of names, then numbers."
            ) from None
        except pyarrow.ArrowInvalid as error:
            trouble = self._trouble() or shortened(" ".join(str(error).split()))
            raise CaptureError(
                f"transition file {self.path} is not a CSV of numbers under one line of names: {trouble}."
            ) from None

    def _trouble(self) -> str | None:
        """A description of the first place where the file is not a table of numbers."""
        numbers = set(self._wanted) - {self.labels}
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


def _trimmed(column: Any) -> Any:
    """A column, without the spaces around words."""
    return pyarrow.compute.utf8_trim_whitespace(column) if pyarrow.types.is_string(column.type) else column


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
