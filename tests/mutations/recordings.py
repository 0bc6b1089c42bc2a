"""Bags and robomimic files: links that lead elsewhere, sizes that lie, definitions that never end."""

from __future__ import annotations

import io
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mutations.raw import BIG, WORDS, Rng, pick

DEFINITIONS = [
    "float64[] data\nfloat64[] data\n", "test/Own own\n" + "=" * 80 + "\nMSG: test/Own\ntest/Own own\n", "string<=5 text\n",
    "float64 x\n" * 3000, "wstring data\n", "int32 K=5\nuint8[1000000000] data\n", "__import__('os').system('true') x\n", "",
    "float64[<=3] data\n", "geometry_msgs/Missing data\n", "=" * 80 + "\n", "float128 data\n", "((((" * 5000,
]  # fmt: skip


def change_numbers(data: bytes, rng: Rng) -> bytes:
    """Lengths and counts: any eight, four or two bytes become a number that nobody expects."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        size, kind = pick(rng, [(8, "<Q"), (4, "<I"), (2, "<H")])
        at = int(rng.integers(max(1, len(data) - size)))
        changed[at : at + size] = struct.pack(kind, pick(rng, BIG) % 256**size)
    return bytes(changed)


def odd_definition(data: bytes, rng: Rng) -> bytes:
    """The definition of a message type in an MCAP file, in place and of the same length."""
    at = data.find(b"float64[]")
    if at < 0:
        return change_numbers(data, rng)
    text = pick(rng, DEFINITIONS).encode()[:200]
    return data[:at] + text + data[at + len(text) :]


def chunk_bomb(data: bytes, rng: Rng) -> bytes:
    """A chunk of an MCAP file that unpacks to far more than it says, or says so."""
    from backports import zstd

    zeros = int(pick(rng, [1000, 10**6, 3 * 10**8]))
    packed = zstd.compress(bytes(zeros))
    said = int(pick(rng, [zeros, 100, 2**40, zeros + 1]))
    kind = pick(rng, [b"zstd", b"lz4", b"none", b""])
    body = (
        struct.pack("<QQQI", 0, 1, said, 0) + struct.pack("<I", len(kind)) + kind + struct.pack("<Q", len(packed)) + packed
    )
    chunk = b"\x06" + struct.pack("<Q", len(body)) + body
    at = data.find(b"\x06", 9)
    return data[:at] + chunk + data[at:]


SQL = [
    "UPDATE messages SET data = NULL", "UPDATE messages SET data = 'text'", "UPDATE messages SET timestamp = 'soon'",
    "UPDATE messages SET timestamp = -timestamp", "UPDATE messages SET timestamp = NULL",
    "UPDATE messages SET topic_id = 99",
    "UPDATE messages SET data = zeroblob(1000000) WHERE id < 20", "UPDATE messages SET data = x'00010000'",
    "DELETE FROM messages",
    "UPDATE topics SET type = 'std_msgs/msg/Nothing'", "UPDATE topics SET name = ''", "DROP TABLE messages",
    "UPDATE topics SET serialization_format = 'json'", "UPDATE messages SET data = data || data", "DELETE FROM topics",
    "UPDATE messages SET timestamp = 9223372036854775807", "UPDATE topics SET id = id + 0.5",
    "DROP TABLE message_definitions",
    "UPDATE message_definitions SET encoding = 'ros2idl'", "UPDATE messages SET data = substr(data, 1, 11)",
    "UPDATE message_definitions SET encoded_message_definition = NULL",
    "ALTER TABLE messages RENAME TO old; "
    "CREATE VIEW messages AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) "
    "SELECT i AS id, 1 AS topic_id, i AS timestamp, zeroblob(1000) AS data FROM r",
]  # fmt: skip


def odd_database(data: bytes, rng: Rng) -> bytes:
    """A well-formed database of other content."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "odd.db3"
        file.write_bytes(data)
        database = sqlite3.connect(file)
        try:
            if rng.random() < 0.2:
                asked = "UPDATE message_definitions SET encoded_message_definition = ?"
                database.execute(asked, [pick(rng, DEFINITIONS)])
            else:
                database.executescript(pick(rng, SQL))
            database.commit()
        except sqlite3.Error:
            pass
        finally:
            database.close()
        return file.read_bytes()


def odd_hdf5(data: bytes, rng: Rng) -> bytes:
    """A well-formed file of other arrays, or of links."""
    out = io.BytesIO(data)
    with h5py.File(out, "r+") as file:
        demos = file["data"]
        for _ in range(int(rng.integers(1, 4))):
            demo, name = demos[pick(rng, ["demo_0", "demo_1"])], pick(rng, ["obs/q", "actions", "obs"])
            if name in demo:
                del demo[name]
            with suppress(Exception):  # what cannot be made of what was made before
                pick(rng, ODD_ARRAYS)(demo, name)
    return out.getvalue()


def _external(demo: Any, name: str) -> None:
    demo.create_dataset(name, shape=(10, 2), dtype="f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


def _virtual(demo: Any, name: str) -> None:
    layout = h5py.VirtualLayout(shape=(10, 2), dtype="f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "data", shape=(10, 2))
    demo.create_virtual_dataset(name, layout)


def _put(link: Callable[[], Any]) -> Callable[[Any, str], None]:
    def put(demo: Any, name: str) -> None:
        demo[name] = link()

    return put


def _array(**settings: Any) -> Callable[[Any, str], None]:
    return lambda demo, name: demo.create_dataset(name, **settings)


ODD_ARRAYS: list[Callable[[Any, str], Any]] = [
    _put(lambda: h5py.ExternalLink("/etc/passwd", "/data")),
    _put(lambda: h5py.ExternalLink("case.csv", "/")),
    _put(lambda: h5py.SoftLink("/data")),
    _put(lambda: h5py.SoftLink("/nowhere")),
    lambda demo, name: demo.__setitem__(name, demo),
    _external,
    _virtual,
    _array(shape=(10**12, 2), dtype="f8", chunks=(1000, 2)),
    _array(shape=(10**6, 100), dtype="f8", chunks=(10**6, 100)),
    _array(shape=(10, 10**6), dtype="f8", chunks=(1, 10**6)),
    _array(shape=(0, 2), dtype="f8"),
    _array(shape=(), dtype="f8"),
    _array(shape=(10, 2, 2), dtype="u1"),
    _array(data=np.full((10, 2), np.nan)),
    _array(data=np.zeros(10, dtype=[("a", "f8")])),
    _array(data=[b"word"] * 10),
    _array(data=["word"] * 10, dtype=h5py.string_dtype()),
    _array(shape=(10,), dtype=h5py.vlen_dtype("f8")),
    _array(shape=(10, 2), dtype="f4", compression="gzip", shuffle=True),
    _array(shape=(10, 2), dtype="c16"),
    _array(shape=(10,), dtype=h5py.ref_dtype),
    lambda demo, name: demo.create_group("x" * 500),
    lambda demo, name: demo.create_group(pick(np.random.default_rng(0), WORDS[5:8])),
]

MCAP = [change_numbers, change_numbers, odd_definition, chunk_bomb]
DATABASE = [change_numbers, odd_database, odd_database]
HDF5 = [change_numbers, odd_hdf5, odd_hdf5]
