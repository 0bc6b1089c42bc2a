"""Parquet files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from mutations.raw import BYTES, Rng, flip_bits, pick

_BOMBS: dict[tuple[str, int], bytes] = {}


def odd_parquet(data: bytes, rng: Rng) -> bytes:
    """A well-formed file of other columns: text, lists, dates, decimals, nothing; packed in any way."""
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    n = table.num_rows
    columns = {name: table.column(name) for name in table.column_names}
    for _ in range(int(rng.integers(1, 4))):
        columns[pick(rng, table.column_names)] = pick(rng, ODD_COLUMNS)(n)
    names, out = list(columns), io.BytesIO()
    if rng.random() < 0.2:
        names[0] = names[-1]
    settings = {"compression": pick(rng, ["none", "snappy", "gzip", "zstd"]), "use_dictionary": bool(rng.integers(2))}
    pyarrow.parquet.write_table(pyarrow.table(list(columns.values()), names=names), out, **settings)
    changed = out.getvalue()
    return changed if rng.random() < 0.5 else pick(rng, BYTES)(changed, rng)


ODD_COLUMNS: list[Callable[[int], Any]] = [
    lambda n: pyarrow.nulls(n),
    lambda n: pyarrow.array(["word"] * n),
    lambda n: pyarrow.array(["x" * 5000] * n).dictionary_encode(),
    lambda n: pyarrow.array([[1.0] * 50] * n),
    lambda n: pyarrow.array([{"a": 1.0}] * n),
    lambda n: pyarrow.array([None, *[1.0] * (n - 1)]),
    lambda n: pyarrow.array(np.full(n, np.nan)),
    lambda n: pyarrow.array([2**63] * n, type=pyarrow.uint64()),
    lambda n: pyarrow.array([1] * n, type=pyarrow.decimal128(38, 3)),
    lambda n: pyarrow.array([10**9] * n, type=pyarrow.timestamp("ns")),
    lambda n: pyarrow.array([True] * n),
    lambda n: pyarrow.array([1.5] * n, type=pyarrow.float32()),
    lambda n: pyarrow.array([b"\xff"] * n),
]


def row_bomb(data: bytes, rng: Rng) -> bytes:
    """Run-length encoding: a column of one number, thirty million times, in a hundred thousand bytes."""
    rows = int(rng.choice([10_000, 1_000_000, 30_000_000]))
    if ("rows", rows) not in _BOMBS:
        out, names = io.BytesIO(), pyarrow.parquet.read_schema(io.BytesIO(data)).names
        columns = [pyarrow.array(np.zeros(rows, dtype=np.int8)).cast(pyarrow.int32()) for _ in names[:2]]
        table = pyarrow.table(columns, names=names[:2])
        pyarrow.parquet.write_table(table, out, row_group_size=rows)
        _BOMBS["rows", rows] = out.getvalue()
    made = _BOMBS["rows", rows]
    return made if rng.random() < 0.5 else flip_bits(made, rng)


def word_bomb(data: bytes, rng: Rng) -> bytes:
    """One long word, printed once and meant in every row."""
    length, schema = int(rng.choice([10, 300_000])), bool(rng.integers(2))
    key = f"word, {schema}", length
    if key not in _BOMBS:
        names, rows, out = pyarrow.parquet.read_schema(io.BytesIO(data)).names, 20_000, io.BytesIO()
        word = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * length])
        columns = {name: np.zeros(rows) for name in names} | {"episode": word}
        pyarrow.parquet.write_table(pyarrow.table(columns), out, store_schema=schema)
        _BOMBS[key] = out.getvalue()
    return _BOMBS[key]


def flip_footer(data: bytes, rng: Rng) -> bytes:
    """Bits of the footer, which says where everything is, and of page headers; neither has a checksum."""
    changed, length = bytearray(data), int.from_bytes(data[-8:-4], "little")
    for _ in range(int(rng.integers(1, 5))):
        at = len(data) - 8 - int(rng.integers(1, length)) if rng.random() < 0.7 else int(rng.integers(4, 40))
        changed[at] = int(rng.integers(256)) if rng.random() < 0.5 else changed[at] ^ (1 << int(rng.integers(8)))
    return bytes(changed)


PARQUET = [odd_parquet, odd_parquet, odd_parquet, row_bomb, word_bomb, flip_footer, flip_footer, flip_footer, flip_footer]
