"""The common interface of logs in any format: named columns, and their rows in pieces of bounded size."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Ints, known_name, shortened
from capture_cp.base.files import Pathlike, check_unpacked, existing_file

Table = dict[str, npt.NDArray[Any]]
Columns = str | Sequence[str]

#: Largest number of rows in a piece.
PIECE = 65_536
MOST_NUMBERS = 1 << 23  # values in a piece: 64 MiB
MOST_COLUMNS = 10_000
LONGEST_LABEL = 100  # every row has space for the longest label

#: Readers by kind of file, `module:class`; each is called with a file and the name of a column that may contain text.
READERS = {
    "parquet": "tables:ParquetSource",
    "npz": "arrays:NpzSource",
    "csv": "tables:CsvSource",
    "bag": "bags:BagSource",
    "hdf5": "hdf5:Hdf5Source",
    "motion": "sage:SageSource",
}
#: What the names of logs end in; other files of a folder are left out.
ENDINGS = (".parquet", ".npz", ".csv", ".mcap", ".db3", ".bag", ".hdf5", ".h5")

#: First bytes of files, by kind.
SIGNATURES = {
    b"PAR1": "parquet",
    b"PK": "npz",
    b"\x89HDF": "hdf5",
    b"\x89MCAP": "bag",
    b"SQLite format 3": "bag",
    b"#ROSBAG": "bag",
    b"{": "certificate",
    b"<": "model",
}
#: The first line of a TOML file that is no comment.
SETTING = re.compile(rb"\s*(#[^\n]*\n\s*)*([\w-]+\s*=|\[[\w-]+\]\s*\n)")
#: One entry of a column, name[3], or a slice, name[0:7].
INDEXED = re.compile(r"(?P<name>.+)\[(?:(?P<entry>\d{1,9})|(?P<start>\d{0,9}):(?P<stop>\d{0,9}))\]", re.DOTALL)


def kind_of(path: Pathlike) -> str:
    """What a file is, by its content: a "calibration", "certificate", "model", file of "settings", or the format of a log.

    A model is MJCF or URDF, settings are TOML.
    Formats of logs are "parquet", "npz", "hdf5", "bag" and "csv"; a path that is no file is a "folder", or a pattern.
    """
    try:
        with Path(path).open("rb") as file:
            head = file.read(1 << 12)
    except (OSError, ValueError):
        return "folder"
    if head[8:9] == b"{" and head[:1] != b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return "calibration"  # the length of a header, and the header
    head = head.removeprefix(codecs.BOM_UTF8)
    head = head.lstrip() if head.lstrip()[:1] == b"<" else head
    known = (kind for signature, kind in SIGNATURES.items() if head and head.startswith(signature[: len(head)]))
    kind = next(known, None)
    return kind or ("settings" if SETTING.match(head) else "csv")


@dataclass(frozen=True)
class Column:
    """A column of a log: its `kind` is "number", "text", or a description of other contents.

    `width` is None for one value per row. For a column of lists it is their length; the entries are called name_0, ...
    """

    name: str
    kind: str
    width: int | None = None

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of its values."""
        return (self.name,) if self.width is None else tuple(f"{self.name}_{i}" for i in range(self.width))


class LogSource(ABC):
    """Base class of logs on disk. They can be pickled; open files are reopened after unpickling."""

    path: Path
    #: Whether it is a log of messages, which has no rows until it is `arranged`.
    messages = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"path": self.path.absolute()}  # the receiver may have another working directory

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the log."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        """Rows from `start` to `stop` of some columns, in order: arrays (n,) by name, n at most 65,536.

        `names` are names from `Column.entries`.
        """

    def parts(self) -> Ints:
        """First row of each recording of the log, such as a file of a folder: (p,)."""
        return np.zeros(1, dtype=np.int64)

    def breaks(self) -> Ints:
        """Rows without a successor, because data are missing after them: (b,), ascending."""
        return np.empty(0, dtype=np.int64)

    def notes(self) -> list[str]:
        """One sentence for each omission or irregularity."""
        return []

    def entry_names(self) -> dict[str, str]:
        """What the log itself calls the entries of its lists, such as a joint, where it does."""
        return {}

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        """The log as a table of rows for these columns; other columns need not be read.

        The rows of a log of messages are those that contain the column `rows_of`, in the order of `clock`; `after` are the
        columns that are read from the following row, if any.
        """
        return self

    def locate(self, row: int) -> tuple[Path, int]:
        """The file that contains a row, and the row's number in that file."""
        return self.path, row

    def check_whole(self, names: Sequence[str]) -> None:
        """Raise an error if reading these columns of all rows into memory is out of proportion to the file's size."""
        check_unpacked(self.path, "transition file", 8 * self.rows * max(1, len(names)))

    def release(self) -> None:  # noqa: B027 - most formats cache nothing
        """Release cached data."""


def open_log(path: Pathlike, labels: str | None = None) -> LogSource:
    """Open a log: a file, a folder, or a pattern with * or ? for several files.

    `labels` is a column that may contain text; a CSV reader needs to know it in advance where the first row has a number.
    """
    place = Path(path)
    pattern = any(sign in str(path) for sign in "*?") and not place.exists()
    if pattern or (place.is_dir() and not is_bag(place)):
        from capture_cp.data.folders import open_files, open_folder

        return open_files(place, labels) if pattern else open_folder(place, labels)
    return open_file(place if place.is_dir() else existing_file(place, "transition file"), labels)


def open_file(file: Path, labels: str | None) -> LogSource:
    """The log in one file, or in the folder of one bag or motion."""
    kind = kind_of(file) if file.is_file() else "bag" if is_bag(file) else "motion"
    if kind not in READERS:
        raise CaptureError(f"{file} is a {kind} file, not a log; expected a log as CSV, npz, Parquet, HDF5 or a bag.")
    module, _, name = READERS[kind].partition(":")
    source: LogSource = getattr(import_module(f"capture_cp.data.{module}"), name)(file, labels)
    return source


def is_bag(folder: Path) -> bool:
    """Whether a folder was written by rosbag2."""
    return folder.is_dir() and (folder / "metadata.yaml").is_file()


def natural(file: Path) -> list[tuple[int, str]]:
    """Sort key for natural order: run 9 before run 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", str(file)) if part]


def check_width(file: Path, width: int) -> None:
    """Raise an error if there are too many values per row."""
    if width > MOST_COLUMNS:
        raise CaptureError(f"transition file {file} has {width:,} columns; expected at most {MOST_COLUMNS:,}.")


def rows_at_once(columns: Iterable[Column]) -> int:
    """How many rows of some columns a piece has, so that it fits into 64 MiB."""
    return max(1, min(PIECE, MOST_NUMBERS // max(1, sum(column.width or 1 for column in columns))))


def check_names(file: Path, names: Sequence[str]) -> None:
    """Raise an error if there are too many column names, or if they repeat."""
    check_width(file, len(names))
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        shown = ", ".join(shortened(repr(name)) for name in repeated[:5])
        raise CaptureError(f"transition file {file} repeats a column name: {shown}; give each column its own.")


def no_rows(file: Path) -> CaptureError:
    """The error for a file without rows or columns."""
    return CaptureError(f"transition file {file} holds no transitions; expected named columns with at least one row.")


@contextmanager
def damage_explained(file: str, kind: str) -> Iterator[None]:
    """Turn any error of a library that reads a file into one sentence; what is damaged fails in many ways."""
    try:
        yield
    except (CaptureError, GeneratorExit):
        raise
    except Exception as error:
        reason = shortened(" ".join(str(error).split()).rstrip("."), 200)
        raise CaptureError(f"{file} is not {kind}, or is damaged{reason and f': {reason}'}.") from None


def limits(rows: int, start: int, stop: int | None) -> tuple[int, int]:
    """First row and one past the last row of a requested range, checked."""
    last = rows if stop is None else min(stop, rows)
    if start < 0 or last < 0:
        raise CaptureError(f"rows {start} to {stop} do not exist; expected numbers from 0 to {rows}.")
    return min(start, last), last


# -- names of columns, as users write them ----------------------------------------------------------------------------------


def expanded(path: Pathlike, role: str, given: Columns, columns: Sequence[Column]) -> tuple[str, ...]:
    """Names of the values of one part of a transition, in the order of `given`.

    A name is a whole column, one entry, name[3], or a slice, name[0:7]. A name that is not a column may also refer to all
    columns name_0, name_1, ... of a flat table.
    """
    wanted = [given] if isinstance(given, str) else list(given)
    if not wanted:
        raise CaptureError(f"no {role} columns are named; {path} has {', '.join(column.name for column in columns)}.")
    known, whole = entries_of(path, columns), {column.name: column for column in columns}
    names: list[str] = []
    for name in wanted:
        names += [name] if name in known else _entries(path, name, whole, known)
    for name in names:
        check_numbers(path, known[name])
    return tuple(names)


def base_name(name: str) -> str:
    """A name without its entry or slice."""
    found = INDEXED.fullmatch(name)
    return name if found is None else found["name"]


def entries_of(path: Pathlike, columns: Sequence[Column]) -> dict[str, Column]:
    """The column that each name of a value belongs to."""
    found: dict[str, Column] = {}
    for column in columns:
        for name in column.entries:
            if name in found:
                raise CaptureError(f"two columns of {path} have the name {shortened(name)!r}; rename one.")
            found[name] = column
    return found


def check_numbers(path: Pathlike, column: Column) -> None:
    """Raise an error if a column does not contain numbers."""
    if column.kind != "number":
        raise CaptureError(f"column {shortened(column.name)!r} of {path} contains {column.kind}, not numbers.")


def known_column(path: Pathlike, name: str, columns: Sequence[Column], text: bool = True) -> Column:
    """The column with one value per row under this name, a number or perhaps `text`."""
    known = entries_of(path, columns)
    column = known[known_name(f"column in {path}", name, known)]
    if not (text and column.kind == "text"):
        check_numbers(path, column)
    return column


def _entries(path: Pathlike, name: str, whole: dict[str, Column], known: dict[str, Column]) -> list[str]:
    """Names of all values of a column, or of those in brackets."""
    found = None if name in whole else INDEXED.fullmatch(name)
    base = name if found is None else found["name"]
    if base in whole:
        check_numbers(path, whole[base])
        every = list(whole[base].entries)
    else:
        every = [entry for entry in known if entry.rpartition("_")[0] == base and entry.rpartition("_")[2].isdecimal()]
    if not every:
        known_name(f"column in {path}", base, whole)
    if found is None:
        return every
    entries = [f"{base}_{i}" for i in range(len(every))]
    if set(entries) != set(every):
        raise CaptureError(f"column {shortened(base)!r} of {path} is not a list of numbers; name it without brackets.")
    start = int(found["entry"] or found["start"] or 0)
    stop = start + 1 if found["entry"] else int(found["stop"] or len(entries))
    if not start < stop <= len(entries):
        raise CaptureError(
            f"{shortened(found[0])!r} does not exist: column {shortened(base)!r} of {path} has entries 0 to "
            f"{len(entries) - 1}; name some of those."
        )
    return entries[start:stop]
