"""The robots of studies, videos and pages: the built-in tasks, and the class to derive your own from."""

from typing import TYPE_CHECKING, Any

from capture_lab.tasks.registry import TASKS, find_task, register_task, task_names

if TYPE_CHECKING:
    from capture_lab.tasks.task import Task

__all__ = ["TASKS", "Task", "find_task", "register_task", "task_names"]


def __getattr__(name: str) -> Any:
    """`Task`, imported on first use: the command line only looks up names."""
    if name != "Task":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from capture_lab.tasks.task import Task

    return Task
