"""Tries the user's functions in Python, with arrays of the exact sizes, before the compiled code runs.

Compiled code reads beyond the end of an array without an error and ignores what a step returns. In Python, arrays check
their indices. What has been tried with which calibration is remembered: studies make hundreds of planners from the same few.
"""

from __future__ import annotations

import hashlib
import linecache
import pickle
import re
import traceback
import weakref
from collections.abc import Hashable
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.capture.fitted import Fitted

STEPS = 4  # number of steps of the first sequence that are tried
#: Beginnings of the lines of numba's errors that name no reason.
_FRAMES = "Failed in", "During:", "File "
#: Exceptions that compiling may raise.
COMPILING = (numba.NumbaError, numba.UnsupportedBytecodeError)


def try_in_python(
    step: Any, stage_cost: Any, params: Any, state: Floats, actions: Floats, noise: Floats, seen: Any = 0
) -> None:
    """Call the Python versions of both functions along one sequence, and report errors that compiled code would hide.

    From state (ds,) under actions (H, da) with noise (steps, dn, L); `seen` is what the cost receives about regions. Only
    index errors are reported here: not all code that numba compiles runs in Python.
    """
    states = np.repeat(state[:, None], noise.shape[2], axis=1)
    with np.errstate(all="ignore"):
        for h, normals in enumerate(noise[: len(actions)]):
            try:
                _try_step(step, states, actions[h].copy(), normals.copy(), params)
                _try_cost(stage_cost, states.mean(axis=1), actions[h].copy(), seen, h + 1, len(actions), params)
            except CaptureError:
                raise
            except Exception:
                return


def stays_inside(step: Any, params: Any, state: Floats, action: Floats, noise: Floats) -> bool:
    """Whether the Python version of a step from state (ds,) with noise (dn, L) stays within its arrays."""
    states = np.repeat(state[:, None], noise.shape[1], axis=1)
    with np.errstate(all="ignore"):
        try:
            step(states, action.copy(), noise.copy(), params)
        except IndexError:
            return False
        except Exception:
            return True
    return True


def why(error: BaseException) -> str:
    """Numba's reason why a function does not compile, and the line of the user's code that it names; no full stop."""
    lines = [line.strip() for line in re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()]
    reason = next(line for line in [*lines, type(error).__name__] if line and not line.startswith(_FRAMES))
    place = next((line for line in lines if line.startswith("File ")), "")
    own = place and str(Path(__file__).parent.relative_to(Path(__file__).parents[2])) not in place
    return reason.removesuffix("Raised from None").rstrip(". ") + (f", in {place[5:].rstrip(':')}" if own else "")


def _try_step(step: Any, states: Floats, action: Floats, noise: Floats, params: Any) -> None:
    given, sizes = action.copy(), f"states {states.shape}, action {action.shape} and noise {noise.shape}"
    try:
        returned = step(states, action, noise, params)
    except IndexError as error:
        raise CaptureError(
            f"step reads or writes beyond an array: {_place(error)}. Its arrays are {sizes}; noise has noise_dims rows."
        ) from error
    if returned is not None:
        raise CaptureError(
            f"step returned {_kind(returned)}, which is ignored; write the next states into `states` and return nothing."
        )
    if not np.array_equal(action, given, equal_nan=True):
        raise CaptureError("step changed its action, which belongs to the planner; copy the numbers that it changes.")


def _try_cost(stage_cost: Any, mean: Floats, action: Floats, seen: Any, h: int, horizon: int, params: Any) -> None:
    sizes = f"mean {mean.shape} and action {action.shape}"
    try:
        cost = stage_cost(mean, action, seen, h, horizon, params)
    except IndexError as error:
        raise CaptureError(f"stage_cost reads beyond an array: {_place(error)}. Its arrays are {sizes}.") from error
    if not isinstance(cost, int | float | np.number | np.bool_) or isinstance(cost, np.complexfloating):
        raise CaptureError(f"stage_cost returned {_kind(cost)} at step {h}; expected one number, the cost of the step.")


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "None" if value is None else f"a {type(value).__name__}"


def _place(error: BaseException) -> str:
    """The message of an error, and the line of code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    code = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{error}, in line {frame.lineno} of {frame.filename}" + (f": `{code}`" if code else "")


# -- a compiled function as plain Python, including the compiled functions that it calls ----------------------------------


def python_twin(function: Any) -> Any:
    """The Python function behind a numba function, calling the Python functions behind others."""
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
    """Global names that a function, or one defined in it, may use."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


class _Module:
    """A module whose compiled functions are twins."""

    def __init__(self, module: ModuleType, known: dict[int, Any]) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return _twin(getattr(self._module, name), self._known)


# -- what has been tried --------------------------------------------------------------------------------------------------

#: By the calibration's id, while it is alive: its model, and the keys of what was tried.
_TRIED: dict[int, tuple[Any, set[Hashable]]] = {}


def tried_with(cap: Fitted) -> set[Hashable]:
    """Keys of what has been tried with a calibration and its present model; add to it."""
    model = cap.model_
    if id(cap) not in _TRIED:
        weakref.finalize(cap, _TRIED.pop, id(cap), None)
    if _TRIED.get(id(cap), (None,))[0] is not model:
        _TRIED[id(cap)] = model, set()
    return _TRIED[id(cap)][1]


def content_key(params: Any) -> Hashable:
    """A key that is equal for parameters of equal content; no other has the key of what cannot be compared."""
    try:
        return hashlib.sha256(pickle.dumps(params)).hexdigest()
    except Exception:
        return object()
