"""The reader of each file format, by the file's ending."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from capture_cp.base.checks import known_name
from capture_cp.data.source import LogSource

#: Readers by ending, `module:class`; each is called with a file and the name of a column that may contain text.
FILES = {
    ".parquet": "parquet:ParquetSource",
    ".npz": "whole:WholeSource",
    ".csv": "csv_source:CsvSource",
    ".mcap": "bags:BagSource",
    ".db3": "bags:BagSource",
    ".hdf5": "hdf5:Hdf5Source",
    ".h5": "hdf5:Hdf5Source",
}


def open_file(file: Path, labels: str | None) -> LogSource:
    """The log in one file, or in the folder of one bag."""
    if file.is_dir():
        from capture_cp.data.bags import BagSource

        return BagSource(file)
    module, _, name = FILES[known_name(f"ending of {file},", file.suffix.lower(), FILES)].partition(":")
    source: LogSource = getattr(import_module(f"capture_cp.data.{module}"), name)(file, labels)
    return source
