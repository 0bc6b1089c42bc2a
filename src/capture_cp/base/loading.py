"""Modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
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
