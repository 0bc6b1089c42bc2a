"""Gymnasium environments and policies that a command names, rejected with one sentence if they cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name, shortened
from capture_cp.commands.user_objects import importable, named_object
from capture_lab.gym.ids import env_ids, gymnasium_module, register_envs

#: The policy that draws actions from the action space.
RANDOM = "random"
POLICY = "policy(observation) -> action, or an object with predict(observation) -> action"
#: Entries of an observation or an action, from which on it is no state but a picture or the like.
MOST = 1_000


def made_env(name: str, folder: Path) -> Any:
    """The environment `ID` or `module:ID`; the module is installed or lies in `folder`, and is imported first."""
    gymnasium = gymnasium_module()
    module, _, env_id = name.rpartition(":")
    with importable(folder):
        if module:
            try:
                import_module(module)
            except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
                raise CaptureError(
                    f"the environment {name}: cannot import {module} ({cause(error)}); expected ID or module:ID, in a "
                    "module that is installed or lies in the current folder (or --folder)."
                ) from None
        register_envs()  # the module may have registered a task
        known_name("environment", env_id, [*env_ids(), *sorted(gymnasium.registry)])
        try:
            return gymnasium.make(env_id)
        except CaptureError:
            raise
        except (Exception, SystemExit) as error:  # it is not our code
            raise CaptureError(f"the environment {name} cannot be made ({cause(error)}); repair or install it.") from None


def flat_size(role: str, space: Any) -> int:
    """How many numbers an observation or an action is, once it is flat."""
    gymnasium = gymnasium_module()
    if not space.is_np_flattenable:
        raise CaptureError(
            f"the {role} space is {shortened(str(space))}, which has no fixed number of entries; expected one that "
            "gymnasium.spaces.flatten can make a row of numbers of, such as a Box or a Dict of them."
        )
    size = int(gymnasium.spaces.flatdim(space))
    if not 1 <= size <= MOST:
        raise CaptureError(
            f"the {role} space {shortened(str(space))} has {size:,} entries; expected 1 to {MOST:,}, so wrap the "
            "environment in one that shows its state."
        )
    return size


def flat(space: Any, value: Any) -> Floats:
    """An observation or an action as numbers (d,); a Discrete one has a 1 among zeros."""
    return np.array(gymnasium_module().spaces.flatten(space, value), dtype=np.float64).ravel()


def found_policy(name: str, folder: Path, space: Any, seed: int) -> Callable[[Any], Any]:
    """The policy of that name: actions of `space` from observations."""
    if name == RANDOM:
        space.seed(seed)
        return lambda observation: space.sample()
    given = named_object("--policy", name, folder, POLICY)
    ask = getattr(given, "predict", given)
    if isinstance(given, type) or not callable(ask):
        kind = "class" if isinstance(given, type) else type(given).__name__
        raise CaptureError(f"--policy {name} is a {kind}; expected {POLICY}.")

    def policy(observation: Any) -> Any:
        try:
            with importable(folder):
                answer = ask(observation)
        except CaptureError:
            raise
        except (Exception, SystemExit) as error:  # it is not our code
            raise CaptureError(f"--policy {name} failed with {cause(error)}; expected {POLICY}.") from None
        if ask is not given and isinstance(answer, tuple) and len(answer) == 2:
            answer = answer[0]  # the other one is the state of a recurrent policy
        return checked_action(name, answer, space)

    return policy


def checked_action(name: str, action: Any, space: Any) -> Any:
    """An action of a policy as its space has it; one beyond the bounds of a Box is the environment's to judge."""
    gymnasium = gymnasium_module()
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Box):
        try:
            given = np.asarray(action).astype(space.dtype)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != space.shape:
            have = f"of shape {given.shape}" if given.size else shortened(repr(action))
            raise CaptureError(f"--policy {name} returned an action {have}; expected {space.shape}, as in {space}.")
        if not np.isfinite(given).all():
            raise CaptureError(f"--policy {name} returned NaN or infinite actions, {given}; expected finite numbers.")
        return given
    chosen = action
    if isinstance(space, spaces.Discrete) and np.size(action) == 1 and np.asarray(action).dtype.kind in "iu":
        chosen = np.asarray(action, dtype=space.dtype).reshape(())[()]
    if not space.contains(chosen):
        raise CaptureError(f"--policy {name} returned {shortened(repr(action))}; expected an action of {space}.")
    return chosen


def cause(error: BaseException) -> str:
    """What failed, in a line."""
    return shortened(" ".join(f"{type(error).__name__}: {error}".split()), 300)
