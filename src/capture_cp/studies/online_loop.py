"""A long closed loop on the marble: episode after episode, with regions that may adapt, on a system that changes."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.online import Adaptive
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.episode import System, episode_seeds, run_episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.studies.planning_rows import MAX_STEPS
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.planner import OUTCOMES, POSITION, marble_planner, start_state
from capture_cp.tasks.marble.task import Marble


class Change(NamedTuple):
    """What becomes of the true system from which executed step on."""

    step: int
    gain: float  # factor on the acceleration
    drag: float  # share of the speed that is lost at the beginning of every control step


def closed_loop(
    task: Marble,
    cap: Capture,
    adaptive: Adaptive | None,
    settings: PlannerSettings,
    change: Change,
    total: int,
    alpha: float,
    seed: int,
) -> dict[str, Any]:
    """`total` steps of the marble, whose true system changes on the way, in episodes of at most 100."""
    watched = Adapting(_changing(task, change), cap, POSITION, stream(seed, "watched", task.map.name), adaptive, alpha)
    episode, ends, outcomes = 0, [], []
    while len(watched.held) < total:
        planner_seed, noise_seed = episode_seeds(seed, task.map.name, episode)  # the same for every mode
        planner = marble_planner(cap, task, settings, alpha, planner_seed)
        watched.guide(planner.checked_rollout())
        left = min(MAX_STEPS, total - len(watched.held))
        run = run_episode(planner, watched, start_state(task), left, noise_seed)
        episode += 1
        ends.append(len(watched.held))
        outcomes.append(run.outcome)
    return {
        "ends": ends,
        "outcomes": outcomes,
        "stratum": watched.strata,
        "held": [int(held) for held in watched.held],
        "dials": [dials.round(4).tolist() for dials in watched.dials],
        "infinite": [int(np.isinf(q).any()) for q in watched.thresholds],
    }


def _changing(task: Marble, change: Change) -> System:
    """The true marble until the change, and the changed one from then on."""
    executed = count()

    def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        changed = next(executed) >= change.step
        gain, left = (change.gain, 1.0 - change.drag) if changed else (1.0, 1.0)
        noise = dynamics.NOISE * rng.standard_normal((1, 2))
        slowed = state * [1.0, left, 1.0, left, 1.0, 1.0]
        after, outcomes = task.step(slowed[None], action[None], noise, gain * dynamics.TRUE_GAIN)
        return after[0], OUTCOMES.get(int(outcomes[0]))

    return act
