"""Closed-loop runs planned on a GPU; the benchmark of plans starts from their states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.gpu.timing import seconds
from benchmarks.planning import ALPHA, calibrated
from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.settings import PlannerSettings
from capture_cp.tasks.marble.planner import marble_planner
from capture_cp.tasks.marble.task import Marble


@dataclass(frozen=True)
class Run:
    """One map, its calibration, a planner on the GPU, and the states of a closed-loop run with it."""

    name: str
    task: Marble
    cap: Capture
    planner: MPPI
    states: Floats  # (n, 6)
    outcome: str | None
    first_plan_seconds: float  # compilation included


def closed_loop(name: str, settings: PlannerSettings, most: int, seed: int) -> Run:
    """A run on a map until it ends, or of `most` steps."""
    task, cap = calibrated(name, seed)
    planner = marble_planner(cap, task, settings, ALPHA, seed, device="cuda")
    (start,), rng = task.starts(1), stream(seed, "system")
    act = task.closed_loop(start)
    first = seconds(lambda: planner.plan(start))
    planner.reset()
    states: list[Floats] = []
    state, outcome = start, None
    while outcome is None and len(states) < most:
        states.append(state)
        state, outcome = act(state, planner.plan(state), rng)
    return Run(name, task, cap, planner, np.array(states), outcome, first)
