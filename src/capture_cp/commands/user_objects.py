"""The model and strata that a command names: imported, and their failures reported in one sentence."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.spaces.strata import Strata, checked_index

SIGNATURE = "model(X, n_particles, rng) -> (n, L, dc)"
STRATA = "an object with names and index(Y) -> whole numbers (n,), -1 where infeasible"


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """While the block lasts, modules in `folder` can be imported, where no installed module has their name.

    Only around code that the user names: a folder that a log happens to lie in may hold anything.
    """
    place = str(folder.absolute())
    sys.path.append(place)
    try:
        yield
    finally:
        del sys.path[len(sys.path) - 1 - sys.path[::-1].index(place)]


def guarded(function: Callable[..., Any], name: str, folder: Path, expected: str) -> Callable[..., Any]:
    """A function of the user's, called `name` in the one sentence that reports its failure."""

    @wraps(function)  # so that whoever asks what it takes is answered by the function itself
    def call(*arguments: Any) -> Any:
        try:
            with importable(folder):
                return function(*arguments)
        except CaptureError:
            raise
        except (Exception, SystemExit) as error:  # it is not our code
            where = f" for an array of shape {np.shape(arguments[0])}" if arguments else ""
            raise CaptureError(f"{name} failed with {_cause(error)}{where}; expected {expected}.") from None

    return call


def named_object(option: str, name: str, folder: Path, expected: str) -> Any:
    """What `module:object` stands for, in a module that is installed or lies in `folder`."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise CaptureError(f"{option} is {name!r}; expected module:object, where the object is {expected}.")
    try:
        with importable(folder):
            module = found = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise CaptureError(
            f"{option} {name}: cannot import {module_name} ({_cause(error)}); expected {expected}, in a module that is "
            "installed or lies in the current folder (or --folder)."
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            where = getattr(module, "__file__", None) or "built in"
            raise CaptureError(f"{option} {name}: {module_name} ({where}) has no {path}; expected {expected}.{hint}")
        found = getattr(found, part)
    return found


class UserModel:
    """A model of the user's whose failures become one sentence; everything else it offers is passed on."""

    def __init__(self, name: str, folder: Path, model: Any) -> None:
        self._name, self._folder, self._model = f"--model {name}", folder, model

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Any:
        """Particles (n, L, dc) of inputs X (n, dx)."""
        found = np.asarray(guarded(self._model, self._name, self._folder, SIGNATURE)(X, n_particles, rng))
        if found.dtype.kind == "f" and not np.isfinite(found).all() and found.shape[:1] == X.shape[:1]:
            wrong = np.flatnonzero(~np.isfinite(found.reshape(len(X), -1)).all(axis=1))
            raise CaptureError(
                f"{self._name} returned NaN or infinite particles for {len(wrong)} of {len(X)} inputs, such as "
                f"{np.array2string(X[wrong[0]], precision=6, threshold=20)}; expected finite numbers for every row of X."
            )
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # with the inner names of a method, `inspect` would take this for one
            raise AttributeError(name)
        found = getattr(self._model, name)
        return guarded(found, self._name, self._folder, f"what a method {name} is to return") if callable(found) else found


def user_model(name: str, folder: Path) -> UserModel:
    """The model called `module:object`."""
    model = named_object("--model", name, folder, f"a callable {SIGNATURE}")
    if not callable(model):
        raise CaptureError(f"--model {name} is a {type(model).__name__}; expected a callable {SIGNATURE}.")
    return UserModel(name, folder, model)


def user_strata(name: str, folder: Path) -> Strata:
    """The strata called `module:object`."""
    strata = named_object("--strata", name, folder, STRATA)
    if not isinstance(strata, Strata) or isinstance(strata, type):
        raise CaptureError(f"--strata {name} is a {type(strata).__name__}; expected {STRATA}, such as GridStrata(...).")
    return strata


def labels_of_user(strata: Strata, name: str, folder: Path, Y: Floats) -> Ints:
    """Stratum of each configuration Y (n, dc) by strata called `name`, -1 where infeasible: (n,)."""
    found = guarded(strata.index, f"--strata {name}", folder, STRATA)(Y)
    return checked_index(found, len(Y), len(strata.names), f"--strata {name}")


def refuse_infeasible(name: str, count: int, n: int, first: Ints) -> NoReturn:
    """Raise an error about so many of n transitions, of which the `first` rows are given."""
    rows = ", ".join(str(int(row) + 1) for row in first[:5]) + (", ..." if len(first) > 5 else "")
    raise CaptureError(
        f"--strata {name}: {count} of {n} transitions end in infeasible space (stratum -1), first in data "
        f"{'row' if len(first) == 1 else 'rows'} {rows}; the guarantee needs every recorded transition, so widen the strata "
        "or their tolerance instead of dropping rows."
    )


def _cause(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
