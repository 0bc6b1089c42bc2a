"""A compiled function as plain Python, the compiled functions that it calls included: there, arrays check their indices."""

from __future__ import annotations

from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any


def python_twin(function: Any) -> Any:
    """The Python function behind a numba function, which calls the Python functions behind others."""
    return _twin(function, {})


def _twin(value: Any, known: dict[int, Any]) -> Any:
    """The twin of a compiled function, a module whose compiled functions are twins, or the value itself."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, ModuleType):
        return _Module(value, known)
    written = getattr(value, "py_func", None)
    if not isinstance(written, FunctionType):
        return value
    names = dict(written.__globals__)
    cells = tuple(CellType() for _ in written.__closure__ or ())
    twin = FunctionType(written.__code__, names, written.__name__, written.__defaults__, cells)
    twin.__kwdefaults__ = written.__kwdefaults__
    known[id(value)] = twin  # before its callees, since functions may call themselves
    for name in _names(written.__code__) & names.keys():
        names[name] = _twin(names[name], known)
    for cell, given in zip(cells, written.__closure__ or ()):
        cell.cell_contents = _twin(given.cell_contents, known)
    return twin


def _names(code: CodeType) -> set[str]:
    """Global names that a function, or one defined in it, may ask for."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


class _Module:
    """A module whose compiled functions are twins."""

    def __init__(self, module: ModuleType, known: dict[int, Any]) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return _twin(getattr(self._module, name), self._known)
