"""Many closed-loop runs at once, planned together on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.base.streams import stream
from capture_cp.planning.episode import Episode, Record
from capture_cp.planning.mppi import MPPI, one_step_on

#: The true system, n runs at once: (states (n, ds), actions (n, da), a generator per run) -> next states, outcomes or None.
Systems = Callable[[Floats, Floats, Sequence[np.random.Generator]], tuple[Floats, Sequence[str | None]]]


def run_episodes(
    planner: MPPI,
    system: Systems,
    starts: Any,
    max_steps: int,
    seeds: Sequence[int],
    noise_seeds: Sequence[int],
    info: dict[str, Any] | None = None,
) -> list[Episode]:
    """Plan and act in every run until the system ends it or `max_steps` have passed.

    Args:
        planner: with device "cuda"; all runs use its settings.
        system: the true system.
        starts: first states, (n, ds).
        max_steps: steps after which a run has timed out.
        seeds: seeds of the planners, (n,).
        noise_seeds: seeds of the true systems, (n,).
        info: description of the runs, stored with them.

    The time of a plan is its fraction of the time taken by all plans made together.
    """
    starts = finite_array("starts", starts, (None, None), "(n, ds): one state per run")
    if not len(starts) == len(seeds) == len(noise_seeds):
        raise CaptureError(
            f"there are {len(starts)} starts, {len(seeds)} seeds and {len(noise_seeds)} noise_seeds; give one of each "
            "per run."
        )
    device = planner.on_device(max(len(starts), 2))
    for start in starts:
        planner.checked_rollout().check(start)
    runs = [_Run(planner, *given) for given in zip(starts, seeds, noise_seeds)]
    for _ in range(whole_number("max_steps", max_steps, 1)):
        active = [run for run in runs if run.outcome is None]
        if not active:
            break
        began = time.perf_counter()
        plans, costs = device.plan(
            np.array([run.state for run in active]),
            np.array([run.temperature() for run in active]),
            np.array([run.warm_start() for run in active]),
            np.array([run.key() for run in active], dtype=np.uint64),
        )
        spent = 1e3 * (time.perf_counter() - began) / len(active)
        actions, noise = np.ascontiguousarray(plans[:, 0]), [run.noise for run in active]
        states, outcomes = system(np.array([run.state for run in active]), actions, noise)
        for run, plan, cost, action, state, outcome in zip(active, plans, costs, actions, states, outcomes):
            run.add(plan, cost, action, state, outcome, spent)
    return [run.episode(dict(info or {})) for run in runs]


class _Run(Record):
    """A run, with its planner's plan and random numbers."""

    def __init__(self, planner: MPPI, start: Floats, seed: int, noise_seed: int) -> None:
        super().__init__(start)
        self._temperature_at = planner.temperature_at
        self._rng = stream(whole_number("seeds", seed, 0), "MPPI")
        self.noise = stream(whole_number("noise_seeds", noise_seed, 0), "system")
        self._nothing = np.zeros((planner.horizon, len(planner.low)))

    def temperature(self) -> float:
        return self._temperature_at(self.state)

    def warm_start(self) -> Floats:
        return one_step_on(self.plans[-1] if self.plans else self._nothing)

    def key(self) -> int:
        return int(self._rng.integers(2**62))
