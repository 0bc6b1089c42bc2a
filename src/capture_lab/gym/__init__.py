"""Gymnasium environments for every task; importing this package registers them. Needs gymnasium (extra `gym`).

    import gymnasium, capture_lab.gym
    env = gymnasium.make("capture/MarbleCenter-v0")

There is one environment for each place of each task. A task is imported only when one of its environments is made.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from capture_cp.base.checks import CaptureError
from capture_lab.tasks.registry import TASKS, find_task, task_names

if TYPE_CHECKING:
    from capture_lab.gym.env import TaskEnv
    from capture_lab.gym.vector import TaskVectorEnv

__all__ = ["TaskEnv", "TaskVectorEnv", "env_ids", "register_envs"]

#: Places and steps of the built-in tasks, so that registering need not import them; a test compares them with the tasks.
OURS: dict[str, tuple[tuple[str, ...], int]] = {
    "box": (("box",), 30),
    "marble": (("center", "center-right", "bottom-left", "bottom-right", "top-left", "top-center"), 100),
    "peg": (("planar", "arm"), 75),
    "shelf": (("open", "low", "corner", "divider", "two-glasses"), 80),
}


def env_ids() -> list[str]:
    """The ids of all environments, such as "capture/MarbleCenter-v0", including tasks registered by other packages."""
    return [env_id for env_id, *_ in _environments()]


def register_envs() -> None:
    """Register every environment that is not registered yet; call it again after `register_task`."""
    try:
        import gymnasium
    except ImportError:
        raise CaptureError('Gymnasium is not installed; install it with: pip install "capture-cp[gym]".') from None
    for env_id, task, place, max_steps in _environments():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="capture_lab.gym.env:TaskEnv",
                vector_entry_point="capture_lab.gym.vector:TaskVectorEnv",
                max_episode_steps=max_steps,
                kwargs={"task": task, "place": place, "own_limit": max_steps is None},
            )


def _environments() -> Iterator[tuple[str, str, str | None, int | None]]:
    """Ids with task, place (None for its first) and maximum length of an episode (None if not known yet)."""
    for task in task_names():
        kind, places, max_steps = TASKS.get(task), (None,), None  # type: Any, tuple[str | None, ...], int | None
        if kind is None or isinstance(kind, str):  # not imported yet
            places, max_steps = OURS.get(task, (places, max_steps))
        else:
            max_steps = getattr(getattr(kind, "task", kind), "max_steps", None)
            with suppress(Exception):  # a task that needs options or a simulator reports that when its environment is made
                places = kind().place_names
        for place in places:
            words = re.split(r"[^A-Za-z0-9]+", task if place in (None, task) else f"{task}-{place}")
            yield f"capture/{''.join(word[:1].upper() + word[1:] for word in words)}-v0", task, place, max_steps


def task_at(name: str, place: str | None, options: dict[str, Any]) -> Any:
    """The task in a place, imported now; `options` are fields of the class registered under its name."""
    kind = find_task(name)
    return _made(kind, place, options) if options else _shared(kind, place)


def _made(kind: Any, place: str | None, options: dict[str, Any]) -> Any:
    try:
        chosen = kind(**options)
    except TypeError as error:
        raise CaptureError(f"the options {sorted(options)} are not accepted by the task {kind.name}: {error}.") from None
    return next(iter(chosen.places().values())) if place is None else chosen.at(place)


#: A task with default options is shared by all of its environments, so that its strata are computed once.
_shared = cache(partial(_made, options={}))


def __getattr__(name: str) -> Any:
    """`TaskEnv` and `TaskVectorEnv`, imported on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from capture_lab.gym import env

    return getattr(env, name)


register_envs()
