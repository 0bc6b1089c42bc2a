"""The user's two functions tried in Python, with arrays of the exact sizes, before compiled code is trusted with them.

Compiled code reads beyond the end of an array without an error, and nobody sees what a step returns.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.kernels.parallel import require_compiler

STEPS = 4  # of the first sequence that are tried

SIGNATURES = {
    "step": ("states", "action", "noise", "params"),
    "stage_cost": ("mean", "action", "hazard", "h", "horizon", "params"),
    "particle_cost": ("states", "l", "params"),
    "particle_stratum": ("states", "l", "params"),
}


def check_signature(role: str, function: Any) -> None:
    """Refuse what is no compiled function, or does not take the arguments of its role."""
    require_compiler()
    wanted = SIGNATURES[role]
    if not hasattr(function, "py_func"):
        raise CaptureError(f"{role} is {function!r}; expected a function compiled with numba.njit.")
    signature = inspect.signature(function.py_func)
    try:
        signature.bind(*wanted)
    except TypeError:
        raise CaptureError(
            f"{role} is {function.py_func.__name__}{signature}; expected a function of {len(wanted)} arguments, "
            f"({', '.join(wanted)})."
        ) from None


def try_in_python(
    step: Any, stage_cost: Any, params: Any, state: Floats, actions: Floats, noise: Floats, seen: Any = 0
) -> None:
    """Call the Python versions of both functions along one sequence, and refuse what compiled code would hide.

    From state (ds,) under actions (H, da) with noise (steps, dn, L); `seen` is what the cost sees of regions. Errors other
    than those of indices are left to the compiled functions: not all that numba compiles runs in Python.
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
            f"step returned {_kind(returned)}, which nobody reads; write the next states into `states` and return nothing."
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
    """What an error says, and the line of code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    code = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{error}, in line {frame.lineno} of {frame.filename}" + (f": `{code}`" if code else "")
