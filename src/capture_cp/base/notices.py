"""Notices from the library to a listener such as the command line: that kernels are being compiled."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[], object]] = []
_active: list[object] = []  # one entry per kernel that is being compiled now


def when_compiling(listener: Callable[[], object]) -> None:
    """Call `listener` once, before the first kernel is compiled whose code is not on disk; in place of earlier ones."""
    _listeners[:] = [listener]


def also_when_compiling(listener: Callable[[], object]) -> None:
    """Call `listener` once as well, after the others."""
    _listeners.append(listener)


def not_on_disk() -> None:
    """A kernel must be compiled because its code is not on disk."""
    while _listeners:
        _listeners.pop(0)()


def compilation_begins() -> None:
    """A kernel is being compiled from now on."""
    _active.append(None)


def compilation_ends() -> None:
    """The compilation that began last is over."""
    if _active:
        _active.pop()


def is_compiling() -> bool:
    """Whether a kernel is being compiled now."""
    return bool(_active)
