"""Certify a planner: play fresh episodes of every candidate setting and find those with failure rates below delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, probability, whole_number
from capture_cp.base.streams import derived_seed
from capture_cp.certificates.evidence import betting_p_value, log_capital, rate_p_value
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.risks import SUCCESS, Risk, checked_risks
from capture_cp.certificates.verdict import Correction, Verdict, judge
from capture_cp.conformal.quantile import smallest_enough

#: Plays one fresh episode per seed with the given settings; returns outcomes, or pairs of an outcome and a number of steps.
Play = Callable[[Mapping[str, Any], list[int]], Sequence[Any]]


def certify(
    candidates: Mapping[str, Mapping[str, Any]],
    play: Play,
    risks: Sequence[Risk],
    beta: float = 0.05,
    episodes: int = 1000,
    correction: Correction = "holm",
    anytime: bool = False,
    batch: int = 20,
    success: str = SUCCESS,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> Verdict:
    """Find settings of a planner whose failure rates are at most delta, with confidence 1 - beta (Learn then Test).

    Episodes must be independent and identically distributed: the same robot, starts drawn in the same way, nothing carried
    over. Episodes that were used to choose the candidates or their order must not be used again here.

    Args:
        candidates: settings by name, fixed before any of these episodes; for "sequence", ordered from the safest.
        play: plays one fresh episode per seed with the given settings, and returns how each ended: an outcome, or an outcome
            and a number of steps.
        risks: what counts as a failure, and its delta; without a delta, the smallest certifiable one is found.
        beta: upper bound on the probability of any false certificate.
        episodes: maximum number per candidate.
        correction: "holm" plays all candidates; "sequence" stops at the first that is not certified.
        anytime: stop a candidate as soon as it is certified, or can no longer be.
        batch: episodes played between two checks, if `anytime`.
        success: the outcome that counts as success when the best candidate is chosen.
        seed: determines the seeds passed to `play`.
        advance: called with the number of episodes played.

    >>> def play(settings, seeds):
    ...     rolls = [np.random.default_rng(seed).random() for seed in seeds]
    ...     return ["fell" if roll < settings["speed"] / 100 else "success" for roll in rolls]
    >>> ladder = {"slow": {"speed": 1}, "fast": {"speed": 20}}
    >>> found = certify(ladder, play, [Risk("falls", ("fell",), 0.05)], episodes=300)
    >>> found.best.name, len(found.certified)
    ('slow', 1)
    """
    asked, level = checked_risks(risks), probability("beta", beta)
    most, batch = whole_number("episodes", episodes, 1), whole_number("batch", batch, 1)
    # raises an error for invalid arguments before any episode is played
    judge(Outcomes.of("", []), asked, level, correction, anytime, candidates)
    needed = level if correction == "sequence" else level / max(1, len(candidates))
    parts: list[Outcomes] = []
    for name, settings in candidates.items():
        seeds = [derived_seed(seed, "certify", name, episode) for episode in range(most)]
        played = Outcomes.of(name, [])
        while len(played) < most:
            more = seeds[len(played) : len(played) + (batch if anytime else most)]
            played = Outcomes.concatenate([played, Outcomes.of(name, _played(play, settings, more))])
            if advance is not None:
                advance(len(more))
            if anytime and _decided(played, asked, needed, most):
                break
        parts.append(played)
        if correction == "sequence" and not judge(played, asked, level, correction, anytime).certified:
            break
    return judge(Outcomes.concatenate(parts), asked, level, correction, anytime, candidates, success)


def _played(play: Play, settings: Mapping[str, Any], seeds: list[int]) -> Sequence[Any]:
    found = list(play(settings, seeds))
    if len(found) != len(seeds):
        raise CaptureError(f"play returned {len(found)} outcomes for {len(seeds)} seeds; expected one per seed.")
    return found


def _decided(played: Outcomes, risks: tuple[Risk, ...], level: float, most: int) -> bool:
    """Whether every risk is certified, or one of them cannot be even if all remaining episodes are free of it."""
    failed = {risk: risk.occurred(played.outcome) for risk in risks}
    if all(betting_p_value(which, float(risk.delta or 1.0)) <= level for risk, which in failed.items()):
        return True
    left = np.zeros(most - len(played), dtype=bool)
    return any(
        betting_p_value(np.concatenate([which, left]), float(risk.delta or 1.0)) > level for risk, which in failed.items()
    )


def episodes_needed(delta: float, beta: float = 0.05, failures: int = 0, candidates: int = 1, anytime: bool = False) -> int:
    """Fewest episodes that can certify a rate of at most delta, given the number of failures among them.

    >>> episodes_needed(0.05), episodes_needed(0.05, failures=2), episodes_needed(0.05, anytime=True)
    (59, 124, 74)
    """
    rate, level = probability("delta", delta), probability("beta", beta) / whole_number("candidates", candidates, 1)
    failed = whole_number("failures", failures, 0)
    return smallest_enough(failed, lambda n: _p(failed, n, rate, anytime) <= level)


def _p(failures: int, episodes: int, delta: float, anytime: bool) -> float:
    if not anytime:
        return rate_p_value(failures, episodes, delta)
    return math.exp(-float(log_capital(np.array([failures]), np.array([episodes]), delta)[0]))
