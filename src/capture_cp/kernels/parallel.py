"""Kernels whose loops are shared by threads, made safe for programs with threads and processes of their own.

Numba takes one of three libraries for its threads. Two of them end the whole program where it does what programs of robots
do:

- numba's own work queue, where two threads start kernels at the same time. They start one after the other here.
- GNU OpenMP, in a process that was forked after its first use, as `multiprocessing` does on Linux. Such a process computes
  with the same kernels compiled without threads.

TBB can do both.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from types import FunctionType
from typing import Any

import numba
from numba import config, njit

from capture_cp.base.checks import CaptureError
from capture_cp.kernels.inlining import WithoutCopies


class _Threads:
    """What is known of the library for threads, and of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.free = False  # whether kernels may start whenever they like
        self.alone = False  # whether only kernels without threads may start

    def settle(self) -> None:
        """The library is chosen when the first kernel starts: from then on it is known whether kernels must wait."""
        self.free = not self.alone and _library() not in (None, "workqueue")

    def after_fork(self) -> None:
        """In a child process, which has one thread: nobody holds the lock, and GNU OpenMP must not be used any more."""
        self.lock = threading.RLock()
        if _library() == "omp" and _vendor() == "GNU":
            self.free, self.alone = False, True


def _library() -> str | None:
    """The library in use, once there is one."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return None


def _vendor() -> str:
    """Who made the OpenMP in use; where that is not known, the one that cannot be forked."""
    try:
        return str(import_module("numba.np.ufunc.omppool").openmp_vendor)
    except (ImportError, AttributeError):
        return "GNU"


_THREADS = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_THREADS.after_fork)


class ParallelKernel:
    """A compiled function with loops that threads share (`prange`)."""

    def __init__(self, function: Callable[..., Any], cache: bool) -> None:
        update_wrapper(self, function)
        self._cache = cache
        self.threaded = njit(cache=cache, parallel=True, nogil=True)(function)

    def __call__(self, *arguments: Any) -> Any:
        """The kernel's answer, with as many threads as this process may have."""
        if _THREADS.free:
            return self.threaded(*arguments)
        if _THREADS.alone:
            return self.alone(*arguments)
        require_compiler()
        with _THREADS.lock:
            answer = self.threaded(*arguments)
            _THREADS.settle()
            return answer

    @cached_property
    def alone(self) -> Any:
        """The kernel without threads. By another name: numba's cache on disk does not ask whether threads were wanted."""
        written = self.threaded.py_func
        copy = FunctionType(written.__code__, written.__globals__, f"{written.__name__}_alone", written.__defaults__)
        copy.__qualname__, copy.__module__ = f"{written.__qualname__}_alone", written.__module__
        return njit(cache=self._cache, nogil=True, pipeline_class=WithoutCopies)(copy)

    def __getattr__(self, name: str) -> Any:
        """What else a numba function has."""
        if name == "threaded":
            raise AttributeError(name)
        return getattr(self.threaded, name)


def require_compiler() -> None:
    """Refuse to go on where numba is set not to compile: kernels rely on what only its compiled code does."""
    if config.DISABLE_JIT:
        raise CaptureError("NUMBA_DISABLE_JIT is set, but kernels run only if numba may compile them; unset it.")


def parallel_kernel(cache: bool) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function whose `prange` loops are shared by threads: a decorator. It lets other Python threads run."""
    return lambda function: ParallelKernel(function, cache)
