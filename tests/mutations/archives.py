"""npz files: zip archives of arrays, each with a header of its own."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np

from mutations.calibrations import odd_array, replace_somewhere
from mutations.raw import BIG, BYTES, WORDS, Rng, flip_bits, pick


def entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def header_of(shape: str, dtype: str = "'<f8'", order: str = "False", version: int = 1) -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    form = "<H" if version == 1 else "<I"
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack(form, len(text) & (0xFFFF if version == 1 else 0xFFFFFFFF)) + text
    )


SHAPES = [f"({n},)" for n in BIG] + [
    "()", "(3,)", "(30,)", "(0, 1000000000000000)", "(3, 1000000000000000)", "(1000000000000000, 0)", "(-1, 3)", "(True,)",
    "(3.0,)", "('3',)", "3", "None", "(" * 500, "(" + "1," * 60 + ")", "-" * 4000 + "1", "[" * 3000, "(3000000, 2)",
    "(2, 3000000)",
]  # fmt: skip
DTYPES = [
    *["'<f8'"] * 3, "'|O'", "'|S0'", "'<U0'", "'|V0'", "'<U1000000000'", "'|V2147483647'", "'<c16'", "'<M8[s]'", "'>f8'",
    "'|b1'", "'<f2'", "[('a', '<f8'), ('b', '|O')]", "[('a', '<f8', (1000000000,))]", "'no'", "None", "3", "('<f8', (5,))",
]  # fmt: skip


def odd_npy(data: bytes, rng: Rng) -> bytes:
    """An array that claims another shape or type than it has bytes for."""
    parts = entries(data)
    name = pick(rng, sorted(parts))
    body = parts[name][128:] if rng.random() < 0.5 else bytes(int(rng.choice([0, 8, 240])))
    made = header_of(
        pick(rng, SHAPES), pick(rng, DTYPES), pick(rng, ["False", "True", "0"]), int(rng.choice([1, 1, 1, 2, 3]))
    )
    return packed(parts | {name: made + body})


def repacked_bytes(data: bytes, rng: Rng) -> bytes:
    """Bytes changed inside an entry, whose checksum is made anew."""
    parts = entries(data)
    name = pick(rng, sorted(parts))
    return packed(parts | {name: pick(rng, BYTES)(parts[name], rng)})


def other_arrays(data: bytes, rng: Rng) -> bytes:
    parts = entries(data)
    for _ in range(int(rng.integers(1, 3))):
        name, out = pick(rng, sorted(parts)), io.BytesIO()
        array = odd_array(np.lib.format.read_array(io.BytesIO(parts[name])), rng) if "header" not in name else np.zeros(3)
        np.lib.format.write_array(out, array)
        parts[name] = out.getvalue()
    if rng.random() < 0.2:
        parts[str(pick(rng, WORDS[:-3]) or "x") + ".npy"] = parts.pop(pick(rng, sorted(parts)))
    return packed(parts, int(pick(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])))


def zip_bomb(data: bytes, rng: Rng) -> bytes:
    """Zeros that pack a thousandfold, honestly printed: a well-formed array too large for the file it came in."""
    rows = int(rng.choice([1_000, 300_000, 12_000_000]))
    return _bomb(pick(rng, sorted(entries(data))), rows)


_BOMBS: dict[tuple[str, int], bytes] = {}


def _bomb(name: str, rows: int) -> bytes:
    if (name, rows) not in _BOMBS:
        _BOMBS[name, rows] = packed({name: header_of(f"({rows},)") + bytes(8 * rows)})
    return _BOMBS[name, rows]


def lying_directory(data: bytes, rng: Rng) -> bytes:
    """A number of the central directory or of a local header becomes another: sizes, offsets, flags, how it is packed."""
    changed = bytearray(data)
    signature = pick(rng, [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"])
    starts = [at for at in range(len(data)) if data.startswith(signature, at)]
    if not starts:
        return flip_bits(data, rng)
    at = pick(rng, starts) + int(rng.integers(4, 46))
    raw = struct.pack("<I", pick(rng, [0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1]))[: int(pick(rng, [1, 2, 4]))]
    changed[at : at + len(raw)] = raw
    return bytes(changed)


NPZ = [odd_npy, odd_npy, repacked_bytes, repacked_bytes, other_arrays, zip_bomb, lying_directory]


def odd_episode_header(data: bytes, rng: Rng) -> bytes:
    parts, out = entries(data), io.BytesIO()
    header = json.loads(str(np.lib.format.read_array(io.BytesIO(parts["header.npy"]))))
    text = json.dumps(replace_somewhere(header, rng)) if rng.random() < 0.8 else "[" * int(rng.choice([10, 90_000]))
    np.lib.format.write_array(out, np.array(text))
    return packed(parts | {"header.npy": out.getvalue()})
