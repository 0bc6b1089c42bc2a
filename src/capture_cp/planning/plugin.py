"""The compiled functions of a fast planner, in their simplest form: a point that is pushed around.

Write your own with the same signatures, decorated with `numba.njit`, in your own module, and pass them to `FusedRollout`.
`particle_cost` and `particle_stratum` are for costs that use the cells of regions, see `RegionSums`; `hazard`, `stratum`
and `squared` are for regions that have no cells.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, NamedTuple

from numba import njit
from numba.extending import overload

from capture_cp.base.checks import CaptureError
from capture_cp.kernels.compiler import require_compiler


@njit
def step(states, action, noise, params):
    """One step of the approximate model, in place: states (ds, L) of L particles, action (da,), standard normals (dn, L).

    Each row holds one state entry of all particles, so that loops over particles vectorise.
    """
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] += action[axis] + params.noise * noise[axis, l]


@njit
def stage_cost(mean, action, hazard, h, horizon, params):
    """Cost of step h (1 to horizon) from the particles' mean state (ds,) and the region's hazard cells."""
    away = 0.0
    for axis in range(mean.shape[0]):
        away += (mean[axis] - params.goal[axis]) ** 2
    return away + params.hazard_weight * hazard


@njit
def particle_cost(states, l, params):
    """Cost of particle l among those with states (ds, L)."""
    return 0.0


@njit
def particle_stratum(states, l, params):
    """Stratum of particle l among those with states (ds, L); -1 if infeasible."""
    return -1


@njit
def hazard(y, params):
    """Whether a configuration y (dc,) is on the hazard, or its signed distance from it, negative on the hazard."""
    return False


@njit
def stratum(y, params):
    """Stratum of a configuration y (dc,); -1 if infeasible."""
    return 0


@njit
def squared(y, p):
    """Squared distance of two configurations (dc,) in a metric that is a function."""
    return 0.0


class Functions(NamedTuple):
    """The user's functions that a kernel calls, by their roles above; None where a role is not used."""

    step: Any
    stage_cost: Any
    particle_cost: Any = None
    particle_stratum: Any = None
    hazard: Any = None
    stratum: Any = None
    squared: Any = None


class _Nothing(NamedTuple):
    nothing: int = 0


class Called(_Nothing):
    """An argument of kernels whose class has the functions that they call.

    Numba compiles a kernel for the types of its arguments, and finds it on disk by them. The kernel of a class at the top of
    a module is therefore compiled once for all processes: of the tasks of this repository, which say `cached=True`. For a
    user's functions a class is made in each process, as numba does not notice when what they read has changed.
    """

    step, stage_cost, particle_cost, particle_stratum = step, stage_cost, particle_cost, particle_stratum
    hazard, stratum, squared = hazard, stratum, squared
    cached = False

    def __init_subclass__(cls, cached: bool = False) -> None:
        cls.cached = cached
        if cached:
            _CACHED[Functions(**{role: vars(cls).get(role) for role in Functions._fields})] = cls


_CACHED: dict[Functions, type[Called]] = {}


@cache
def called_by(functions: Functions) -> Called:
    """The argument for kernels that call these functions."""
    used = {role: function for role, function in functions._asdict().items() if function is not None}
    return _CACHED.get(functions, type("Called", (Called,), used))()


def function_of(arrays: Any, name: str) -> Any:
    """The compiled function that the class of a NamedTuple has under this name, inside compiled code and outside."""
    return getattr(type(arrays), name)


@overload(function_of, prefer_literal=True)
def _function_of(arrays, name):
    function = getattr(arrays.instance_class, name.literal_value)
    return lambda arrays, name: function


def checked_functions(functions: Functions) -> Functions:
    """The functions, if all are compiled and take the arguments of their roles."""
    for role, function in functions._asdict().items():
        if function is not None:
            check_function(role, function)
    return functions


def check_function(role: str, function: Any) -> None:
    """Reject anything that is not a compiled function with the arguments of its role."""
    require_compiler()
    if not hasattr(function, "py_func"):
        raise CaptureError(f"{role} is {function!r}; expected a function compiled with numba.njit.")
    wanted = list(inspect.signature(globals()[role].py_func).parameters)
    signature = inspect.signature(function.py_func)
    try:
        signature.bind(*wanted)
    except TypeError:
        raise CaptureError(
            f"{role} is {function.py_func.__name__}{signature}; expected a function of {len(wanted)} arguments, "
            f"({', '.join(wanted)})."
        ) from None
