"""Logs in robomimic HDF5 files: groups data/demo_0, data/demo_1, ... whose arrays have one row per step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, shortened
from capture_cp.base.files import check_unpacked
from capture_cp.data.source import LONGEST_LABEL, MOST_COLUMNS, PIECE, Column, LogSource, Table, entries_of, limits, natural

ROOT, DEMO = "data", "demo"
MOST_DEMOS, DEEPEST, LARGEST_CHUNK = 100_000, 4, 1 << 28
#: Largest number of values in a piece.
MOST_NUMBERS = 1 << 23
#: Filters included in h5py: deflate, shuffle, fletcher32, szip, nbit, scale-offset, lzf. Others need external libraries.
FILTERS = {1, 2, 3, 4, 5, 6, 32000}


class Hdf5Source(LogSource):
    """A robomimic file. Each demonstration is an episode; its name is in the column `demo`."""

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path = path
        with self._opened() as file:
            demos = self._demos(file)
            self._columns = self._found(demos[0][1])
            lengths = [self._length(name, demo) for name, demo in demos]
        self._names = tuple(name for name, _ in demos)
        self._ends: Ints = np.cumsum([0, *lengths], dtype=np.int64)
        if self.rows == 0:
            raise CaptureError(f"{path} holds no transitions; expected demonstrations with at least one step.")
        check_unpacked(path, "transition file", self.rows)  # even one byte per step would be out of proportion

    def columns(self) -> tuple[Column, ...]:
        return (*self._columns, Column(DEMO, "text"))

    @property
    def rows(self) -> int:
        return int(self._ends[-1])

    def parts(self) -> Ints:
        return self._ends[:-1]

    def check_whole(self, names: Sequence[str]) -> None:
        check_unpacked(self.path, "transition file", 8 * self.rows * max(1, len(names)))

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        first, last = limits(self.rows, start, stop)
        owners = entries_of(self.path, self.columns())
        wanted = {owners[name].name: owners[name] for name in names}
        size = max(1, min(PIECE, MOST_NUMBERS // max(1, sum(column.width or 1 for column in wanted.values()))))
        with self._opened() as file:
            for row in range(first, last, size):
                parts = [
                    self._part(file, wanted, demo, low, high) for demo, low, high in self._inside(row, min(row + size, last))
                ]
                yield {name: np.concatenate([part[name] for part in parts]) for name in names}

    def _inside(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Demonstrations that contain rows first to last, and the range of their own rows."""
        for demo in range(int(np.searchsorted(self._ends, first, "right")) - 1, len(self._names)):
            begin, end = int(self._ends[demo]), int(self._ends[demo + 1])
            if begin >= last:
                return
            if begin < end:
                yield demo, max(first, begin) - begin, min(last, end) - begin

    def _part(self, file: Any, wanted: dict[str, Column], demo: int, low: int, high: int) -> Table:
        """Arrays (n,) by name of some rows of one demonstration."""
        group, table = file[ROOT][self._names[demo]], {}
        for name, column in wanted.items():
            if name == DEMO:
                table[DEMO] = np.full(high - low, self._names[demo])
                continue
            data = self._array(group, name, self._names[demo])
            if data.shape != (self._ends[demo + 1] - self._ends[demo], *([] if column.width is None else [column.width])):
                raise CaptureError(
                    f"array {name!r} of {self._names[demo]} in {self.path} has shape {data.shape}; expected one row per "
                    f"step, of the same width as in {self._names[0]}."
                )
            values = data[low:high]
            table |= dict(zip(column.entries, values.T if column.width is not None else [values]))
        return table

    def _demos(self, file: Any) -> list[tuple[str, Any]]:
        """The demonstrations by name, in natural order."""
        root = _inside(file, ROOT)
        names = (
            [] if not hasattr(root, "keys") or len(root) > MOST_DEMOS else sorted(root, key=lambda name: natural(Path(name)))
        )
        found = [(name, _inside(root, name)) for name in names]
        demos = [(name, demo) for name, demo in found if hasattr(demo, "keys") and 0 < len(name) <= LONGEST_LABEL]
        if not demos:
            raise CaptureError(f"{self.path} has no groups {ROOT}/demo_0, {ROOT}/demo_1, ...; expected a robomimic file.")
        return demos

    def _found(self, demo: Any) -> tuple[Column, ...]:
        """Columns of a demonstration, by their paths below it."""
        found: list[Column] = []

        def visit(group: Any, prefix: str, depth: int) -> None:
            for name in sorted(group, key=lambda name: natural(Path(name))):
                child, path = _inside(group, name), f"{prefix}{name}"
                if hasattr(child, "keys"):
                    if depth < DEEPEST:
                        visit(child, f"{path}/", depth + 1)
                    continue
                found.append(_column(path, child))
                if sum(column.width or 1 for column in found) > MOST_COLUMNS:
                    raise CaptureError(
                        f"{self.path} has more than {MOST_COLUMNS:,} numbers per row; that is too many for a log."
                    )

        visit(demo, "", 0)
        return tuple(found)

    def _length(self, name: str, demo: Any) -> int:
        """Number of steps of a demonstration: rows of its actions, or of its first array."""
        numbers = [column.name for column in self._columns if column.kind == "number"]
        if not numbers:
            raise CaptureError(f"{self.path} has no arrays of numbers in {ROOT}/{name}; expected a robomimic file.")
        return int(self._array(demo, "actions" if "actions" in numbers else numbers[0], name).shape[0])

    def _array(self, demo: Any, path: str, name: str) -> Any:
        """An array of a demonstration, checked to be in this file and readable with h5py's own filters."""
        found = demo
        for step in path.split("/"):
            found = _inside(found, step) if hasattr(found, "keys") else None
        column = _column(path, found)
        if column.kind != "number":
            raise CaptureError(f"array {shortened(path)!r} of {name} in {self.path} contains {column.kind}, not numbers.")
        return found

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file opened with h5py; any error becomes one sentence."""
        try:
            import h5py
        except ImportError:
            raise CaptureError('HDF5 files need h5py; install it with: pip install "capture-cp[hdf5]".') from None
        try:
            with h5py.File(self.path, "r", rdcc_nbytes=1 << 20) as file:
                yield file
        except (CaptureError, GeneratorExit):
            raise
        except Exception:  # a damaged file fails in many ways
            raise CaptureError(f"transition file {self.path} is not an HDF5 file, or is damaged.") from None


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
