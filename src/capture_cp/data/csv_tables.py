"""Tables of named columns in CSV files: one line of names, then numbers; one column may hold text.

Compiled code reads long files, several times faster than NumPy. A file that is not plain enough for it is read by NumPy, so
that both give the same results and the same errors.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.data.csv_blocks import NotPlain, Words, plain_blocks

Table = dict[str, npt.NDArray[Any]]

MOST_COLUMNS = 10_000
LONGEST_LABEL = 100  # every row has space for the longest label
SMALL = 1 << 20  # bytes, of all files of a process, up to which NumPy is as fast as loading the compiled code


def read_csv(file: Path, labels: str | None) -> Table:
    """Columns (n,) of a CSV file by name; `labels` is the column that may contain text."""
    source = CsvFile(file, labels)
    parts: list[Table] = [{name: np.empty(0, np.int64 if name == labels else np.float64) for name in source.names}]
    for table, afresh in source.tables():
        parts = [table] if afresh else [*parts, table]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in source.names}
    if labels in whole:
        whole[labels] = labels_of(file, list(source.words))[whole[labels]]
    return whole


class CsvFile:
    """A CSV file whose column names have been read and checked; `labels` is the column that may contain text.

    Attributes:
        names: of the columns.
        words: the words in the column `labels`, in the order in which they first occur; known once `tables` is exhausted.
    """

    _by_numpy = 0  # bytes that NumPy has read in this process

    def __init__(self, file: Path, labels: str | None) -> None:
        self.file, self.labels, self.words = file, labels, Words()
        with self._explained(), file.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            self.names = [name.strip() for name in next(lines, [])]
            self._header = lines.line_num
        check_names(file, self.names)

    def tables(self) -> Iterator[tuple[Table, bool]]:
        """Columns (n,) by name, in pieces, and whether a piece replaces all earlier ones.

        In the column `labels` are indexes into `words`.
        """
        if not self.names:
            return
        with self._explained():
            size = self.file.stat().st_size
            if size + CsvFile._by_numpy > SMALL:
                try:
                    for table in self._plain():
                        yield table, False
                    return
                except NotPlain:
                    self.words = Words()
            CsvFile._by_numpy += size
            yield self._read_by_numpy(), True

    def _plain(self) -> Iterator[Table]:
        """The table as compiled code reads it."""
        place = self.names.index(self.labels) if self.labels in self.names else -1
        for block in plain_blocks(self.file, self._header, len(self.names), place):
            table: Table = dict(zip(self.names, block.numbers))
            if place >= 0:
                table[self.names[place]] = self.words.codes(block)
            yield table

    def _read_by_numpy(self) -> Table:
        words: Any = {i: self.words.code for i, name in enumerate(self.names) if name == self.labels} or None
        try:
            with self.file.open(newline="", encoding="utf-8-sig") as text, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty table raises a clearer error elsewhere
                next(csv.reader(text), None)
                rows = np.loadtxt(text, delimiter=",", ndmin=2, comments=None, quotechar='"', converters=words)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            trouble = _trouble(self.file, self.labels) or shortened(str(error))
            raise CaptureError(
                f"transition file {self.file} is not a CSV of numbers under one line of names: {trouble}."
            ) from None
        if rows.size and rows.shape[1] != len(self.names):
            raise CaptureError(
                f"transition file {self.file} names {len(self.names)} columns, but its rows have {rows.shape[1]} values."
            )
        table: Table = dict(zip(self.names, rows.T if rows.size else np.empty((len(self.names), 0))))
        if self.labels in table:
            table[self.labels] = table[self.labels].astype(np.int64)
        return table

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (UnicodeDecodeError, csv.Error):
            raise CaptureError(
                f"transition file {self.file} is not CSV text; expected a line of names, then numbers."
            ) from None


def check_names(file: Path, names: Sequence[str]) -> None:
    """Raise an error if there are too many column names, or if they repeat."""
    if len(names) > MOST_COLUMNS:
        raise CaptureError(f"transition file {file} has {len(names):,} columns; expected at most {MOST_COLUMNS:,}.")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        shown = ", ".join(shortened(repr(name)) for name in repeated[:5])
        raise CaptureError(f"transition file {file} repeats a column name: {shown}; give each column its own.")


def labels_of(file: Path, words: list[str]) -> npt.NDArray[Any]:
    """Labels as integers if all of them are, otherwise as text."""
    if max(map(len, words), default=0) > LONGEST_LABEL:
        raise CaptureError(f"transition file {file} has a label of over {LONGEST_LABEL} characters; use shorter ones.")
    try:
        return np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(words)


def _trouble(file: Path, labels: str | None) -> str | None:
    """A description of the first place where a CSV file is not a table of numbers."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as text:
        rows = csv.reader(text)
        try:
            names = next(rows, [])
            for row in rows:
                if row and len(row) != len(names):
                    return f"line {rows.line_num} has {len(row)} values under {len(names)} names"
                for name, value in zip(names, row):
                    if name.strip() != labels and not _is_number(value):
                        where = f"line {rows.line_num}, column {shortened(name.strip())!r}"
                        return f"{where} contains {shortened(value)!r}"
        except csv.Error as error:
            return f"line {rows.line_num}, {error}"
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def write_csv(file: Path, table: Table) -> None:
    """Write columns (n,) under a line of their names."""
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values())))
