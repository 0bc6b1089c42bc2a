"""The model and strata that a command names: imported, called once, and rejected with one sentence if unusable."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.spaces.strata import INFEASIBLE, Strata, checked_index

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


def user_model(name: str, folder: Path) -> UserModel:
    """The model called `module:object`, known to be callable with our arguments."""
    model = named_object("--model", name, folder, f"a callable {SIGNATURE}")
    if not callable(model):
        raise CaptureError(f"--model {name} is a {type(model).__name__}; expected a callable {SIGNATURE}.")
    try:
        inspect.signature(model).bind(np.empty((1, 1)), 1, np.random.default_rng())
    except TypeError as error:
        raise CaptureError(f"--model {name} needs other arguments ({error}); expected {SIGNATURE}.") from None
    except ValueError:
        pass  # a compiled callable without a signature
    return UserModel(name, folder, model)


class UserModel:
    """A model of the user's whose failures become one sentence; everything else it offers is passed on."""

    def __init__(self, name: str, folder: Path, model: Any) -> None:
        self._name, self._folder, self._model = name, folder, model

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Any:
        """Particles (n, L, dc) of inputs X (n, dx)."""
        found = np.asarray(self._guarded(self._model, SIGNATURE)(X, n_particles, rng))
        if found.ndim != 3 or found.shape[:2] != (len(X), n_particles):
            raise CaptureError(
                f"--model {self._name} returned shape {found.shape} for {len(X)} inputs and {n_particles} particles; "
                f"expected {SIGNATURE}, here ({len(X)}, {n_particles}, dc)."
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            wrong = np.flatnonzero(~np.isfinite(found).all(axis=(1, 2)))
            raise CaptureError(
                f"--model {self._name} returned NaN or infinite particles for {len(wrong)} of {len(X)} inputs, such as "
                f"{np.array2string(X[wrong[0]], precision=6, threshold=20)}; expected finite numbers for every row of X."
            )
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # with the inner names of a method, `inspect` would take this for one
            raise AttributeError(name)
        found = getattr(self._model, name)
        return self._guarded(found, f"what a method {name} is to return") if callable(found) else found

    def _guarded(self, function: Callable[..., Any], expected: str) -> Callable[..., Any]:
        """A function of the user's whose failure is one sentence."""

        @wraps(function)  # so that whoever asks what it takes is answered by the function itself
        def call(*arguments: Any) -> Any:
            try:
                with importable(self._folder):
                    return function(*arguments)
            except CaptureError:
                raise
            except (Exception, SystemExit) as error:  # it is not our code
                failed = f"{_cause(error)} for X of shape {np.shape(arguments[0])}" if arguments else _cause(error)
                raise CaptureError(f"--model {self._name} failed with {failed}; expected {expected}.") from None

        return call


def user_strata(name: str, folder: Path, Y: Floats | None = None) -> Strata:
    """The strata called `module:object`, known to answer for configurations Y (n, dc), where there are any."""
    strata = named_object("--strata", name, folder, STRATA)
    if not isinstance(strata, Strata) or isinstance(strata, type):
        raise CaptureError(f"--strata {name} is a {type(strata).__name__}; expected {STRATA}, such as GridStrata(...).")
    if Y is not None:
        outside = np.flatnonzero(labels_of_user(strata, name, folder, Y) == INFEASIBLE)
        if len(outside):
            refuse_infeasible(name, len(outside), len(Y), outside)
    return strata


def labels_of_user(strata: Strata, name: str, folder: Path, Y: Floats) -> Ints:
    """Stratum of each configuration Y (n, dc) by strata called `name`, -1 where infeasible: (n,)."""
    try:
        with importable(folder):
            found = strata.index(Y)
    except CaptureError:
        raise
    except (Exception, SystemExit) as error:  # it is not our code
        trouble = f"--strata {name} failed with {_cause(error)} for Y of shape {Y.shape}; expected {STRATA}."
        raise CaptureError(trouble) from None
    return checked_index(found, len(Y), len(strata.names), f"--strata {name}")


def refuse_infeasible(name: str, count: int, n: int, first: Ints) -> NoReturn:
    """Raise an error about so many of n transitions, of which the `first` rows are given."""
    raise CaptureError(
        f"--strata {name}: {count} of {n} transitions end in infeasible space (stratum -1), first in data "
        f"{data_rows(first)}; the guarantee needs every recorded transition, so widen the strata or their tolerance "
        "instead of dropping rows."
    )


def data_rows(rows: npt.NDArray[np.intp]) -> str:
    """The first of some rows of a log, counted from 1 below its line of names."""
    shown = ", ".join(str(int(row) + 1) for row in rows[:5])
    return f"{'row' if len(rows) == 1 else 'rows'} {shown}{', ...' if len(rows) > 5 else ''}"


def _cause(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
