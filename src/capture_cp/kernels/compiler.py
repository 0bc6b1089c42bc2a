"""How kernels are compiled: cached on disk where possible, inlined calls without copies, parallel loops."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba import config, njit
from numba.core import event
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher

from capture_cp.base import notices
from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.kernels.cached_code import read_code
from capture_cp.kernels.compile_inner import optimise_once
from capture_cp.kernels.compile_once import Turn
from capture_cp.kernels.compile_time import shorten

# -- code on disk -------------------------------------------------------------------------------------------------------

#: Prefixes of our modules: this package, and kernels generated from its functions and a user's.
OURS = ("capture_cp.", "capture_rollout_")


_TURN = Turn()


class GuardedCache:
    """A numba cache whose failures only cost compilation time.

    Numba raises an error when a cached function is defined and it finds no writable folder, as in a container or on a
    locked-down robot. It fails in the middle of a call when the disk is full or a cache file is damaged. A cache only saves
    time, so for functions of this package such failures cause a warning and about a minute of compilation, not an error.
    """

    def __init__(self, cache: Any) -> None:
        self._guarded = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded, name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code from the cache; None if there is none that can be read.

        It is then the turn of this process to compile it, until it is saved.
        """
        found = self._read(sig, target_context)
        if found is None:
            notices.not_on_disk()
            if not notices.is_compiling():  # else it is compiled as a part of another function
                _TURN.take(self._lock_file)
                found = self._read(sig, target_context)
        if found is not None and not notices.is_compiling():
            _TURN.give_back()
        return found

    def _read(self, sig: Any, target_context: Any) -> Any:
        try:
            return read_code(self._guarded, sig, target_context)
        except Exception as error:  # unpickling a damaged file may raise anything
            _warn_once(f"{type(error).__name__}: {error}")
            return None

    @property
    def _lock_file(self) -> Path:
        return Path(self._guarded.cache_path) / f"{self._guarded._impl.filename_base}.lock"

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, if it can be written."""
        try:
            self._guarded.save_overload(sig, data)
        except OSError as error:
            _warn_once(error.strerror or str(error))
        finally:
            if not notices.is_compiling():
                _TURN.give_back()


def guard(dispatcher: type[Any]) -> None:
    """Make a numba dispatcher class work without a cache where none is available; once: two guards wait for each other."""
    enable = dispatcher.enable_caching
    if enable.__module__ != Dispatcher.__module__:
        return

    def enable_caching(self: Any) -> None:
        if not self.py_func.__module__.startswith(OURS):
            enable(self)
            return
        try:
            enable(self)
        except (RuntimeError, OSError) as error:
            _warn_once(str(error))
        else:
            self._cache = GuardedCache(self._cache)

    dispatcher.enable_caching = enable_caching


_warned = False


def _warn_once(reason: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"compiled code cannot be cached on disk ({reason}), so each run compiles it again, which takes about a minute; "
            "set NUMBA_CACHE_DIR to a writable folder.",
            CaptureWarning,
            stacklevel=2,
        )


guard(Dispatcher)


class _Noticed(event.Listener):
    """Lets whoever shows progress know that a function is being compiled."""

    def on_start(self, event: Any) -> None:
        notices.compilation_begins()

    def on_end(self, event: Any) -> None:
        notices.compilation_ends()
        if sys.exc_info()[0] is not None and not notices.is_compiling():
            _TURN.give_back()  # it has failed; otherwise when it has been saved


event.register("numba:compile", _Noticed())
shorten()
optimise_once(GuardedCache, OURS)


# -- inlined calls ------------------------------------------------------------------------------------------------------

try:
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.ir_utils import simplify
    from numba.core.typed_passes import InlineOverloads
except ImportError:  # another version of numba: without these passes, functions are slower but still correct
    WithoutCopies = Compiler
else:

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _DropCopies(FunctionPass):
        _name = "capture_cp_drop_copies"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            simplify(state.func_ir, state.typemap, state.calltypes, {})
            return True

    class WithoutCopies(Compiler):  # type: ignore[no-redef]
        """Numba's own pipeline plus one pass, for `njit(pipeline_class=WithoutCopies)`.

        An inlined call begins with a copy of each argument, and copying a tuple increments the reference count of each of
        its arrays. Where the inlined body has a loop, LLVM does not eliminate this counting, which may cost as much as the
        work. Numba removes such copies from functions with `parallel=True` and leaves them in all others. A parallel loop
        cannot always contain inlined calls itself (on Python 3.12 numba's search for reductions in it may never end): it
        calls a function that contains them, and this compiler removes the copies from that function.
        """

        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.add_pass_after(_DropCopies, InlineOverloads)
                pipeline.finalize()
            return pipelines


class SeparateArrays(WithoutCopies):
    """A pipeline for functions whose array arguments never overlap: LLVM then vectorises loops that write to several."""

    def define_pipelines(self) -> Any:
        self.state.flags.noalias = True
        return super().define_pipelines()


# -- threads ------------------------------------------------------------------------------------------------------------


class _Threads:
    """State of the threading library and of this process.

    Numba uses one of three threading libraries. Two of them abort the whole program in situations common in robotics:

    - numba's own work queue, when two threads start kernels at the same time. Here kernels are started one after the other.
    - GNU OpenMP, in a process that was forked after its first use, as `multiprocessing` does on Linux. Such a process
      uses the same kernels compiled without threads.

    TBB supports both.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.free = False  # whether kernels may start at any time
        self.alone = False  # whether only kernels without threads may start

    def settle(self) -> None:
        """Record whether kernels must wait; known once the first kernel has started and the library is chosen."""
        self.free = not self.alone and _library() not in (None, "workqueue")

    def after_fork(self) -> None:
        """Reset the state in a child process: its single thread holds no lock, and GNU OpenMP must not be used any more."""
        self.lock = threading.RLock()
        if _library() == "omp" and _vendor() == "GNU":
            self.free, self.alone = False, True


def _library() -> str | None:
    """The threading library in use, None before the first kernel has started."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return None


def _vendor() -> str:
    """Vendor of the OpenMP library in use; if unknown, the one that does not support forking."""
    try:
        return str(import_module("numba.np.ufunc.omppool").openmp_vendor)
    except (ImportError, AttributeError):
        return "GNU"


_THREADS = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_THREADS.after_fork)


def threads_have_started() -> bool:
    """Whether a kernel has started threads in this process."""
    return _library() is not None


class ParallelKernel:
    """A compiled function with parallel loops (`prange`)."""

    def __init__(self, function: Callable[..., Any], cache: bool) -> None:
        update_wrapper(self, function)
        self._cache = cache
        self.threaded = njit(cache=cache, parallel=True, nogil=True)(function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, with as many threads as this process may use."""
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
        """The kernel without threads, under another name: numba's disk cache ignores the `parallel` option."""
        written = self.threaded.py_func
        copy = FunctionType(written.__code__, written.__globals__, f"{written.__name__}_alone", written.__defaults__)
        copy.__qualname__, copy.__module__ = f"{written.__qualname__}_alone", written.__module__
        return njit(cache=self._cache, nogil=True, pipeline_class=WithoutCopies)(copy)

    def __getattr__(self, name: str) -> Any:
        """Other attributes of the numba function."""
        if name == "threaded":
            raise AttributeError(name)
        return getattr(self.threaded, name)


def require_compiler() -> None:
    """Raise an error if numba's compiler is disabled: kernels rely on behaviour of compiled code."""
    if config.DISABLE_JIT:
        raise CaptureError("NUMBA_DISABLE_JIT is set, but the kernels need numba's compiler; unset it.")


def parallel_kernel(cache: bool) -> Callable[[Callable[..., Any]], Any]:
    """Decorator that compiles a function with parallel `prange` loops; it releases the GIL."""
    return lambda function: ParallelKernel(function, cache)
