"""Ctrl+C at any moment ends a command: it is never lost, and it never interrupts the compiler where that would crash."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from types import FrameType
from typing import Any

#: Status of a process that was interrupted.
STATUS = 130
#: Seconds after which an interrupt that could not be raised is repeated.
PAUSE = 0.02

_seen, _ending = threading.Event(), threading.Event()


def watch_interrupts() -> None:
    """Raise interrupts where they do no harm, and repeat those that Python cannot raise, as in a finaliser.

    For programs: the handlers of this process are replaced. A process that ignores interrupts goes on to do so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _unraisable


def interrupted() -> bool:
    """Whether there was an interrupt: what fails after it fails because of it."""
    return _seen.is_set()


def end_quietly() -> None:
    """After an interrupt, ignore further ones and the warnings of work that was cancelled: the process is ending."""
    if _seen.is_set():
        _ending.set()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        warnings.simplefilter("ignore")


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise the interrupt, but not in Python's interface to LLVM.

    That would leave before noting which modules LLVM has freed: they would be freed again, a segmentation fault.
    """
    _seen.set()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("llvmlite"):
            _repeat()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _unraisable(failure: Any) -> None:
    if not _seen.is_set():
        sys.__unraisablehook__(failure)
    elif issubclass(failure.exc_type, KeyboardInterrupt):
        _repeat()


def _repeat() -> None:
    threading.Timer(PAUSE, _send).start()


def _send() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # which wakes it if it waits
    else:  # Windows
        signal.raise_signal(signal.SIGINT)


def _leave() -> None:
    """End the process when all else is tidied up, without freeing what a cancelled compilation has left half done."""
    if _ending.is_set():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(STATUS)


atexit.register(_leave)  # called last, because it is registered first
