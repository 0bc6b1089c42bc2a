"""A long closed loop on the marble: episode after episode, with regions that may adapt, on a system that changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.adaptive import Adaptive
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import System, episode_seeds, run_episode
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.mppi import MPPI
from capture_cp.studies.planning_rows import MAX_STEPS
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.planner import OUTCOMES, POSITION, OnTheBoard, PlannerSettings, marble_planner, start_state
from capture_cp.tasks.marble.task import Marble


class Change(NamedTuple):
    """What becomes of the true system from which executed step on."""

    step: int
    gain: float  # factor on the acceleration
    drag: float  # share of the speed that is lost at the beginning of every control step


class Watched:
    """The true marble, watched: every executed step is judged by its region, written down, and learnt from."""

    def __init__(self, cap: Capture, adaptive: Adaptive | None, alpha: float, particles: np.random.Generator) -> None:
        self.cap, self.adaptive, self.alpha, self._particles = cap, adaptive, alpha, particles
        self.rollout: FusedRollout | None = None
        self.log: dict[str, list[Any]] = {key: [] for key in ("stratum", "held", "dials", "infinite")}

    def __len__(self) -> int:
        return len(self.log["held"])

    def guide(self, planner: MPPI) -> None:
        """From now on `planner` uses the regions as they are."""
        assert isinstance(planner.rollout, OnTheBoard)
        self.rollout = planner.rollout.fused
        self._tell_planner()

    def see(self, x: Floats, y: Floats) -> None:
        """A step was executed: input x (dx,), next configuration y (dc,)."""
        adaptive = self.adaptive
        q = self.cap.thresholds(x[None], self.alpha) if adaptive is None else adaptive.thresholds(x[None])
        if adaptive is None:
            held = bool(self.cap.contains(x[None], y[None], self.alpha, rng=self._particles)[0])
        else:
            held = adaptive.observe(x, y, rng=self._particles)
        self.log["stratum"].append(int(self.cap.strata.index(y[None])[0]))
        self.log["held"].append(int(held))
        self.log["dials"].append([] if adaptive is None else adaptive.dials.round(4).tolist())
        self.log["infinite"].append(int(np.isinf(q).any()))
        self._tell_planner()

    def _tell_planner(self) -> None:
        if self.adaptive is not None and self.rollout is not None:
            self.rollout.thresholds = self.adaptive.group_thresholds()


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
    watched = Watched(cap, adaptive, alpha, stream(seed, "watched", task.map.name))
    system = _changing(task, watched, change)
    episode, ends, outcomes = 0, [], []
    while len(watched) < total:
        planner_seed, noise_seed = episode_seeds(seed, task.map.name, episode)  # the same for every mode
        planner = marble_planner(cap, task, settings, alpha, planner_seed)
        watched.guide(planner)
        left = min(MAX_STEPS, total - len(watched))
        run = run_episode(planner, system, start_state(task), left, noise_seed)
        episode += 1
        ends.append(len(watched))
        outcomes.append(run.outcome)
    return {"ends": ends, "outcomes": outcomes, **watched.log}


def _changing(task: Marble, watched: Watched, change: Change) -> System:
    """The true marble until the change, and the changed one from then on."""

    def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        changed = len(watched) >= change.step
        gain, left = (change.gain, 1.0 - change.drag) if changed else (1.0, 1.0)
        noise = dynamics.NOISE * rng.standard_normal((1, 2))
        slowed = state * [1.0, left, 1.0, left, 1.0, 1.0]
        after, outcomes = task.step(slowed[None], action[None], noise, gain * dynamics.TRUE_GAIN)
        watched.see(np.concatenate([state, action]), after[0, POSITION])
        return after[0], OUTCOMES.get(int(outcomes[0]))

    return act
