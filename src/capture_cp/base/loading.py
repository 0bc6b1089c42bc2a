"""Modules that are imported while something else is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread


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
