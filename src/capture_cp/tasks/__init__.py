"""Robots that studies, films and pages work with: ours, and the class to derive your own from."""

from typing import TYPE_CHECKING, Any

from capture_cp.tasks.registry import TASKS, find_task, register_task, task_names

if TYPE_CHECKING:
    from capture_cp.tasks.task import Task

__all__ = ["TASKS", "Task", "find_task", "register_task", "task_names"]


def __getattr__(name: str) -> Any:
    """`Task`, imported when it is used: the command line only looks names up."""
    if name != "Task":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from capture_cp.tasks.task import Task

    return Task
