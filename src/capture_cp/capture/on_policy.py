"""Closed-loop coverage of regions on a planner's own episodes, and repeated calibration on fresh episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, whole_number
from capture_cp.base.streams import Randomness, derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.conformal.coverage import Coverage, CoverageRow, coverage_of

R = TypeVar("R", bound="Run")


class Run(Protocol):
    """Interface of an episode of T steps, such as `capture_cp.planning.Episode`."""

    @property
    def states(self) -> Floats:
        """States before the first and after each step: (T + 1, ds)."""

    @property
    def inputs(self) -> Floats:
        """State and action of each executed step: (T, ds + da)."""


class Executed(NamedTuple):
    """The executed steps of several episodes, one row each."""

    X: Floats  # (n, dx)
    Y: Floats  # (n, dc)
    episodes: Ints  # (n,): 0, 1, ...
    steps: Ints  # (n,): 1, 2, ... within the episode


def executed(episodes: Sequence[Run], axes: Sequence[int]) -> Executed:
    """Transitions of episodes; `axes` are the entries of the state that make up the configuration.

    `Capture.fit(rows.X, rows.Y, episodes=rows.episodes)` then calibrates on whole episodes.
    """
    if not any(len(run.inputs) for run in episodes):
        raise CaptureError("these episodes have no executed steps; run some episodes first.")
    lengths = [len(run.inputs) for run in episodes]
    X = np.concatenate([run.inputs for run in episodes])
    Y = np.concatenate([run.states[1:, list(axes)] for run in episodes])
    steps = np.concatenate([np.arange(1, length + 1) for length in lengths])
    return Executed(X, Y, np.repeat(np.arange(len(lengths)), lengths), steps)


@dataclass(frozen=True)
class OnPolicyCoverage(Coverage):
    """Coverage on executed steps, with equal weight for every episode; `steps[t]` is the coverage of step t + 1.

    `together` is the fraction of episodes all of whose steps were inside, with an exact interval: an episode is one trial.
    """

    steps: tuple[Coverage, ...]
    together: CoverageRow = field(kw_only=True)


def on_policy_coverage(
    cap: Capture,
    episodes: Sequence[Run],
    axes: Sequence[int],
    alpha: float = 0.1,
    rng: Randomness = None,
    simultaneous: bool = False,
) -> OnPolicyCoverage:
    """Coverage of the regions of `cap` on the executed steps of episodes that it was not fitted to.

    Steps of one episode are not independent, so the intervals count episodes. This is a measurement, not a guarantee.

    Args:
        cap: calibrated predictor, of any method.
        episodes: closed-loop runs of any planner.
        axes: the entries of the state that `cap` predicts.
        alpha: failure rate of the regions.
        rng: as in `Capture.predict`.
        simultaneous: whether to use regions for all steps of an episode at once; `together` then measures what they
            guarantee, for the planner whose episodes `cap` was fitted to.
    """
    rows = executed(episodes, axes)
    labels = cap.feasible_index(rows.Y, "the episodes")
    inside = cap.contains(rows.X, rows.Y, alpha, labels=labels, rng=rng, simultaneous=simultaneous)
    names = list(cap.strata.names)
    at = [np.flatnonzero(rows.steps == step) for step in range(1, rows.steps.max() + 1)]
    # a step occurs once per episode, so these outcomes are independent
    steps = tuple(coverage_of(alpha, inside[here], labels[here], names) for here in at)
    total = coverage_of(alpha, inside, labels, names, None, rows.episodes, simultaneous)
    return OnPolicyCoverage(steps=steps, **vars(total))


@dataclass(frozen=True)
class Round(Generic[R]):
    """One calibration and its measured coverage.

    Attributes:
        cap: the calibration.
        episodes: fresh episodes, run with `cap`.
        in_use: coverage of the regions of `cap` in these episodes, which is measured and not guaranteed.
        promised: coverage in further episodes of the planner whose episodes `cap` was fitted to, which the guarantee refers
            to; None in the first round, and if no `checks` were requested.
    """

    cap: Capture
    episodes: tuple[R, ...]
    in_use: OnPolicyCoverage
    promised: OnPolicyCoverage | None


def on_policy_rounds(
    cap: Capture,
    play: Callable[[Capture, list[int]], Sequence[R]],
    fit: Callable[[Sequence[R]], Capture],
    axes: Sequence[int],
    rounds: int = 3,
    episodes: int = 100,
    checks: int = 0,
    alpha: float = 0.1,
    seed: int = 0,
) -> list[Round[R]]:
    """Alternate between running episodes with a calibration and fitting the next one to them; no episode is used twice.

    Args:
        cap: the calibration to start with, for example on a grid of states.
        play: runs one episode per seed with a calibration.
        fit: makes a new calibration from episodes: `cap.fit(X, Y, episodes=...)`, see `executed`.
        axes: the entries of the state that `cap` predicts.
        rounds: number of recalibrations.
        episodes: number of episodes in each round; the next calibration is fitted to them.
        checks: number of further episodes per round, to measure what the next calibration guarantees.
        alpha: failure rate of the regions.
        seed: determines the seeds passed to `play`.
    """
    rounds, episodes = whole_number("rounds", rounds, 0), whole_number("episodes", episodes, 1)
    checks = whole_number("checks", checks, 0)
    found: list[Round[R]] = []
    promised = None
    for number in range(rounds + 1):
        seeds = [derived_seed(seed, "on_policy_rounds", number, episode) for episode in range(episodes + checks)]
        runs = tuple(play(cap, seeds))
        if len(runs) != episodes + checks:
            raise CaptureError(f"play returned {len(runs)} episodes for {episodes + checks} seeds; expected one per seed.")
        found.append(
            Round(cap, runs, on_policy_coverage(cap, runs, axes, alpha, derived_seed(seed, "in use", number)), promised)
        )
        if number < rounds:
            cap = _fresh(fit(runs[:episodes]), found)
            fresh, rng = runs[episodes:], derived_seed(seed, "promised", number)
            promised = on_policy_coverage(cap, fresh, axes, alpha, rng) if checks else None
    return found


def _fresh(cap: Capture, found: list[Round[R]]) -> Capture:
    if any(cap is earlier.cap for earlier in found):
        raise CaptureError("fit returned a calibration from an earlier round; expected a new Capture, created in fit.")
    return cap
