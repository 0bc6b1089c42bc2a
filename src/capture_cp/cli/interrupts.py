"""Ctrl+C in the middle of foreign code: that it ends the command, and without the messages of what it broke."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import warnings
from typing import Any

_seen = threading.Event()


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
