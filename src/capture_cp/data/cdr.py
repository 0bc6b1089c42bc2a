"""Extraction of numbers from many serialised ROS 2 messages at once.

Messages of one topic nearly always have the same layout: the same lengths of texts and lists. One message is parsed in
Python to locate its numbers; all others with that layout are then read as one array. No code is generated from message
definitions, and none is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints

#: Number types by their name in message definitions.
NUMBERS = {
    "bool": "u1", "byte": "u1", "char": "u1", "uint8": "u1", "int8": "i1", "uint16": "u2", "int16": "i2", "uint32": "u4",
    "int32": "i4", "uint64": "u8", "int64": "i8", "float32": "f4", "float64": "f8",
}  # fmt: skip
MOST_FIELDS, DEEPEST, HEAD = 10_000, 30, 4
BASE, NAME, ARRAY, SEQUENCE = 1, 2, 3, 4  # kinds of fields, with the numbers of rosbags

#: Fields of message types by name: pairs of a name and a description, as rosbags parses them.
Definitions = Mapping[str, Any]


class Unreadable(Exception):
    """A message that does not match its definition."""


@dataclass(frozen=True)
class Field:
    """Location of a field's numbers: `count` of them from byte `offset`; `count` is None for a single number."""

    offset: int
    kind: str
    count: int | None


@dataclass
class Layout:
    """Locations of a message's fields, by name; `lengths` are the bytes that hold lengths of texts and lists."""

    fields: dict[str, Field] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)


def layout_of(definitions: Definitions, kind: str, data: bytes) -> Layout:
    """The layout of one message of type `kind`."""
    if len(data) < HEAD or data[0] != 0 or data[1] > 1:
        raise Unreadable("it is compressed, or not CDR-encoded")
    walk = _Walk(definitions, data)
    walk.message(kind, "", 0)
    if walk.at + 3 < len(data):
        raise Unreadable("it is longer than its definition")
    return walk.layout


class _Walk:
    """A parser that goes through one message field by field."""

    def __init__(self, definitions: Definitions, data: bytes) -> None:
        self.definitions, self.data, self.at, self.layout = definitions, data, HEAD, Layout()
        self.order, self.steps = "<" if data[1] else ">", 0

    def message(self, kind: str, prefix: str, depth: int) -> None:
        if depth > DEEPEST or kind not in self.definitions:
            raise Unreadable(f"the type {kind} is not defined, or nested too deeply")
        for name, (node, what) in self.definitions[kind][1]:
            path = f"{prefix}.{name}" if prefix else name
            if node in (BASE, NAME):
                self.one(node, what, path, depth)
            else:
                self.several(int(node), what, path, depth)

    def one(self, node: int, what: Any, path: str, depth: int) -> None:
        if node == NAME:
            return self.message(what, path, depth + 1)
        self.steps += 1
        if self.steps > 100 * MOST_FIELDS:
            raise Unreadable("it has too many fields")
        if what[0] in NUMBERS:
            self.numbers(NUMBERS[what[0]], path, None)
        elif what[0] == "string":
            self.skip(self.length())
        else:
            raise Unreadable(f"numbers of kind {what[0]} are not supported")
        return None

    def several(self, node: int, what: Any, path: str, depth: int) -> None:
        (inner, kind), count = what
        if node == SEQUENCE:
            count = self.length()
        if count > len(self.data):
            raise Unreadable("a list is longer than the message")
        if inner == BASE and kind[0] in NUMBERS:
            return self.numbers(NUMBERS[kind[0]], path, count)
        for i in range(count):
            self.one(inner, kind, f"{path}[{i}]", depth)
        return None

    def numbers(self, kind: str, path: str, count: int | None) -> None:
        size = int(kind[1])
        if count != 0:
            self.at += -(self.at - HEAD) % size
        if len(self.layout.fields) < MOST_FIELDS:
            self.layout.fields[path] = Field(self.at, self.order + kind, count)
        self.skip(size * (1 if count is None else count))

    def length(self) -> int:
        self.at += -(self.at - HEAD) % 4
        if self.at + 4 > len(self.data):
            raise Unreadable("it ends too early")
        self.layout.lengths.extend(range(self.at, self.at + 4))
        found = int(np.frombuffer(self.data, f"{self.order}u4", 1, self.at)[0])
        self.at += 4
        return found

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise Unreadable("it ends too early")


def columns_of(
    definitions: Definitions, kind: str, messages: Sequence[bytes], wanted: Sequence[str]
) -> dict[str, npt.NDArray[Any]]:
    """Fields of messages by name: (n,) where a field is one number, (n, width) where it is a list."""
    found: dict[str, npt.NDArray[Any]] = {}
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        chosen = messages if len(rows) == len(messages) else [messages[row] for row in rows.tolist()]
        matrix = np.frombuffer(b"".join(chosen), np.uint8).reshape(len(rows), int(size))
        while len(rows):
            same = _alike(definitions, kind, matrix, int(rows[0]), wanted, found, len(messages), rows)
            matrix, rows = (matrix[:0], rows[:0]) if same.all() else (matrix[~same], rows[~same])
    return found


def _alike(
    definitions: Definitions,
    kind: str,
    matrix: npt.NDArray[np.uint8],
    first: int,
    wanted: Sequence[str],
    found: dict[str, npt.NDArray[Any]],
    n: int,
    rows: Ints,
) -> npt.NDArray[np.bool_]:
    """Read all messages (m, bytes) with the layout of the first into `found`; returns which ones, (m,)."""
    try:
        layout = layout_of(definitions, kind, matrix[0].tobytes())
    except Unreadable as error:
        raise CaptureError(f"message {first + 1} of type {kind} cannot be read: {error}.") from None
    tell = [0, 1, *layout.lengths]
    same = np.asarray((matrix[:, tell] == matrix[0, tell]).all(axis=1))
    alike = matrix if same.all() else matrix[same]
    for name in wanted:
        if name not in layout.fields:
            raise CaptureError(f"message {first + 1} of type {kind} has no numbers {name!r}; name another field.")
        values = _numbers(alike, layout.fields[name])
        if name not in found:
            found[name] = np.empty((n, *values.shape[1:]))
        if found[name].shape[1:] != values.shape[1:]:
            raise CaptureError(
                f"field {name!r} of message {first + 1} of type {kind} has another length than before; it must be the same "
                "in every message."
            )
        found[name][rows[same]] = values
    return same


def _numbers(matrix: npt.NDArray[np.uint8], place: Field) -> Floats:
    """Numbers of one field of messages (n, bytes): (n,), or (n, width)."""
    dtype, count = np.dtype(place.kind), 1 if place.count is None else place.count
    if count == 0:
        return np.empty((len(matrix), 0))
    raw = np.ascontiguousarray(matrix[:, place.offset : place.offset + count * dtype.itemsize])
    values = raw.view(dtype).astype(np.float64)
    return values[:, 0] if place.count is None else values
