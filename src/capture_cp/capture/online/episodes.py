"""How often regions held in closed loop: in all, by stratum, and by step of the episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, feasible
from capture_cp.base.streams import Randomness
from capture_cp.capture.capture import Capture
from capture_cp.conformal.coverage import Coverage, tally


class Run(Protocol):
    """What is needed of an episode of T steps, such as `capture_cp.planning.Episode`."""

    @property
    def states(self) -> Floats:
        """(T + 1, ds)."""

    @property
    def inputs(self) -> Floats:
        """State and action of each executed step: (T, ds + da)."""


class Executed(NamedTuple):
    """The executed steps of several episodes, one row each."""

    X: Floats  # (n, dx)
    Y: Floats  # (n, dc)
    episodes: Ints  # (n,): 0, 1, ...
    steps: Ints  # (n,): 1, 2, ... within its episode


def executed(episodes: Sequence[Run], axes: Sequence[int]) -> Executed:
    """Transitions of episodes, with `axes` the state's entries that are the configuration.

    `Capture.fit(rows.X, rows.Y, groups=rows.episodes)` then calibrates with whole episodes as the unit.
    """
    if not any(len(run.inputs) for run in episodes):
        raise CaptureError("there is not one executed step in these episodes; play some first.")
    lengths = [len(run.inputs) for run in episodes]
    X = np.concatenate([run.inputs for run in episodes])
    Y = np.concatenate([run.states[1:, list(axes)] for run in episodes])
    steps = np.concatenate([np.arange(1, length + 1) for length in lengths])
    return Executed(X, Y, np.repeat(np.arange(len(lengths)), lengths), steps)


@dataclass(frozen=True)
class OnPolicyCoverage(Coverage):
    """Coverage on executed steps, where every episode weighs the same; `steps[t]` is that of step t + 1 of the episodes."""

    steps: tuple[Coverage, ...]


def on_policy_coverage(
    cap: Capture, episodes: Sequence[Run], axes: Sequence[int], alpha: float = 0.1, rng: Randomness = None
) -> OnPolicyCoverage:
    """How often the regions of `cap` hold the executed steps of episodes that it was not fitted to.

    Steps of one episode are not independent, so the intervals count episodes. No guarantee is claimed: it is measured.

    Args:
        cap: calibrated predictor, of any method.
        episodes: closed-loop runs, of whatever planner.
        axes: the state's entries that `cap` predicts.
        alpha: failure rate of the regions.
        rng: as in `Capture.predict`.
    """
    rows = executed(episodes, axes)
    labels = cap._index(rows.Y)
    feasible("the episodes", labels)
    inside = cap.contains(rows.X, rows.Y, alpha, labels=labels, rng=rng)
    names = list(cap.strata.names)
    at = [np.flatnonzero(rows.steps == step) for step in range(1, rows.steps.max() + 1)]
    # a step occurs once an episode: those of different episodes are independent
    steps = tuple(_coverage(alpha, names, labels[here], inside[here], None) for here in at)
    total = _coverage(alpha, names, labels, inside, rows.episodes)
    return OnPolicyCoverage(total.alpha, total.all, total.strata, total.groups, steps)


def _coverage(alpha: float, names: list[str], labels: Ints, inside: Bools, units: Ints | None) -> Coverage:
    (everything,) = tally(["all"], np.zeros_like(labels), inside, None, None, units)
    return Coverage(float(alpha), everything, tally(names, labels, inside, None, None, units), ())
