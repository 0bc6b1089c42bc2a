"""Logs in robomimic HDF5 files: groups data/demo_0, data/demo_1, ... whose arrays have one row per step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_unpacked
from capture_cp.data.folders import JoinedSource
from capture_cp.data.source import (
    MOST_COLUMNS,
    Column,
    LogSource,
    Table,
    check_width,
    damage_explained,
    limits,
    natural,
    no_rows,
    rows_at_once,
)

ROOT = "data"
DEEPEST, LARGEST_CHUNK = 4, 1 << 28
#: Filters included in h5py: deflate, shuffle, fletcher32, szip, nbit, scale-offset, lzf. Others need external libraries.
FILTERS = {1, 2, 3, 4, 5, 6, 32000}


class Hdf5Source(JoinedSource):
    """A robomimic file. Each demonstration is an episode; its name is in the column `demo`."""

    label = "demo"

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path = path
        with opened(path) as file:
            root = _inside(file, ROOT)
            names = sorted(root, key=lambda name: natural(Path(name))) if hasattr(root, "keys") else []
            self.files = [path / ROOT / name for name in names if hasattr(_inside(root, name), "keys")]
        if not self.files:
            raise CaptureError(f"{path} has no groups {ROOT}/demo_0, {ROOT}/demo_1, ...; expected a robomimic file.")
        if self.rows == 0:
            raise no_rows(path)
        check_unpacked(path, "transition file", self.rows)  # even one byte per step would be out of proportion

    check_whole = LogSource.check_whole  # of the file, not of each group

    def _open(self, number: int) -> LogSource:
        return Demonstration(self.path, self.files[number].name)

    def _name(self, number: int) -> str:
        return self.files[number].name


class Demonstration(LogSource):
    """One group of a robomimic file, whose arrays are columns by their paths below it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        with opened(path) as file:
            arrays = dict(islice(_arrays(file[ROOT][name]), MOST_COLUMNS + 1))  # groups that hold themselves never end
            columns = {at: _column(at, array) for at, array in arrays.items()}
            numbers = [at for at, column in columns.items() if column.kind == "number"]
            if not numbers:
                raise CaptureError(f"{path} has no arrays of numbers in {ROOT}/{name}; expected a robomimic file.")
            self._rows = int(arrays["actions" if "actions" in numbers else numbers[0]].shape[0])
            for at in numbers:
                if arrays[at].shape[0] != self._rows:
                    columns[at] = Column(at, "another number of rows than there are steps")
        check_width(path, sum(column.width or 1 for column in columns.values()))
        self._columns = tuple(columns.values())

    def columns(self) -> tuple[Column, ...]:
        return self._columns

    @property
    def rows(self) -> int:
        return self._rows

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        wanted = [column for column in self._columns if not set(names).isdisjoint(column.entries)]
        size = rows_at_once(wanted)
        with opened(self.path) as file:
            arrays = dict(islice(_arrays(file[ROOT][self.name]), MOST_COLUMNS))
            for row in range(first, last, size):
                table: Table = {}
                for column in wanted:
                    values = arrays[column.name][row : min(row + size, last)]
                    table |= dict(zip(column.entries, values.T if column.width is not None else [values]))
                yield {name: table[name] for name in names}


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file opened with h5py; any error becomes one sentence."""
    try:
        import h5py
    except ImportError:
        raise CaptureError('HDF5 files need h5py; install it with: pip install "capture-cp[hdf5]".') from None
    with damage_explained(f"transition file {path}", "an HDF5 file"), h5py.File(path, "r", rdcc_nbytes=1 << 20) as file:
        yield file


def _arrays(group: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What lies in a group and in its groups, by path, in natural order."""
    for name in sorted(group, key=lambda name: natural(Path(name))):
        child = _inside(group, name)
        if not hasattr(child, "keys"):
            yield f"{prefix}{name}", child
        elif depth < DEEPEST:
            yield from _arrays(child, f"{prefix}{name}/", depth + 1)


def _inside(group: Any, name: str) -> Any:
    """The object in a group with that name, or None; links are not followed, since they may lead to any other file."""
    import h5py

    link = group.get(name, getlink=True)
    return group[name] if isinstance(link, h5py.HardLink) else None


def _column(name: str, data: Any) -> Column:
    """The column of an array: its kind, and the number of values per row."""
    import h5py

    if data is None or not hasattr(data, "shape") or data.shape is None:
        return Column(name, "a link, or nothing")
    if data.dtype.kind not in "biuf":
        text = data.dtype.kind in "SU" or h5py.check_string_dtype(data.dtype) is not None
        return Column(name, "text" if text else str(data.dtype)[:60])
    if len(data.shape) not in (1, 2) or 0 in data.shape[1:]:
        return Column(name, f"arrays of shape {data.shape[1:5]}")
    plist = data.id.get_create_plist()
    if data.external or data.is_virtual:
        return Column(name, "data of other files")
    if any(plist.get_filter(i)[0] not in FILTERS for i in range(plist.get_nfilters())):
        return Column(name, "data compressed with a filter that h5py does not include")
    if data.chunks is not None and math.prod(data.chunks) * data.dtype.itemsize > LARGEST_CHUNK:
        return Column(name, f"chunks of over {LARGEST_CHUNK:,} bytes")
    return Column(name, "number", data.shape[1] if len(data.shape) == 2 else None)
