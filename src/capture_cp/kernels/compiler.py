"""How kernels are compiled: code kept on disk where possible, inlined calls without copies, loops shared by threads."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from types import FunctionType
from typing import Any

import numba
from numba import config, njit
from numba.core import event
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher

from capture_cp.base import notices
from capture_cp.base.checks import CaptureError, CaptureWarning

# -- code on disk -------------------------------------------------------------------------------------------------------

#: How the modules of functions begin whose cache is guarded: ours, and the kernels that are made of ours and a user's.
OURS = ("capture_cp.", "capture_rollout_")


class GuardedCache:
    """A cache of numba's whose failures cost the time to compile, no more.

    Numba refuses to define a cached function where it finds no folder to write to, as in a container or on a locked-down
    robot, and fails in the middle of a call where the disk is full or a file of its cache is damaged. A cache is there to
    save time, so for functions of this package none of that may stop the work: it costs a warning and a minute of compiling.
    """

    def __init__(self, cache: Any) -> None:
        self._guarded = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded, name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before; None if there is nothing that can be read."""
        try:
            found = self._guarded.load_overload(sig, target_context)
        except Exception as error:  # a damaged file is unpickled, which may fail in any way
            _warn_once(f"{type(error).__name__}: {error}")
            found = None
        if found is None:
            notices.not_on_disk()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if the disk takes it."""
        try:
            self._guarded.save_overload(sig, data)
        except OSError as error:
            _warn_once(error.strerror or str(error))


def guard(dispatcher: type[Any]) -> None:
    """Let a class of numba's functions do without a cache that it cannot have."""
    enable = dispatcher.enable_caching

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
            f"compiled code is not kept on disk ({reason}), so each run compiles it anew, which takes about a minute; "
            "set NUMBA_CACHE_DIR to a folder that can be written to.",
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


event.register("numba:compile", _Noticed())


# -- inlined calls ------------------------------------------------------------------------------------------------------

try:
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.ir_utils import simplify
    from numba.core.typed_passes import InlineOverloads
except ImportError:  # another numba, built otherwise: without these, functions are slower and no less right
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
        """Numba's own pipeline with one pass more, for `njit(pipeline_class=WithoutCopies)`.

        An inlined call begins with a copy of each argument, and the copy of a tuple counts a reference to each of its
        arrays. Where the inlined body has a loop, LLVM does not see that the counting comes to nothing, and it may cost as
        much as the work. Numba takes such copies out of functions with `parallel=True` and leaves them in all others. A loop
        that threads share cannot always hold inlined calls itself (on Python 3.12 numba's search for reductions in it may
        never end): it calls a function that holds them, and this compiler takes the copies out of that one.
        """

        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.add_pass_after(_DropCopies, InlineOverloads)
                pipeline.finalize()
            return pipelines


# -- threads ------------------------------------------------------------------------------------------------------------


class _Threads:
    """What is known of the library for threads, and of this process.

    Numba takes one of three libraries. Two of them end the whole program where it does what programs of robots do:

    - numba's own work queue, where two threads start kernels at the same time. They start one after the other here.
    - GNU OpenMP, in a process that was forked after its first use, as `multiprocessing` does on Linux. Such a process
      computes with the same kernels compiled without threads.

    TBB can do both.
    """

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
