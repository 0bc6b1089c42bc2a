"""Transition files: Parquet, npz or CSV with named columns for state, action and next configuration."""

from __future__ import annotations

import csv
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.checks import CaptureError, Floats, finite_array, known_name, same_length
from capture_cp.files import Pathlike, existing_file, written_whole

Columns = str | Sequence[str]


@dataclass(frozen=True)
class Transitions:
    """Logged transitions: `state` (n, ds), `action` (n, da), `next` (n, dc), and the names of their columns."""

    state: Floats
    action: Floats
    next: Floats
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    next_names: tuple[str, ...]

    @classmethod
    def from_arrays(
        cls,
        state: Any,
        action: Any,
        next: Any,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        next_names: Sequence[str] | None = None,
    ) -> Transitions:
        """Transitions from arrays; columns without names are called state_0, action_0, next_0 and so on."""
        s, a, c = (finite_array(n, v, (None, None), "(n, d)") for n, v in zip(_ROLES, (state, action, next)))
        same_length("state", s, "action", a)
        same_length("state", s, "next", c)
        given = zip(_ROLES, (s, a, c), (state_names, action_names, next_names))
        s_names, a_names, c_names = (_names(role, part, names) for role, part, names in given)
        every = s_names + a_names + c_names
        if len(set(every)) != len(every):
            raise CaptureError(f"column names {list(every)} repeat; state, action and next need names of their own.")
        return cls(s, a, c, s_names, a_names, c_names)

    @property
    def X(self) -> Floats:
        """Inputs (n, ds + da): state and action side by side."""
        return np.hstack([self.state, self.action])

    @property
    def Y(self) -> Floats:
        """Outputs (n, dc): the next configurations."""
        return self.next

    @property
    def X_names(self) -> tuple[str, ...]:
        return self.state_names + self.action_names

    def __len__(self) -> int:
        return len(self.state)

    def columns(self) -> dict[str, Floats]:
        """Every column by name, (n,) each."""
        names = self.state_names + self.action_names + self.next_names
        return dict(zip(names, np.hstack([self.state, self.action, self.next]).T))


_ROLES = ("state", "action", "next")


def _names(role: str, part: Floats, given: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(given) if given is not None else tuple(f"{role}_{i}" for i in range(part.shape[1]))
    if len(names) != part.shape[1]:
        raise CaptureError(f"{role} has {part.shape[1]} columns and {len(names)} names; give one name a column.")
    return names


def read_transitions(path: Pathlike, state: Columns, action: Columns, next: Columns) -> Transitions:
    """Transitions from a .parquet, .npz or .csv file.

    Args:
        path: the file; its ending says the format.
        state: names of the state's columns, in order. In an npz file a name may also stand for a two-dimensional array,
            whose columns are then called name_0, name_1 and so on.
        action: names of the action's columns.
        next: names of the next configuration's columns.
    """
    file = existing_file(path, "transition file")
    table = _format(file)[0](file)
    lengths = {len(column) for column in table.values()}
    if not table or lengths == {0}:
        raise CaptureError(f"transition file {file} holds no transitions; expected named columns with at least one row.")
    if len(lengths) > 1:
        raise CaptureError(
            f"transition file {file} has columns of different lengths {sorted(lengths)}; expected one length."
        )
    s, a, c = (_expand(file, role, given, table) for role, given in zip(_ROLES, (state, action, next)))
    arrays = [_columns(file, part, table) for part in (s, a, c)]
    return Transitions.from_arrays(arrays[0], arrays[1], arrays[2], s, a, c)


def write_transitions(path: Pathlike, transitions: Transitions) -> None:
    """Write transitions to a .parquet, .npz or .csv file, atomically."""
    write = _format(Path(path))[1]
    with written_whole(path) as temporary:
        write(temporary, transitions.columns())


def _expand(file: Path, role: str, given: Columns, table: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Column names of one part, with the names of two-dimensional npz arrays replaced by those of their columns."""
    wanted = [given] if isinstance(given, str) else list(given)
    if not wanted:
        raise CaptureError(f"no {role} columns are named; {file} has {', '.join(table)}.")
    names: list[str] = []
    for name in wanted:
        split = [column for column in table if column.rpartition("_")[0] == name and column.rpartition("_")[2].isdigit()]
        names += split if name not in table and split else [known_name(f"column in {file}", name, table)]
    return names


def _columns(file: Path, names: Iterable[str], table: Mapping[str, npt.NDArray[Any]]) -> Floats:
    parts = []
    for name in names:
        if table[name].dtype.kind not in "biuf":
            raise CaptureError(f"column {name!r} of {file} holds {table[name].dtype}, not numbers.")
        column = table[name].astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise CaptureError(
                f"column {name!r} of {file} has {len(bad)} missing, NaN or infinite values, first in data row {bad[0] + 1}; "
                "remove or repair those rows."
            )
        parts.append(column)
    return np.stack(parts, axis=1)


def _read_csv(file: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            names = [name.strip() for name in next(csv.reader(text), [])]
            if len(set(names)) != len(names):
                raise CaptureError(f"transition file {file} repeats a column name in its first line: {names}.")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty table is refused below, in our words
                rows = np.loadtxt(text, delimiter=",", ndmin=2, dtype=np.float64) if names else np.empty((0, 0))
    except (UnicodeDecodeError, csv.Error):
        raise CaptureError(f"transition file {file} is not CSV text; expected a line of names, then numbers.") from None
    except ValueError as error:
        if isinstance(error, CaptureError):
            raise
        trouble = _csv_trouble(file) or error
        raise CaptureError(f"transition file {file} is not a CSV of numbers under one line of names: {trouble}.") from None
    if rows.size and rows.shape[1] != len(names):
        raise CaptureError(f"transition file {file} names {len(names)} columns, but its rows have {rows.shape[1]} values.")
    return dict(zip(names, rows.T)) if rows.size else {}


def _csv_trouble(file: Path) -> str | None:
    """Where a CSV file first stops being a table of numbers, in words."""
    with file.open(newline="", encoding="utf-8-sig") as text:
        rows = csv.reader(text)
        names = next(rows, [])
        for row in rows:
            if len(row) != len(names):
                return f"line {rows.line_num} has {len(row)} values under {len(names)} names"
            for name, value in zip(names, row):
                try:
                    float(value)
                except ValueError:
                    return f"line {rows.line_num}, column {name.strip()!r} holds {value!r}"
    return None


def _write_csv(file: Path, table: Mapping[str, Floats]) -> None:
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values())))


def _read_npz(file: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, TypeError, RuntimeError, zlib.error, lzma.LZMAError,
            zipfile.BadZipFile):  # fmt: skip
        raise CaptureError(f"transition file {file} is not an npz file of plain arrays, or is damaged.") from None
    table: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise CaptureError(f"array {name!r} of {file} has shape {array.shape}; expected (n,) or (n, d).")
        columns = {name: array} if array.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(array.T)}
        for column in columns.keys() & table.keys():
            raise CaptureError(f"two arrays of {file} claim the column {column!r}; rename one.")
        table |= columns
    return table


def _write_npz(file: Path, table: Mapping[str, Floats]) -> None:
    # not np.savez, which takes column names as keyword arguments and so cannot write one called "file"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in table.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(column), allow_pickle=False)


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise CaptureError('Parquet files need pyarrow; install it with: pip install "capture-cp[data]".') from None
    return pyarrow


def _read_parquet(file: Path) -> dict[str, npt.NDArray[Any]]:
    pyarrow = _parquet()
    try:
        names = pyarrow.parquet.read_schema(file).names
        if len(set(names)) != len(names):
            raise CaptureError(f"transition file {file} repeats a column name: {names}.")
        table = pyarrow.parquet.ParquetFile(file).read()
        return {name: table.column(name).to_numpy() for name in table.column_names}
    except CaptureError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError):
        raise CaptureError(f"transition file {file} is not a Parquet file, or is damaged.") from None


def _write_parquet(file: Path, table: Mapping[str, Floats]) -> None:
    pyarrow = _parquet()
    pyarrow.parquet.write_table(pyarrow.table(dict(table)), file)


Reader = Callable[[Path], dict[str, npt.NDArray[Any]]]
Writer = Callable[[Path, Mapping[str, Floats]], None]

FORMATS: Mapping[str, tuple[Reader, Writer]] = {
    ".parquet": (_read_parquet, _write_parquet),
    ".npz": (_read_npz, _write_npz),
    ".csv": (_read_csv, _write_csv),
}


def _format(file: Path) -> tuple[Reader, Writer]:
    return FORMATS[known_name(f"ending of {file},", file.suffix.lower(), FORMATS)]
