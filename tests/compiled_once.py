"""Compiled code that test workers share: what one of them compiles, the others wait for and then load from disk.

Without this, workers that need the same kernel at the same time all compile it, and those that save it at the same time
may lose each other's entries in numba's index.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # on Windows each worker compiles for itself
    fcntl = None


@contextmanager
def alone(function: str) -> Iterator[None]:
    """No other process is here for the same function. A function calls none that calls it, so no two wait for each other."""
    place = int.from_bytes(hashlib.sha256(function.encode()).digest()[:7])
    with global_compiler_lock:
        fcntl.lockf(LOCKS, fcntl.LOCK_EX, 1, place)
        try:
            yield
        finally:
            fcntl.lockf(LOCKS, fcntl.LOCK_UN, 1, place)


def compile_once(self: Any, sig: Any) -> Any:
    """In place of `Dispatcher.compile`."""
    if self._cache.cache_path is None:
        return COMPILE(self, sig)
    with alone(f"{self._cache.cache_path} {self.py_func.__qualname__}"):
        return COMPILE(self, sig)


if fcntl:
    COMPILE = Dispatcher.compile
    LOCKS = (Path(tempfile.gettempdir()) / f"capture-cp-compiling-{os.getuid()}").open("ab")
    Dispatcher.compile = compile_once
