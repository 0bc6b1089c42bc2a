"""Tables of named columns in files: reads whole CSV and npz files, and writes these and Parquet."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from capture_cp.base.arrays import read_arrays
from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.base.files import Pathlike, existing_file, written_whole
from capture_cp.data.csv_tables import MOST_COLUMNS, Table, read_csv, write_csv
from capture_cp.data.parquet import write_parquet


def read_table(path: Pathlike, labels: str | None = None) -> Table:
    """Columns (n,) of a CSV or npz file by name; in a CSV file, the column `labels` may contain text."""
    file = existing_file(path, "transition file")
    table = READERS[known_name(f"ending of {file},", file.suffix.lower(), READERS)](file, labels)
    lengths = {len(column) for column in table.values()}
    if not table or lengths == {0}:
        raise CaptureError(f"transition file {file} holds no transitions; expected named columns with at least one row.")
    if len(lengths) > 1:
        raise CaptureError(
            f"transition file {file} has columns of different lengths {sorted(lengths)}; expected one length."
        )
    return table


def write_table(path: Pathlike, table: Table) -> None:
    """Write columns (n,) to a file, atomically; its ending determines the format."""
    write = FORMATS[known_name(f"ending of {path},", Path(path).suffix.lower(), FORMATS)]
    with written_whole(path) as temporary:
        write(temporary, table)


def _read_npz(file: Path, labels: str | None) -> Table:
    arrays = read_arrays(file, "transition file")
    table: Table = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise CaptureError(f"array {shortened(name)!r} of {file} has shape {array.shape[:4]}; expected (n,) or (n, d).")
        if array.ndim == 2 and array.shape[1] > MOST_COLUMNS:
            raise CaptureError(
                f"array {shortened(name)!r} of {file} has {array.shape[1]:,} columns; expected at most {MOST_COLUMNS:,}."
            )
        columns = {name: array} if array.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(array.T)}
        for column in columns.keys() & table.keys():
            raise CaptureError(f"two arrays of {file} have the column {column!r}; rename one.")
        table |= columns
    return table


def _write_npz(file: Path, table: Table) -> None:
    # not np.savez, which accepts column names as keyword arguments and so cannot write one called "file"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in table.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(column), allow_pickle=False)


Reader = Callable[[Path, str | None], Table]
Writer = Callable[[Path, Table], None]

#: Formats that can only be read whole.
READERS: Mapping[str, Reader] = {".npz": _read_npz, ".csv": read_csv}
#: Formats that can be written.
FORMATS: Mapping[str, Writer] = {".parquet": write_parquet, ".npz": _write_npz, ".csv": write_csv}
