"""The model and the strata that a command names: imported, asked once, and refused with one sentence if they will not do."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, Floats
from capture_cp.spaces.strata import Strata, checked_index

SIGNATURE = "model(X, n_particles, rng) -> (n, L, dc)"
STRATA = "an object with names and index(Y) -> whole numbers (n,), -1 where infeasible"


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """While the block lasts, modules in `folder` can be imported."""
    place = str(folder.absolute())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def named_object(option: str, name: str, expected: str) -> Any:
    """What `module:object` stands for."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise CaptureError(f"{option} is {name!r}; expected module:object, where the object is {expected}.")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise CaptureError(
            f"{option} {name}: cannot import {module_name} ({_words(error)}); expected {expected}, in a module that is "
            "installed or lies in the current folder (or --folder)."
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise CaptureError(f"{option} {name}: {module_name} has no {path}; expected {expected}.{hint}")
        found = getattr(found, part)
    return found


def given_model(name: str) -> GivenModel:
    """The model called `module:object`, known to be callable with our arguments."""
    model = named_object("--model", name, f"a callable {SIGNATURE}")
    if not callable(model):
        raise CaptureError(f"--model {name} is a {type(model).__name__}; expected a callable {SIGNATURE}.")
    try:
        inspect.signature(model).bind(np.empty((1, 1)), 1, np.random.default_rng())
    except TypeError as error:
        raise CaptureError(f"--model {name} wants other arguments ({error}); expected {SIGNATURE}.") from None
    except ValueError:
        pass  # a compiled callable without a signature
    return GivenModel(name, model)


class GivenModel:
    """A model of the user's whose failures become one sentence; everything else it offers is passed on."""

    def __init__(self, name: str, model: Any) -> None:
        self._name, self._model = name, model

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Any:
        """Particles (n, L, dc) of inputs X (n, dx)."""
        try:
            found = np.asarray(self._model(X, n_particles, rng))
        except CaptureError:
            raise
        except Exception as error:  # it is not our code
            raise CaptureError(
                f"--model {self._name} failed with {_words(error)} for X of shape {X.shape}; expected {SIGNATURE}."
            ) from None
        if found.ndim != 3 or found.shape[:2] != (len(X), n_particles):
            raise CaptureError(
                f"--model {self._name} returned shape {found.shape} for {len(X)} inputs and {n_particles} particles; "
                f"expected {SIGNATURE}, here ({len(X)}, {n_particles}, dc)."
            )
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # with the inner names of a method, `inspect` would take this for one
            raise AttributeError(name)
        return getattr(self._model, name)


def given_strata(name: str, Y: Floats) -> Strata:
    """The strata called `module:object`, known to answer for configurations Y (n, dc)."""
    strata = named_object("--strata", name, STRATA)
    if not isinstance(strata, Strata) or isinstance(strata, type):
        raise CaptureError(f"--strata {name} is a {type(strata).__name__}; expected {STRATA}, such as GridStrata(...).")
    try:
        found = strata.index(Y)
    except CaptureError:
        raise
    except Exception as error:  # it is not our code
        trouble = f"--strata {name} failed with {_words(error)} for Y of shape {Y.shape}; expected {STRATA}."
        raise CaptureError(trouble) from None
    checked_index(found, len(Y), len(strata.names), f"--strata {name}")
    return strata


def _words(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
