"""Calibrations: safetensors files with a header and a checksum, which whoever means harm makes anew."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialise

from capture_cp.capture import artifact
from mutations.raw import ODD, Rng, pick


def signed(original: bytes, header: Any, arrays: dict[str, Any]) -> bytes:
    """A calibration like the original, with another content and a checksum that is right."""
    text = json.dumps(header)
    new = {"calibration": text, "sha256": artifact.checksum(text, arrays)}
    return serialise(arrays, metadata=artifact.metadata_of(original) | new)


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    header = json.loads(artifact.metadata_of(data)["calibration"])
    return header, {name: array.copy() for name, array in parse(data).items()}


def replace_somewhere(value: Any, rng: Rng, depth: int = 0) -> Any:
    """JSON with one thing in it, at any depth, replaced by something odd, dropped or doubled."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    keys = [key for key, _ in inner]
    if not keys or (depth and rng.random() < 0.3):
        return pick(rng, ODD)
    key, copy = pick(rng, keys), value.copy()
    if depth and rng.random() < 0.1:
        del copy[key]
    else:
        copy[key] = replace_somewhere(value[key], rng, depth + 1)
    return copy


def forged_header(data: bytes, rng: Rng) -> bytes:
    header, arrays = opened(data)
    for _ in range(int(rng.integers(1, 4))):
        header = replace_somewhere(header, rng)
        if not isinstance(header, dict):
            break
    return signed(data, header, arrays)


def forged_part(data: bytes, rng: Rng) -> bytes:
    """A score or grouping by another name, with other parameters."""
    header, arrays = opened(data)
    known = [*artifact.KNOWN, "Popen", "os.system", "Params", "Capture"]
    params = {pick(rng, ["k", "metric", "length", "angles", "min_leaf", "nothing"]): pick(rng, ODD)}
    part: Any = {"class": pick(rng, known), "params": pick(rng, [{}, params, [], None])}
    for _ in range(int(rng.choice([0, 1, 2, 300]))):
        part = {"class": pick(rng, known), "params": {pick(rng, ["metric", "k"]): part}}
    header[pick(rng, ["score", "groups"])] = part
    return signed(data, header, arrays)


def forged_arrays(data: bytes, rng: Rng) -> bytes:
    header, arrays = opened(data)
    for _ in range(int(rng.integers(1, 4))):
        name = pick(rng, sorted(arrays)) if arrays else "scores"
        arrays[name] = odd_array(arrays.get(name, np.zeros(3)), rng)
    if rng.random() < 0.1:
        arrays.pop(pick(rng, sorted(arrays)))
    return signed(data, header, arrays)


def odd_array(array: Any, rng: Rng) -> Any:
    way, array = int(rng.integers(7)), np.array(array)
    if way == 0 and array.size:
        spots = rng.integers(array.size, size=int(rng.integers(1, 5)))
        with np.errstate(all="ignore"):
            array.reshape(-1)[spots] = np.array(pick(rng, [0, 1, 2, 3, -1, 10**6, 2**31 - 1])).astype(array.dtype)
    elif way == 1 and array.dtype.kind != "U":
        array = array.astype(pick(rng, ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "?"]))
    elif way == 2:
        array = np.resize(array, tuple(rng.integers(0, 6, size=int(rng.integers(0, 4)))))
    elif way == 3 and array.dtype.kind == "f" and array.size:
        array.reshape(-1)[:: int(rng.integers(1, 9))] = pick(rng, [np.nan, np.inf, -np.inf, -1.0])
    elif way == 4:
        array = np.concatenate([array, array]) if array.ndim else array
    elif way == 5:
        array = rng.permutation(array) if array.ndim else array
    else:
        array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    return np.ascontiguousarray(array)


def endless_choices(data: bytes, rng: Rng) -> bytes:
    """Nodes whose two sides lead to the same node, over and over: few nodes, more paths than can be walked."""
    header, arrays = opened(data)
    n = int(rng.integers(4, 200))
    arrays["nodes.left"] = arrays["nodes.right"] = np.append(np.arange(1, n), -1).astype(np.int32)
    arrays["nodes.feature"] = np.append(np.zeros(n - 1), -1).astype(np.int32)
    arrays["nodes.threshold"] = rng.normal(size=n)
    arrays["nodes.group"] = np.append(np.full(n - 1, -1), 0).astype(np.int32)
    arrays["roots"] = np.zeros(len(arrays["roots"]), dtype=np.int32)
    return signed(data, header, arrays)


def deep_chain(data: bytes, rng: Rng) -> bytes:
    """A tree as deep as it has leaves: lawful, but nothing may recurse into it."""
    header, arrays = opened(data)
    inner = int(rng.choice([5, 900, 5000]))
    node = np.arange(inner)
    arrays["nodes.left"] = np.append(node + 1, np.full(inner + 1, -1)).astype(np.int32)
    arrays["nodes.right"] = np.append(node + inner + 1, np.full(inner + 1, -1)).astype(np.int32)
    arrays["nodes.feature"] = np.append(np.zeros(inner), np.full(inner + 1, -1)).astype(np.int32)
    arrays["nodes.threshold"] = np.append(-node, np.zeros(inner + 1)).astype(float)
    arrays["nodes.group"] = np.append(np.full(inner, -1), np.zeros(inner + 1)).astype(np.int32)
    arrays["roots"] = np.zeros(len(arrays["roots"]), dtype=np.int32)
    if "starts" in arrays:
        arrays["starts"] = np.array([0, len(arrays["scores"])])
        arrays["scores"] = np.sort(arrays["scores"])
    return signed(data, header, arrays)


def odd_safetensors(data: bytes, rng: Rng) -> bytes:
    """The file's own header, which says where each array lies: other numbers, other types, far too long, far too deep."""
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    way = int(rng.integers(5))
    if way == 0:
        return int(pick(rng, [2**63, 2**40, len(data), len(data) - 8, 0, 7])).to_bytes(8, "little") + data[8:]
    if way == 1:
        text = pick(rng, [b"[", b'{"a":', b"{", b"-", b"\\u"]) * int(rng.integers(1, 100_000))
    elif way == 2:
        header |= {f"x{i}": pick(rng, ODD) for i in range(int(rng.integers(1, 2000)))}
        text = json.dumps(header).encode()
    else:
        text = json.dumps(replace_somewhere(header, rng)).encode()
    return len(text).to_bytes(8, "little") + text + rest


CALIBRATION = [
    forged_header,
    forged_header,
    forged_part,
    forged_arrays,
    forged_arrays,
    endless_choices,
    deep_chain,
    odd_safetensors,
]


def other_past(data: bytes, rng: Rng) -> bytes:
    """A history of other scores, capital and alarms, which may well be one."""
    header, arrays = opened(data)
    arrays["scores"] = arrays["scores"] * pick(rng, [0.0, -1.0, 1e300, 1e-300])
    header["martingale"] |= {
        "log_largest": float(rng.choice([0.0, 5.0, 1e300])),
        "log_capital": float(rng.choice([0.0, -1e300])),
    }
    header["notes"] |= {"alarm": pick(rng, [None, {"batch": 1, "about": "x"}])}
    return signed(data, header, arrays)


#: Of a file without a tree.
HISTORY = [forged_header, forged_arrays, other_past, odd_safetensors]
