"""Messages from MCAP files: unneeded topics are skipped, and nothing unpacks to more than its stated size."""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_unpacked

MAGIC = b"\x89MCAP0\r\n"
FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, INDEX = 2, 3, 4, 5, 6, 7
LARGEST_CHUNK = 1 << 30
_HEAD, _MESSAGE = struct.Struct("<BQ"), struct.Struct("<HIQQ")
_INDEXED = np.dtype([("stamp", "<u8"), ("offset", "<u8")])


class Topic(NamedTuple):
    """A topic of a bag: its number in the file, name, type, and definition in some language ("" if there is none)."""

    number: int
    name: str
    kind: str
    encoding: str
    language: str
    definition: str


class Damaged(Exception):
    """A damaged file."""


class McapFile:
    """One MCAP file, read from front to back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.topics: dict[int, Topic] = {}
        self.counts: dict[int, int] = {}
        self.start, self.end = 1 << 63, 0
        self._schemas: dict[int, tuple[str, str, str]] = {0: ("", "", "")}
        self._unpacked = 0
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Damaged("it does not start like an MCAP file")
        for _ in self._records(()):  # topics and message counts
            pass

    def messages(self, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        """Topic number, time stamp in ns and content of every message of the wanted topics, in file order."""
        self._unpacked = 0
        return self._records(wanted)

    def _records(self, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        with self.path.open("rb") as file:
            size, chunk = self.path.stat().st_size, None
            file.seek(len(MAGIC))
            while file.tell() < size:
                op, length = _HEAD.unpack(_exactly(file, _HEAD.size))
                if file.tell() + length > size:
                    raise Damaged("it is cut short")
                if op == INDEX and chunk is not None and length >= 2:
                    number, entries = self._index(_exactly(file, length))
                    chunk.entries[number] = entries
                    continue
                if chunk is not None:
                    yield from self._of_chunk(file, chunk, wanted)
                    chunk = None
                if op == FOOTER:
                    return
                if op == CHUNK:
                    chunk = _Chunk(file.tell(), length, {})
                    file.seek(length, 1)
                elif op in (SCHEMA, CHANNEL, MESSAGE):
                    yield from self._record(op, _exactly(file, length), wanted)
                else:
                    file.seek(length, 1)
            if chunk is not None:
                yield from self._of_chunk(file, chunk, wanted)

    def _of_chunk(self, file: BinaryIO, chunk: _Chunk, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        """Messages of a chunk; it is unpacked only if it has wanted messages, or has no index."""
        behind = file.tell()
        known = bool(chunk.entries) and chunk.entries.keys() <= self.topics.keys()
        if not known or any(number in wanted for number in chunk.entries):
            file.seek(chunk.offset)
            data = self._unpack(_exactly(file, chunk.length))
            if wanted and known:
                yield from self._at(data, {n: e for n, e in chunk.entries.items() if n in wanted})
            else:
                yield from self._scanned(data, wanted)
        elif not wanted:
            self._count(chunk)
        file.seek(behind)

    def _count(self, chunk: _Chunk) -> None:
        for number, entries in chunk.entries.items():
            self.counts[number] = self.counts.get(number, 0) + len(entries)
            if len(entries):
                self.start = min(self.start, int(entries["stamp"].min()))
                self.end = max(self.end, int(entries["stamp"].max()))

    def _scanned(self, data: bytes, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        """Every record of an unpacked chunk."""
        at = 0
        while at < len(data):
            op, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if at + length > len(data):
                raise Damaged("a chunk is cut short")
            yield from self._record(op, data[at : at + length], wanted)
            at += length

    def _at(self, data: bytes, entries: dict[int, Any]) -> Iterator[tuple[int, int, bytes]]:
        """Messages of an unpacked chunk at the positions in its index, in file order."""
        places = np.sort(np.concatenate([entry["offset"] for entry in entries.values()]))
        unpack, head = _MESSAGE.unpack_from, _HEAD.unpack_from
        for at in places.tolist():
            op, length = head(data, at)
            begin = at + _HEAD.size
            if op != MESSAGE or length < _MESSAGE.size or begin + length > len(data):
                raise Damaged("its index is wrong")
            number, _, stamp, _ = unpack(data, begin)
            if number not in entries:
                raise Damaged("its index is wrong")
            yield number, stamp, data[begin + _MESSAGE.size : begin + length]

    def _record(self, op: int, data: bytes, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        if op == MESSAGE:
            number, _, stamp, _ = _MESSAGE.unpack_from(data)
            if number in wanted:
                yield number, stamp, data[_MESSAGE.size :]
            elif not wanted:
                self.counts[number] = self.counts.get(number, 0) + 1
                self.start, self.end = min(self.start, stamp), max(self.end, stamp)
        elif op == SCHEMA:
            (number,), rest = struct.unpack_from("<H", data), data[2:]
            name, rest = _text(rest)
            language, rest = _text(rest)
            self._schemas[number] = (name, language, _text(rest)[0])
        elif op == CHANNEL:
            (number, schema), rest = struct.unpack_from("<HH", data), data[4:]
            topic, rest = _text(rest)
            kind, language, definition = self._schemas[schema]
            self.topics[number] = Topic(number, topic, kind, _text(rest)[0], language, definition)

    def _index(self, data: bytes) -> tuple[int, Any]:
        number, size = struct.unpack_from("<HI", data)
        return number, np.frombuffer(data, _INDEXED, size // _INDEXED.itemsize, 6)

    def _unpack(self, record: bytes) -> bytes:
        size = struct.unpack_from("<Q", record, 16)[0]
        kind, rest = _text(record[28:])
        packed = rest[8 : 8 + struct.unpack_from("<Q", rest)[0]]
        self._unpacked += size
        check_unpacked(self.path, "bag", self._unpacked)
        if size > LARGEST_CHUNK:
            raise CaptureError(f"bag {self.path} has a chunk of {size:,} bytes; expected at most {LARGEST_CHUNK:,}.")
        data = packed if kind == "" else _decompressor(kind).decompress(packed, max_length=size + 1)
        if len(data) != size:
            raise Damaged("a chunk unpacks to a different size than stated")
        return bytes(data)


class _Chunk(NamedTuple):
    """Position of a chunk, and positions of the messages inside, by topic."""

    offset: int
    length: int
    entries: dict[int, Any]


def _decompressor(kind: str) -> Any:
    if kind == "lz4":
        return import_module("lz4.frame").LZ4FrameDecompressor()
    if kind == "zstd":
        package = "compression" if sys.version_info >= (3, 14) else "backports"
        return import_module(f"{package}.zstd").ZstdDecompressor()
    raise Damaged(f"it is compressed with {kind!r}, expected lz4 or zstd")


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise Damaged("it is cut short")
    return data


def _text(data: bytes) -> tuple[str, bytes]:
    """A text, and the remaining data."""
    (size,) = struct.unpack_from("<I", data)
    if 4 + size > len(data):
        raise Damaged("a text is cut short")
    return data[4 : 4 + size].decode(), data[4 + size :]
