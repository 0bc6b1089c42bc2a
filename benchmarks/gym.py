"""Many environments stepped in one batch, compared with Gymnasium one by one: run alone with `python -m benchmarks.gym`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from benchmarks.comparison import Comparison, print_ratios

#: Environment, number at once, and target speed-up. Simulators gain only from cores, of which there may be two.
PAIRS = (
    ("capture/MarbleCenter-v0", 64, 5.0),
    ("capture/Box-v0", 64, 10.0),
    ("capture/PegPlanar-v0", 16, 0.8),
    ("capture/ShelfOpen-v0", 16, 0.8),
)
STEPS = 10


def gym_comparisons(seed: int) -> Iterator[Comparison]:
    """Steps of n environments under random actions, including ends of episodes."""
    if find_spec("gymnasium") is None:
        return
    simulated = find_spec("mujoco") is not None
    for env_id, n, wanted in PAIRS:
        if simulated or not env_id.startswith(("capture/Peg", "capture/Shelf")):
            ours, theirs = (_steps(env_id, n, mode, seed) for mode in ("vector_entry_point", "sync"))
            job = f"{n:,} x {env_id.removeprefix('capture/')}, {STEPS} steps"
            yield Comparison(job, ours, "SyncVectorEnv", theirs, wanted, rounds=5)


def _steps(env_id: str, n: int, mode: str, seed: int) -> Callable[[], None]:
    """Some steps of n environments, which continue from the last call."""
    import gymnasium

    import capture_lab.gym  # noqa: F401 - registers

    envs: Any = gymnasium.make_vec(env_id, num_envs=n, vectorization_mode=mode)
    envs.reset(seed=seed)
    envs.action_space.seed(seed)
    actions = [envs.action_space.sample() for _ in range(STEPS)]

    def job() -> None:
        for action in actions:
            envs.step(action)

    return job


if __name__ == "__main__":
    print_ratios(gym_comparisons(0), 5)
