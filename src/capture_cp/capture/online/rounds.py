"""Calibration on what the planner does: plan, record, recalibrate, round after round, always on fresh episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.capture.online.episodes import OnPolicyCoverage, Run, on_policy_coverage

R = TypeVar("R", bound=Run)


@dataclass(frozen=True)
class Round(Generic[R]):
    """One calibration and how it fared.

    Attributes:
        cap: the calibration.
        episodes: fresh episodes, played with `cap`.
        in_use: how often the regions of `cap` held in these episodes, which is measured and not guaranteed.
        promised: how often they hold in further episodes of the planner whose episodes `cap` was fitted to, which is what
            the guarantee speaks of; None in the first round, and where no episodes were asked for it.
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
    """Play with a calibration, fit the next one to what was played, and so on; no episode is used twice.

    Args:
        cap: the calibration to start with, for example on a grid of states.
        play: plays one episode a seed with a calibration.
        fit: a new calibration from episodes, which are the unit: `cap.fit(X, Y, groups=...)`, see `executed`.
        axes: the state's entries that `cap` predicts.
        rounds: recalibrations.
        episodes: played in each round; the next calibration is fitted to them.
        checks: further episodes a round, to measure what is promised to the next calibration.
        alpha: failure rate of the regions.
        seed: same seed, same seeds for `play`.
    """
    rounds, episodes = whole_number("rounds", rounds, 0), whole_number("episodes", episodes, 1)
    checks = whole_number("checks", checks, 0)
    found: list[Round[R]] = []
    promised = None
    for number in range(rounds + 1):
        seeds = [derived_seed(seed, "on_policy_rounds", number, episode) for episode in range(episodes + checks)]
        runs = tuple(play(cap, seeds))
        if len(runs) != episodes + checks:
            raise CaptureError(f"play returned {len(runs)} episodes for {episodes + checks} seeds; expected one a seed.")
        found.append(
            Round(cap, runs, on_policy_coverage(cap, runs, axes, alpha, derived_seed(seed, "in use", number)), promised)
        )
        if number < rounds:
            cap = _fresh(fit(runs[:episodes]), found)
            promised = (
                on_policy_coverage(cap, runs[episodes:], axes, alpha, derived_seed(seed, "promised", number))
                if checks
                else None
            )
    return found


def _fresh(cap: Capture, found: list[Round[R]]) -> Capture:
    if any(cap is earlier.cap for earlier in found):
        raise CaptureError("fit returned a calibration of an earlier round; expected a new Capture, made in fit.")
    return cap
