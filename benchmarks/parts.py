"""Where the time of a plan goes: its parts are taken out one after the other, and the differences are their times."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from capture_cp.base.checks import Floats
from capture_cp.planning import kernel, probe_kernel
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.specialise import specialise

ROUNDS = 3


@njit(cache=True)
def stay(states, action, noise, params):  # type: ignore[no-untyped-def]
    """A model that does not move."""


@njit(cache=True)
def free(states, l, params):  # type: ignore[no-untyped-def]
    """A particle without a cost."""
    return 0.0


def parts_of_plan(
    planner: MPPI, states: Floats, clock: Callable[[], float] = time.perf_counter
) -> list[tuple[str, float, float]]:
    """Median and largest milliseconds of each part of the plans from states (n, ds), compilation excluded.

    Each time is the shortest of a few rounds.
    """
    whole = planner.checked_rollout()
    assert isinstance(whole, FusedRollout)
    planner.plan(states[0])
    no_regions = _changed(whole)
    no_regions.thresholds = np.full_like(whole.thresholds, -1.0)
    rollouts = {"regions": whole, "model and contact": no_regions}
    last = _changed(no_regions, step=stay)
    if not whole.on_cuda:  # as it sums over regions
        rollouts["costs of particles"], last = last, _changed(last, particle_cost=free)
    rollouts["noise, means and stage costs"] = last
    planner.reset()
    sequences, seed = planner._sample(planner.nominal), int(planner._rng.integers(2**62))  # of every plan after a reset
    jobs = [partial(_plan, planner)]
    jobs += [partial(_costs, rollout, sequences, seed) for rollout in rollouts.values()]
    times = _times(jobs, states, clock)
    names, spent = ("sampling and averaging", *rollouts), [*(times[:-1] - times[1:]), times[-1]]
    rows = [(name, float(np.median(part)), float(np.max(part))) for name, part in zip(names, spent)]
    return [*rows, ("whole plan", float(np.median(times[0])), float(np.max(times[0])))]


def print_parts(planner: MPPI, states: Floats, clock: Callable[[], float] = time.perf_counter) -> None:
    """Print `parts_of_plan`."""
    print(f"{'part of a plan, ms':32} median  largest")
    for name, median, largest in parts_of_plan(planner, states, clock):
        print(f"{name:32} {median:6.2f}  {largest:6.2f}")


def _plan(planner: MPPI, state: Floats) -> Floats:
    planner.reset()
    return planner.plan(state)


def _costs(rollout: FusedRollout, sequences: Floats, seed: int, state: Floats) -> Floats:
    return rollout(state, sequences, seed)


def _changed(rollout: FusedRollout, **functions: Any) -> FusedRollout:
    """The rollout with some of its functions replaced."""
    changed = copy.copy(rollout)
    if functions:
        changed._functions = rollout._functions._replace(**functions)
        params = rollout._params.__class__
        changed._kernel = specialise(changed._functions, params, kernel)
        changed._probing = specialise(changed._functions, params, probe_kernel)
    return changed


def _times(jobs: Sequence[Callable[[Floats], Any]], states: Floats, clock: Callable[[], float]) -> Floats:
    """Milliseconds of each job from each state, interleaved: (jobs, n)."""
    for job in jobs:
        job(states[0])
    best = np.full((len(jobs), len(states)), np.inf)
    for _ in range(ROUNDS):
        for i, state in enumerate(states):
            for j, job in enumerate(jobs):
                began = clock()
                job(state)
                best[j, i] = min(best[j, i], 1e3 * (clock() - began))
    return best
