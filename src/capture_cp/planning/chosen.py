"""Plans that a planner chose, as rollouts that calibrate the regions around such plans.

A planner that picks one of thousands of action sequences prefers those whose regions look good, so regions calibrated on
random actions under-cover around its plans. The remedy is to calibrate on the plans themselves. This is valid because:

1. Fix the planner, its settings and the regions in its cost. Its episodes are then independent and identically distributed.
2. Draw one step of each episode at random, and execute the plan that was chosen there open loop. The step, the plan and
   its result are one rollout, a function of the episode and of fresh noise: one identically distributed rollout per episode.
3. The rollouts of n episodes and that of a new one are therefore exchangeable, which is all that `HorizonCapture` requires.
   Its guarantee is then for the plan chosen at a random step of a new episode, also given the strata.
4. How the plan was chosen does not matter, as long as it is always chosen in the same way. The calibration must not change
   the planner: with the new regions in its cost it is another planner, with other plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.data.rollouts import BatchedStep, Rollouts
from capture_cp.planning.episode import Episode

#: Steps to draw from: "passed" for those whose plan passed the filter and was executed; None for all.
Which = Literal["passed"]


class ChosenPlans(NamedTuple):
    """Plans of some steps of episodes, and the states in which they were chosen."""

    starts: Floats  # (n, ds)
    plans: Floats  # (n, H, da)
    numbers: Ints  # (n,): index of the episode of each


def chosen_plans(
    episodes: Sequence[Episode], rng: np.random.Generator, per_episode: int = 1, which: Which | None = None
) -> ChosenPlans:
    """States and plans of random steps of recorded episodes; all steps of an episode are equally likely.

    Args:
        episodes: closed-loop runs of one planner.
        rng: draws the steps.
        per_episode: distinct steps drawn from each episode, or all of them if it has fewer. With more than one, the
            rollouts of an episode depend on each other and count as one.
        which: "passed" draws among the steps whose plan passed a `BrakingFilter`. Episodes without such a step are left out.
    """
    wanted = whole_number("per_episode", per_episode, 1)
    starts, plans, numbers = list[Floats](), list[Floats](), list[int]()
    for number, episode in enumerate(episodes):
        steps = _steps(episode, which)
        drawn = np.sort(rng.permutation(steps)[:wanted])
        starts.append(episode.states[drawn])
        plans.append(episode.plans[drawn])
        numbers += [number] * len(drawn)
    if not numbers:
        if which and episodes:
            raise CaptureError(f"no plan of {len(episodes)} episodes has passed; play more, or brake less often.")
        raise CaptureError("these episodes contain no executed step; play some first.")
    if len({(*a.shape[1:], *b.shape[1:]) for a, b in zip(starts, plans)}) > 1:
        raise CaptureError("episodes differ in their states, actions or steps of a plan; give those of one planner.")
    return ChosenPlans(np.concatenate(starts), np.concatenate(plans), np.array(numbers, dtype=np.int64))


def chosen_rollouts(
    episodes: Sequence[Episode],
    step: BatchedStep,
    axes: Sequence[int],
    rng: np.random.Generator,
    per_episode: int = 1,
    which: Which | None = None,
) -> Rollouts:
    """Chosen plans, executed open loop by the true system from the states in which they were chosen.

    `HorizonCapture.fit` then calibrates regions around chosen plans. A real robot cannot be reset to a state of an episode:
    there, execute a whole plan open loop from time to time, and give the log to `Rollouts.from_arrays`.

    Args:
        episodes, per_episode, which: as for `chosen_plans`.
        step: the true system, `step(states (n, ds), actions (n, da), rng)`.
        axes: which entries of the state are the configuration.
        rng: draws the steps and the system's noise.
    """
    chosen = chosen_plans(episodes, rng, per_episode, which)
    rollouts = Rollouts.simulate(step, chosen.starts, chosen.plans, axes, rng)
    return replace(rollouts, episodes=np.unique(chosen.numbers, return_inverse=True)[1].astype(np.int64))


def _steps(episode: Episode, which: Which | None) -> Ints:
    """Indices of an episode's steps to draw from, counted from 0: (t,)."""
    if which is None:
        return np.arange(episode.steps)
    known_name("choice of steps", which, ("passed",))
    if len(episode.braked) != episode.steps:
        raise CaptureError("an episode was played without a filter; give run_episode a BrakingFilter, or leave which out.")
    return np.flatnonzero(~episode.braked)
