"""Tables of named columns in CSV files: one line of names, then numbers; one column may hold text.

pyarrow reads them if it is installed, several times faster than NumPy. A file that it rejects is read by NumPy, so that both
give the same results and the same errors.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, shortened

Table = dict[str, npt.NDArray[Any]]

MOST_COLUMNS = 10_000
LONGEST_LABEL = 100  # every row has space for the longest label


def read_csv(file: Path, labels: str | None) -> Table:
    """Columns (n,) of a CSV file by name; `labels` is the column that may contain text."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            names = [name.strip() for name in next(lines, [])]
        check_names(file, names)
        table = _read_by_arrow(file, names, lines.line_num, labels) if names else {}
        return table if table is not None else _read_by_numpy(file, names, labels)
    except (UnicodeDecodeError, csv.Error):
        raise CaptureError(f"transition file {file} is not CSV text; expected a line of names, then numbers.") from None


def _read_by_arrow(file: Path, names: Sequence[str], header: int, labels: str | None) -> Table | None:
    """The table as read by pyarrow in pieces, or None if it cannot; `header` is the number of lines with names."""
    try:
        import pyarrow
        from pyarrow import csv as arrow
    except ImportError:
        return None
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    kinds = {name: words if name == labels else pyarrow.float64() for name in names}
    most = _most_rows(file)
    columns: Table = {name: np.empty(most, np.int64 if name == labels else np.float64) for name in names}
    codes: dict[str, int] = {}
    rows = 0
    try:
        pieces = arrow.open_csv(
            file,
            arrow.ReadOptions(skip_rows=header, column_names=names),
            convert_options=arrow.ConvertOptions(column_types=kinds, null_values=[], strings_can_be_null=False),
        )
        for piece in pieces:
            for name, column in zip(names, piece.columns):
                numbers = _codes(column, codes) if name == labels else np.from_dlpack(column)
                columns[name][rows : rows + len(numbers)] = numbers
            rows += piece.num_rows
    except (pyarrow.ArrowException, OSError, ValueError):
        return None
    if any('"' in word for word in codes):  # a quote inside a word is ambiguous
        return None
    table = {name: column[:rows] for name, column in columns.items()}
    if labels in table:
        table[labels] = labels_of(file, list(codes))[table[labels]]
    return table


def _most_rows(file: Path) -> int:
    """Upper bound on the number of rows of a file. Unused memory costs nothing until it is written to."""
    with file.open("rb") as data:
        return 1 + sum(piece.count(b"\n") + piece.count(b"\r") for piece in iter(lambda: data.read(1 << 20), b""))


def _codes(column: Any, codes: dict[str, int]) -> npt.NDArray[Any]:
    """Codes (n,) of the words of a column; new words are added to `codes`."""
    numbers = [codes.setdefault(str(word).strip(), len(codes)) for word in column.dictionary.to_pylist()]
    return np.asarray(np.array(numbers)[np.from_dlpack(column.indices)])


def _read_by_numpy(file: Path, names: Sequence[str], labels: str | None) -> Table:
    codes: dict[str, int] = {}

    def code(word: str) -> int:
        return codes.setdefault(word.strip(), len(codes))

    words: Any = {i: code for i, name in enumerate(names) if name == labels} or None
    try:
        with file.open(newline="", encoding="utf-8-sig") as text, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty table raises a clearer error elsewhere
            next(csv.reader(text))
            rows = np.loadtxt(text, delimiter=",", ndmin=2, comments=None, quotechar='"', converters=words)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        trouble = _trouble(file, labels) or shortened(str(error))
        raise CaptureError(f"transition file {file} is not a CSV of numbers under one line of names: {trouble}.") from None
    if rows.size and rows.shape[1] != len(names):
        raise CaptureError(f"transition file {file} names {len(names)} columns, but its rows have {rows.shape[1]} values.")
    table: Table = dict(zip(names, rows.T if rows.size else np.empty((len(names), 0))))
    if labels in table:
        table[labels] = labels_of(file, list(codes))[table[labels].astype(int)]
    return table


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
