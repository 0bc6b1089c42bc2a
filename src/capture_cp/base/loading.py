"""Modules that are imported while something else is computed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread


def import_meanwhile(modules: Sequence[str]) -> None:
    """Import modules on another thread; one that is missing is reported where it is needed.

    Reading files and compiled loops leave most of the interpreter's time to it.
    """
    Thread(target=_import_all, args=(tuple(modules),), name="imports").start()


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        with suppress(ImportError):
            import_module(module)
