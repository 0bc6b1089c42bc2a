"""How kernels are compiled: where their code is cached, and parallel loops that are safe in threads and forked processes."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any

import numba
from numba import config, njit

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.base.files import folder_of_this_run

# -- code on disk -------------------------------------------------------------------------------------------------------


def _ensure_cache() -> None:
    """Let numba cache code in a temporary folder where it finds none that can be written to.

    As in a container or on a locked-down robot: numba raises an error when a cached function is defined there.
    """
    try:
        njit(cache=True)(lambda: None)
    except RuntimeError:
        config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(folder_of_this_run())  # also for processes that it starts
        warnings.warn(
            "compiled code cannot be cached on disk: neither the package's folder nor the user's can be written to. Each "
            "run compiles it again, which takes about a minute; set NUMBA_CACHE_DIR to a writable folder.",
            CaptureWarning,
            stacklevel=2,
        )


def require_compiler() -> None:
    """Raise an error if numba's compiler is disabled: kernels rely on behaviour of compiled code."""
    if config.DISABLE_JIT:
        raise CaptureError("NUMBA_DISABLE_JIT is set, but the kernels need numba's compiler; unset it.")


_ensure_cache()

# -- threads ------------------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_alone = False  # whether only kernels without threads may start in this process


def _library() -> str | None:
    """The library that numba uses for threads, None before the first kernel has started."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return None


def _after_fork() -> None:
    """A child process has a single thread, which holds no lock; GNU OpenMP would abort it when it starts threads."""
    global _lock, _alone
    _lock, _alone = threading.RLock(), _alone or _library() == "omp"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class ParallelKernel:
    """A compiled function with parallel loops (`prange`), which releases the GIL.

    Two of the three libraries that numba may use for threads abort the program in situations common in robotics: numba's
    own work queue when two threads start kernels at the same time, so that here one waits for the other; and GNU OpenMP in a
    process that was forked after its first use, as `multiprocessing` does on Linux, where the same kernel is compiled
    without threads.
    """

    def __init__(self, function: Callable[..., Any], cache: bool) -> None:
        update_wrapper(self, function)
        self.py_func, self._cache = function, cache
        self.threaded = njit(cache=cache, parallel=True, nogil=True)(function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, with as many threads as this process may use."""
        require_compiler()
        with nullcontext() if _alone or _library() in ("omp", "tbb") else _lock:
            return self._kernel(*arguments)

    @property
    def _kernel(self) -> Any:
        """The kernel for this process. One that is not cached compiles in half the time without threads."""
        return self.alone if _alone or (not self._cache and numba.get_num_threads() == 1) else self.threaded

    @cached_property
    def alone(self) -> Any:
        """The kernel without threads, under another name: numba's disk cache ignores the `parallel` option."""
        return njit(cache=self._cache, nogil=True)(renamed(self.py_func, "alone"))


def renamed(function: Any, suffix: str) -> Any:
    """A copy of a function under another name, which numba's disk cache keeps in another file."""
    closed = function.__defaults__, function.__closure__
    copy = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_{suffix}", *closed)
    copy.__qualname__, copy.__module__ = f"{function.__qualname__}_{suffix}", function.__module__
    return copy


def parallel_kernel(cache: bool) -> Callable[[Callable[..., Any]], Any]:
    """Decorator that compiles a function with parallel `prange` loops; it releases the GIL."""
    return lambda function: ParallelKernel(function, cache)
