"""Modules that are imported when they are first used, or while something else is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import Any


class Deferred:
    """A module that is imported when one of its names is first used: `tree = Deferred("capture_cp.kernels.tree")`.

    Kernels are deferred where a program may define its objects and not compute yet: importing numba takes longer than
    everything else that `from capture_cp import Capture` imports.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """A name of the module; from then on it is an attribute of this object."""
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


@contextmanager
def imported_meanwhile(modules: Sequence[str]) -> Iterator[None]:
    """Import modules on another thread during the block; one that is missing is reported where it is needed.

    Reading files and compiled loops leave most of the interpreter's time to it. Enter `warnings.catch_warnings` before this
    block: modules change the filters of all threads while they are imported, and then restore what they found.
    """
    thread = Thread(target=_import_all, args=(tuple(modules),), name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        with suppress(ImportError):
            import_module(module)
