"""Names of environments: one for each place of each task, registered without importing any task."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from capture_cp.base.checks import CaptureError
from capture_lab.tasks.registry import TASKS, find_task, task_names

NAMESPACE, VERSION = "capture", 0
#: Places and steps of the built-in tasks, so that registering need not import them; a test compares them with the tasks.
OURS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "box": ("capture_lab.tasks.box:Box", ("box",), 30),
    "marble": (
        "capture_lab.tasks.marble.options:MarbleOptions",
        ("center", "center-right", "bottom-left", "bottom-right", "top-left", "top-center"),
        100,
    ),
    "peg": ("capture_lab.tasks.peg.options:PegOptions", ("planar", "arm"), 75),
    "shelf": ("capture_lab.tasks.shelf.options:ShelfOptions", ("open", "low", "corner", "divider", "two-glasses"), 80),
}


class Place(NamedTuple):
    """A task in a place, from which an environment is made.

    Attributes:
        task: name in the registry of tasks.
        place: one of its places; None for the first place of a task that is not imported yet.
        max_steps: maximum length of an episode; None if known only once the task is imported.
    """

    task: str
    place: str | None
    max_steps: int | None


def gymnasium_module() -> Any:
    """Gymnasium, or an error that explains how to install it."""
    try:
        return import_module("gymnasium")
    except ImportError:
        raise CaptureError('Gymnasium is not installed; install it with: pip install "capture-cp[gym]".') from None


def places() -> dict[str, Place]:
    """Every task and place by environment name, such as "MarbleCenter", including tasks registered by other packages."""
    found: dict[str, Place] = {}
    for task in task_names():
        for place in _places_of(task):
            found[_camel(task) if place.place in (None, task) else _camel(task, str(place.place))] = place
    return found


def env_ids() -> list[str]:
    """The ids of all environments, such as "capture/MarbleCenter-v0"."""
    return [env_id(name) for name in places()]


def env_id(name: str) -> str:
    """The id of an environment, from its name."""
    return f"{NAMESPACE}/{name}-v{VERSION}"


def register_envs() -> None:
    """Register every environment that is not registered yet; call it again after `register_task`."""
    gymnasium = gymnasium_module()
    for name, place in places().items():
        if env_id(name) not in gymnasium.registry:
            gymnasium.register(
                env_id(name),
                entry_point="capture_lab.gym.env:TaskEnv",
                vector_entry_point="capture_lab.gym.vector:TaskVectorEnv",
                max_episode_steps=place.max_steps,
                kwargs={"task": place.task, "place": place.place, "own_limit": place.max_steps is None},
            )


def task_at(task: str, place: str | None, options: dict[str, Any]) -> Any:
    """The task in a place, imported now; `options` are fields of the class registered under its name."""
    if task in OURS and TASKS.get(task) == OURS[task][0] and not options:
        return _ours(task, place)
    return _made(task, place, options)


@cache
def _ours(task: str, place: str | None) -> Any:
    """A built-in task with default options, shared by all of its environments so that its strata are computed once."""
    return _made(task, place, {})


def _made(task: str, place: str | None, options: dict[str, Any]) -> Any:
    kind = find_task(task)
    try:
        chosen = kind(**options)
    except TypeError as error:
        raise CaptureError(f"the options {sorted(options)} are not accepted by the task {task}: {error}.") from None
    return next(iter(chosen.places().values())) if place is None else chosen.at(place)


def _places_of(task: str) -> list[Place]:
    where = TASKS.get(task)
    if task in OURS and where == OURS[task][0]:
        return [Place(task, place, OURS[task][2]) for place in OURS[task][1]]
    if where is None or isinstance(where, str):  # from another package, not imported yet
        return [Place(task, None, None)]
    limit = getattr(getattr(where, "task", where), "max_steps", None)
    try:
        names = where().place_names
    except Exception:  # a task that needs options or a simulator: its error appears when its environment is made
        return [Place(task, None, limit)]
    return [Place(task, name, limit) for name in names]


def _camel(*parts: str) -> str:
    return "".join(word[:1].upper() + word[1:] for part in parts for word in re.split(r"[^A-Za-z0-9]+", part))
