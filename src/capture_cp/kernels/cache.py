"""Compiled code is kept on disk where that is possible, and compiled anew in each run where it is not.

Numba refuses to define a cached function where it finds no folder to write to, as in a container or on a locked-down robot,
and fails in the middle of a call where the disk is full or a file of its cache is damaged. A cache is there to save time, so
for functions of this package none of that may stop the work: it costs a warning and a minute of compiling.
"""

from __future__ import annotations

import warnings
from typing import Any

from numba.core.dispatcher import Dispatcher

from capture_cp.base.checks import CaptureWarning

#: How the modules of functions begin whose cache is guarded: ours, and the kernels that are made of ours and a user's.
OURS = ("capture_cp.", "capture_rollout_")


class GuardedCache:
    """A cache of numba's whose failures cost the time to compile, no more."""

    def __init__(self, cache: Any) -> None:
        self._guarded = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded, name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before; None if there is nothing that can be read."""
        try:
            return self._guarded.load_overload(sig, target_context)
        except Exception as error:  # a damaged file is unpickled, which may fail in any way
            _warn_once(f"{type(error).__name__}: {error}")
            return None

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
