"""A digest of what a program computes with: numbers, arrays, functions and their parts.

Numbers are rounded to six significant digits, so the last bits, which differ between CPUs, do not matter.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

DIGITS = 6
DEEPEST = 12  # limit for recursive functions and objects that refer to each other


def fingerprint(*values: Any) -> str:
    """Digest of values: equal values have equal digests, in any process and with any version of Python.

    A function is represented by its source text, its defaults and its closure; an object by its `fingerprint()`, its
    fields or its class.
    """
    digest = hashlib.sha256()
    for value in values:
        _take(digest, value, 0)
    return digest.hexdigest()


def _take(digest: Any, value: Any, depth: int) -> None:
    kind = type(value).__name__
    digest.update(f"<{kind}>".encode())
    if depth > DEEPEST:
        return
    if value is None or isinstance(value, bool | str | bytes):
        digest.update(repr(value).encode())
    elif isinstance(value, int | float | np.number):
        digest.update(f"{float(value):.{DIGITS}g}".encode())
    elif isinstance(value, np.ndarray):
        _take_array(digest, value)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _take(digest, str(key), depth + 1)
            _take(digest, value[key], depth + 1)
    elif isinstance(value, tuple | list):
        for part in value:
            _take(digest, part, depth + 1)
    elif isinstance(value, partial):
        _take(digest, (value.func, value.args, value.keywords), depth + 1)
    elif callable(getattr(value, "fingerprint", None)):
        digest.update(str(value.fingerprint()).encode())
    elif is_dataclass(value) and not isinstance(value, type):
        _take(digest, {entry.name: getattr(value, entry.name) for entry in fields(value) if entry.compare}, depth + 1)
    else:
        _take_function(digest, getattr(value, "py_func", value), depth)


def _take_array(digest: Any, array: Any) -> None:
    digest.update(str(array.shape).encode())
    if array.dtype.names:
        for name in array.dtype.names:
            _take_array(digest, array[name])
    elif array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(array) & (array != 0), np.abs(array), 1.0).astype(np.float64)
            scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
            rounded = np.where(np.isfinite(array), np.rint(array * scale), array)
        digest.update(np.ascontiguousarray(rounded + 0.0).tobytes())
        digest.update(np.floor(np.log10(size)).astype(np.int64).tobytes())
    else:
        digest.update(
            str(array.dtype.kind).encode() + np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        )


def _take_function(digest: Any, value: Any, depth: int) -> None:
    """Add a function by its source and its closure, or any other object by the name of its class."""
    code = getattr(value, "__code__", None)
    if code is None:
        digest.update(f"{type(value).__module__}.{type(value).__qualname__}".encode())
        return
    try:
        digest.update(textwrap.dedent(inspect.getsource(value)).encode())
    except (OSError, TypeError):
        digest.update(code.co_code)
        _take(digest, [const for const in code.co_consts if not hasattr(const, "co_code")], depth + 1)
    _take(digest, value.__defaults__, depth + 1)
    for cell in value.__closure__ or ():
        _take(digest, cell.cell_contents, depth + 1)
    owner = getattr(value, "__self__", None)
    if owner is not None:
        _take(digest, owner, depth + 1)
