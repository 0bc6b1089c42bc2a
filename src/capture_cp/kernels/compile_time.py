"""Shortens numba's compilation. The compiled code is the same.

Numba inlines a function into each caller by copying its blocks one by one, and each copy includes the whole table of the
function's variables. For functions made of many inlined ones, these copies take longer than the rest of the compilation.
When it follows copies of variables through a function, it compares sets of names with deep copies of all of them. Garbage
collection takes a tenth of the time, since it goes through millions of long-lived objects again and again.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.core import event

#: The attributes of a numba scope that `_copied_scope` copies.
_FIELDS = {"parent", "localvars", "loc", "redefined", "var_redefinitions"}


def _copied_scope(scope: Any, memo: dict[int, Any]) -> Any:
    """A copy of a table of variables that shares the variables themselves."""
    copy = memo[id(scope)] = type(scope)(scope.parent, scope.loc)
    copy.localvars._con.update(scope.localvars._con)
    copy.redefined.update(scope.redefined)
    copy.var_redefinitions.update({name: set(others) for name, others in scope.var_redefinitions.items()})
    return copy


def _with_cheap_copies(inline: Callable[..., Any], scope: Any, place: Any) -> Callable[..., Any]:
    """Numba's function that inlines a call. In it, variables of a copied block are replaced by those of the caller.

    `scope` and `place` are numba's classes of a table of variables and of a line of code.
    """

    @wraps(inline)
    def inline_ir(*given: Any, **named: Any) -> Any:
        if hasattr(scope, "__deepcopy__"):  # inlining has led to the compilation of another function
            return inline(*given, **named)
        scope.__deepcopy__, place.__deepcopy__ = _copied_scope, lambda line, memo: line
        try:
            return inline(*given, **named)
        finally:
            del scope.__deepcopy__, place.__deepcopy__

    return inline_ir


class _CopiesOfSets:
    """The module `copy`, which copies a dictionary of sets without its elements: names cannot change."""

    copy = staticmethod(copy.copy)

    @staticmethod
    def deepcopy(value: Any) -> Any:
        if isinstance(value, dict) and all(type(part) is set for part in value.values()):
            return {key: set(part) for key, part in value.items()}
        return copy.deepcopy(value)


def _make_copies_cheap() -> None:
    """Change how numba copies sets of names, and how it inlines, if this version of it copies scopes as assumed here."""
    try:
        from numba.core import ir_utils
        from numba.core.inline_closurecall import InlineWorker
        from numba.core.ir import Loc, Scope
    except ImportError:
        return
    if vars(ir_utils).get("copy") is copy:
        vars(ir_utils)["copy"] = _CopiesOfSets
    if hasattr(Scope, "__deepcopy__") or hasattr(Loc, "__deepcopy__"):
        return
    if vars(Scope(None, Loc("", 0))).keys() == _FIELDS:
        worker: Any = InlineWorker
        worker.inline_ir = _with_cheap_copies(worker.inline_ir, Scope, Loc)


class _Shortened(event.Listener):
    """Suspends garbage collection while functions are compiled, and makes copies cheap before the first one."""

    def __init__(self) -> None:
        self._depth, self._resume, self._cheap = 0, False, False

    def on_start(self, event: Any) -> None:
        if not self._cheap:
            self._cheap = True
            _make_copies_cheap()
        if self._depth == 0:
            self._resume = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._resume:
            gc.enable()


def shorten() -> None:
    """Shorten all compilation in this process from now on; once."""
    event.register("numba:compile", _Shortened())
