"""The tasks of the environments as `module:object`, for command options: `--model capture_lab.gym.models:MarbleCenter`.

A task serves as its own approximate model, and `MarbleCenter.strata` are its strata. The names are those of the
environments, without "capture/" and the version.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from capture_lab.gym.ids import places, task_named


def __getattr__(name: str) -> Any:
    """The task of an environment, made on first use."""
    if name.startswith("_") or name not in places():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _task(name)


def __dir__() -> list[str]:
    return list(places())


@cache
def _task(name: str) -> Any:
    return task_named(name)
