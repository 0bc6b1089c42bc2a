"""Arrays: digests, the identity of what computes, and safe reading of untrusted .npz files."""

from __future__ import annotations

import hashlib
import inspect
import math
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats
from capture_cp.base.files import check_unpacked

DEEPEST = 12  # limit for recursive functions and objects that refer to each other


def read_arrays(file: Path, kind: str) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an .npz file, by name; no code is executed.

    The sizes stated in the file are cross-checked before any memory is allocated.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            check_unpacked(file, kind, sum(entry.file_size for entry in entries))
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except (CaptureError, MemoryError):
        raise
    except Exception:  # zipfile, zlib, struct, tokenize, NumPy: a damaged archive fails in too many ways to list
        raise CaptureError(f"{kind} {file} is not an npz file of plain arrays, or is damaged.") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    # NumPy never writes bzip2 or lzma, and lzma may need gigabytes to unpack one byte
    if not entry.filename.endswith(".npy") or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("not an array")
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, dtype = read(stream)
        size = math.prod(shape) * dtype.itemsize
        # NumPy allocates the stated shape before it checks how many bytes there are to read
        if dtype.itemsize == 0 or min(shape, default=0) < 0 or size != entry.file_size - stream.tell():
            raise ValueError("stated size differs from the actual size")
    with archive.open(entry) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def rows_where(mask: Bools, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The rows of an array (n, ...) where mask (n,) is true; for short rows ten times faster than array[mask]."""
    return array.take(np.flatnonzero(mask), axis=0)


def digest(*arrays: Floats) -> str:
    """SHA-256 digest of the shapes and values of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def digest_of_chunks(digests: Sequence[str]) -> str:
    """The digest of arrays digested chunk by chunk; for a single chunk, that chunk's own digest."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def identity(*values: Any) -> str:
    """Digest of what a program computes with, the same in any process: numbers, arrays, functions, and objects of these.

    Numbers count to six or seven digits, since the last bits differ between CPUs. A function stands for its source text, its
    defaults and its closure; an object for its `identity()`, its fields or its class.
    """
    return hashlib.sha256(repr(_described(values, 0)).encode()).hexdigest()


def _described(value: Any, depth: int) -> Any:
    """A value as nested tuples of text and numbers."""
    kind, inner = type(value).__name__, partial(_described, depth=depth + 1)
    if depth > DEEPEST:
        return kind
    if value is None or isinstance(value, bool | str | bytes):
        return kind, value
    if isinstance(value, int | float | np.number):
        return kind, f"{float(value):.6g}"
    if isinstance(value, np.ndarray):
        return kind, _array_described(value)
    if isinstance(value, Mapping):
        return kind, [(str(key), inner(value[key])) for key in sorted(value, key=str)]
    if isinstance(value, tuple | list):
        return kind, [inner(part) for part in value]
    if isinstance(value, partial):
        return kind, inner((value.func, value.args, value.keywords))
    if callable(getattr(value, "identity", None)):
        return kind, value.identity()
    if is_dataclass(value) and not isinstance(value, type):
        return kind, inner({entry.name: getattr(value, entry.name) for entry in fields(value) if entry.compare})
    function = getattr(value, "py_func", value)  # of a compiled one
    if not hasattr(function, "__code__"):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return _source(function), inner([function.__defaults__, cells, getattr(function, "__self__", None)])


def _array_described(array: npt.NDArray[Any]) -> Any:
    if array.dtype.names:
        return [(name, _array_described(array[name])) for name in array.dtype.names]
    with np.errstate(all="ignore"):  # a number beyond those of float32 becomes infinite
        plain = array.astype("<f4") + 0.0 if array.dtype.kind == "f" else array.astype(array.dtype.newbyteorder("<"))
    return array.dtype.kind, digest(plain)


def _source(function: Any) -> Any:
    """The source text of a function, or its code where there is none."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = function.__code__
        return code.co_code, [const for const in code.co_consts if not hasattr(const, "co_code")]
