"""Tables of named columns in files: Parquet, npz or CSV."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import read_arrays
from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.base.files import Pathlike, check_unpacked, existing_file, written_whole
from capture_cp.data.csv_tables import MOST_COLUMNS, Table, check_names, labels_of, read_csv, write_csv


def read_table(path: Pathlike, labels: str | None = None) -> Table:
    """Columns (n,) of a file by name, whose ending is the format; of a CSV file, `labels` is one that may hold text."""
    file = existing_file(path, "transition file")
    table = _format(file)[0](file, labels)
    lengths = {len(column) for column in table.values()}
    if not table or lengths == {0}:
        raise CaptureError(f"transition file {file} holds no transitions; expected named columns with at least one row.")
    if len(lengths) > 1:
        raise CaptureError(
            f"transition file {file} has columns of different lengths {sorted(lengths)}; expected one length."
        )
    return table


def write_table(path: Pathlike, table: Table) -> None:
    """Write columns (n,) to a file, atomically; its ending is the format."""
    write = _format(Path(path))[1]
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
            raise CaptureError(f"two arrays of {file} claim the column {column!r}; rename one.")
        table |= columns
    return table


def _write_npz(file: Path, table: Table) -> None:
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


def _read_parquet(file: Path, labels: str | None) -> Table:
    pyarrow = _parquet()
    try:
        source = pyarrow.parquet.ParquetFile(file, **_THRIFT_LIMITS)
        check_names(file, source.schema_arrow.names)
        kinds = {field.name: field.type for field in source.schema_arrow}
        if labels in kinds and _text(pyarrow.types, kinds[labels]):
            # one copy of each word: a long one that every row points to would otherwise fill the memory
            source = pyarrow.parquet.ParquetFile(file, read_dictionary=[labels], **_THRIFT_LIMITS)
            kinds = {field.name: field.type for field in source.schema_arrow}
        wanted = [name for name, kind in kinds.items() if _fixed_width(pyarrow.types, kind, name == labels)]
        schema = pyarrow.schema([source.schema_arrow.field(name) for name in wanted])
        table = pyarrow.Table.from_batches(_batches(file, source, wanted), schema)
        read = {name: _parquet_column(file, name, table.column(name)) for name in wanted}
        unread = np.full(source.metadata.num_rows, None)  # neither numbers nor the labels: refused where asked for
        return {name: read.get(name, unread) for name in kinds}
    except CaptureError:
        raise
    except Exception:  # arrow's own errors, and what its bindings raise on metadata that contradict themselves
        raise CaptureError(f"transition file {file} is not a Parquet file, or is damaged.") from None


#: Longest text and longest list that the metadata of a file may hold.
_THRIFT_LIMITS = {"thrift_string_size_limit": 1 << 24, "thrift_container_size_limit": 1 << 20}


def _batches(file: Path, source: Any, columns: list[str]) -> Iterator[Any]:
    """A file piece by piece, as long as it stays in proportion.

    Its metadata could be asked beforehand how much there is to come, but they may lie: run-length encoding knows no bounds,
    a reader makes room for as many values as a footer claims, and pyarrow ends the process over a footer that contradicts
    itself when it is asked about a column.
    """
    rows = source.metadata.num_rows
    check_unpacked(file, "transition file", 8 * rows * max(1, len(columns)))
    size = 0
    for batch in source.iter_batches(batch_size=1 << 14, columns=columns, use_threads=False):
        size, rows = size + batch.nbytes, rows - batch.num_rows
        check_unpacked(file, "transition file", size)
        yield batch
    if rows != 0:
        raise ValueError("another number of rows than it claims")


def _text(types: Any, kind: Any) -> bool:
    """Whether a column holds text, in any of the ways in which pyarrow keeps it; pandas writes large strings."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _fixed_width(types: Any, kind: Any, labels: bool) -> bool:
    """Whether a column takes a few bytes a row: numbers, or words of which each row holds a number."""
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(number or (labels and types.is_dictionary(kind)))


def _parquet_column(file: Path, name: str, column: Any) -> npt.NDArray[Any]:
    if not hasattr(column.type, "value_type"):  # numbers
        return np.asarray(column.to_numpy())
    words = column.unify_dictionaries().combine_chunks()
    if words.null_count:
        raise CaptureError(f"column {shortened(name)!r} of {file} has no value in {words.null_count} rows; fill them in.")
    return np.asarray(labels_of(file, [str(word) for word in words.dictionary.to_pylist()])[words.indices.to_numpy()])


def _write_parquet(file: Path, table: Table) -> None:
    pyarrow = _parquet()
    pyarrow.parquet.write_table(pyarrow.table(dict(table)), file)


Reader = Callable[[Path, str | None], Table]
Writer = Callable[[Path, Table], None]

FORMATS: Mapping[str, tuple[Reader, Writer]] = {
    ".parquet": (_read_parquet, _write_parquet),
    ".npz": (_read_npz, _write_npz),
    ".csv": (read_csv, write_csv),
}


def _format(file: Path) -> tuple[Reader, Writer]:
    return FORMATS[known_name(f"ending of {file},", file.suffix.lower(), FORMATS)]
