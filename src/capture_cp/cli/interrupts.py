"""Ctrl+C in the middle of foreign code: that it ends the command, and without the messages of what it broke."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from typing import Any

#: Status of a process that was interrupted.
STATUS = 130

_seen, _ending = threading.Event(), threading.Event()


def watch_interrupts() -> None:
    """Remember an interrupt, and repeat it where Python cannot raise it, as in a callback of the compiler.

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


def _interrupt(*_: Any) -> None:
    _seen.set()
    raise KeyboardInterrupt


def _unraisable(failure: Any) -> None:
    if not _seen.is_set():
        sys.__unraisablehook__(failure)
    elif issubclass(failure.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, _thread.interrupt_main).start()


def _leave() -> None:
    """End the process when all else is tidied up: a library that was interrupted, such as the compiler, may crash then."""
    if _ending.is_set():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(STATUS)


atexit.register(_leave)  # called last, because it is registered first
