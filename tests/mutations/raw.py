"""Bytes changed by accident, and odd values for those who change them by design."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Mutation = Callable[[bytes, Rng], bytes]

BIG = [0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**53, 10**15, 2**63 - 1, -(2**63), 2**64, 10**30]
WORDS = [
    "", "nan", "NaN", "inf", "-inf", "1e999", "1e-999", "0x10", "1_0", "None", "a" * 200, "__import__('os')",
    '"', "'", "#", "\0", "\ufeff", "\u0663",
]  # fmt: skip
ODD = [None, True, False, *BIG, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], {"class": "Tree"}, *WORDS]


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def random_bytes(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(9))] + rng.bytes(int(rng.integers(1, 2000)))


def flip_bits(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(len(data), size=int(rng.integers(1, 9))):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncate(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(1, len(data)))]


def cut_out(data: bytes, rng: Rng) -> bytes:
    first, last = np.sort(rng.integers(len(data), size=2))
    return data[:first] + data[last:] or b"\0"


def insert(data: bytes, rng: Rng) -> bytes:
    at = int(rng.integers(len(data) + 1))
    return data[:at] + rng.bytes(int(rng.integers(1, 64))) + data[at:]


def repeat_part(data: bytes, rng: Rng) -> bytes:
    first, last = np.sort(rng.integers(len(data), size=2))
    return data[:last] + data[first:last] * int(rng.integers(1, 4)) + data[last:]


def overwrite_number(data: bytes, rng: Rng) -> bytes:
    """A little-endian number somewhere becomes a very large, very small or negative one."""
    form = pick(rng, ["<b", "<h", "<i", "<q", "<d"])
    raw = (
        struct.pack(form, pick(rng, [-1, 0, 127, -128, 1]))
        if form != "<d"
        else struct.pack(form, pick(rng, [np.nan, 1e308]))
    )
    if form in ("<i", "<q"):
        raw = pick(rng, [raw, b"\xff" * (len(raw) - 1) + b"\x7f"])
    at = int(rng.integers(max(1, len(data) - len(raw))))
    return data[:at] + raw + data[at + len(raw) :]


BYTES: list[Mutation] = [random_bytes, flip_bits, flip_bits, truncate, cut_out, insert, repeat_part, overwrite_number]
