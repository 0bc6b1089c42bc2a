"""Gymnasium environments for every task; importing this package registers them. Needs gymnasium (extra `gym`).

    import gymnasium, capture_lab.gym
    env = gymnasium.make("capture/MarbleCenter-v0")

A task is imported only when one of its environments is made.
"""

from typing import TYPE_CHECKING, Any

from capture_lab.gym.ids import env_ids, register_envs

if TYPE_CHECKING:
    from capture_lab.gym.env import TaskEnv
    from capture_lab.gym.vector import TaskVectorEnv

__all__ = ["TaskEnv", "TaskVectorEnv", "env_ids", "register_envs"]


def __getattr__(name: str) -> Any:
    """`TaskEnv` and `TaskVectorEnv`, imported on first use."""
    if name == "TaskEnv":
        from capture_lab.gym.env import TaskEnv

        return TaskEnv
    if name == "TaskVectorEnv":
        from capture_lab.gym.vector import TaskVectorEnv

        return TaskVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
