"""The registry of tasks: the built-in ones, those of other packages, and any that a program registers."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from capture_cp.base.checks import CaptureError, known_name

#: Entry points of this group, `name = "module:object"`, add tasks of other packages.
GROUP = "capture_cp.tasks"

#: Tasks by name: a class to import on first use, or the class itself.
TASKS: dict[str, Any] = {
    "box": "capture_lab.tasks.box:Box",
    "marble": "capture_lab.tasks.marble.options:MarbleOptions",
    "peg": "capture_lab.tasks.peg.options:PegOptions",
    "shelf": "capture_lab.tasks.shelf.options:ShelfOptions",
}
#: The task shown by default.
DEFAULT_TASK = "marble"


def register_task(task: Any) -> Any:
    """Register a task under its `name`; also a class decorator.

    `task` is a dataclass whose fields are the task's options, and whose `places()` makes tasks from them: one derived from
    `Task`, or a separate class.
    """
    TASKS[_checked(task).name] = task
    return task


def task_names() -> list[str]:
    """The names of all tasks, including those of other packages."""
    return [*TASKS, *(found.name for found in _brought() if found.name not in TASKS)]


def find_task(name: str) -> Any:
    """The class of a task by its name, or by `module:object`; imported now, searching the current folder last."""
    if ":" in name:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        return _checked(_imported(name))
    entry = TASKS.get(name)
    if entry is None:
        found = {entry.name: entry for entry in _brought()}
        entry = found[known_name("task", name, task_names())].value
    return _imported(entry) if isinstance(entry, str) else entry


def _brought() -> EntryPoints:
    """The entry points of other packages."""
    return entry_points(group=GROUP)


def _imported(where: str) -> Any:
    module, _, attribute = where.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise CaptureError(
            f"the task {where!r} cannot be loaded: {error}; expected module:object, a task that can be imported."
        ) from None


def _checked(task: Any) -> Any:
    if not isinstance(getattr(task, "name", None), str) or not callable(getattr(task, "places", None)):
        raise CaptureError(f"{task!r} is not a task; expected a dataclass with a name and a method places, such as a Task.")
    return task
