"""Compiled code is read from disk without preparing numba for compilation.

Before numba reads the first function from its cache, it imports and registers its implementations of Python's and NumPy's
functions, which takes longer than importing numba. Only compilation needs them, and compilation registers them itself.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numba

#: Versions of numba whose internals are known to be as assumed here. With any other, code is read as numba reads it.
KNOWN = {(0, 68)}


def read_code(stored: Any, sig: Any, target_context: Any) -> Any:
    """The code of a function for a signature from its numba cache; None if it is not there."""
    version: Any = numba.version_info
    if version.short not in KNOWN or not _calls_only_ours(stored._py_func):
        return stored.load_overload(sig, target_context)
    _name_runtime()
    with stored._guard_against_spurious_io_errors():
        return stored._load_overload(sig, target_context)


@cache
def _name_runtime() -> None:
    """Make known where numba's memory management is, of all that numba prepares the only part that compiled code calls.

    Numba also compiles a part of it, which is linked into functions when they are compiled.
    """
    runtime: Any = import_module("numba.core.runtime.nrt")
    for name, address in runtime._nrt.c_helpers.items():
        runtime.ll.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _calls_only_ours(function: Any) -> bool:
    """Whether a function calls compiled functions of this package only: a user's may call what other packages register."""
    called = [value.py_func.__module__ for value in function.__globals__.values() if hasattr(value, "py_func")]
    return all(name == function.__module__ or name.startswith("capture_cp.") for name in called)
