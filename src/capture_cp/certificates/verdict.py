"""Which settings keep their risks below delta: one p-value per setting, corrected for their number (Learn then Test)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, known_name, probability
from capture_cp.certificates.evidence import betting_p_value, rate_bound, rate_p_value
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.risks import SUCCESS, Risk, checked_risks
from capture_cp.conformal.drift import holm

#: "holm" tests candidates in any order; "sequence" tests them one after another in an order fixed in advance.
Correction = Literal["holm", "sequence"]


@dataclass(frozen=True)
class Candidate:
    """One setting and the evidence about it.

    Attributes:
        name: name of the setting.
        settings: its values, as JSON values.
        episodes: number of episodes played.
        failures: number of failures by risk.
        p_values: by risk, for the hypothesis that its rate is at least delta; 1 where no delta was given.
        bounds: by risk, the rate that holds for all candidates and risks at once with the requested confidence; empty
            if every risk has a delta.
        certified: whether all risks are below their delta.
        successes: number of episodes that succeeded.
        steps: median number of steps of a successful episode; NaN where unknown.
    """

    name: str
    settings: Mapping[str, Any]
    episodes: int
    failures: Mapping[str, int]
    p_values: Mapping[str, float]
    bounds: Mapping[str, float]
    certified: bool
    successes: int
    steps: float

    @property
    def p_value(self) -> float:
        """For the hypothesis that some risk is at least its delta: the largest p-value (an intersection-union test)."""
        return max(self.p_values.values())

    @property
    def success(self) -> float:
        """Fraction of episodes that succeeded."""
        return self.successes / self.episodes if self.episodes else 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Best success first, then fewest steps."""
        return -self.success, np.inf if np.isnan(self.steps) else self.steps


@dataclass(frozen=True)
class Verdict:
    """The result for every candidate.

    With probability at least 1 - beta over the episodes, *every* certified candidate keeps every risk at or below its delta.
    You may therefore choose any of them after looking at these outcomes.

    Attributes:
        risks: what counts as a failure.
        beta: upper bound on the probability of any false certificate.
        correction: correction for the number of candidates.
        anytime: whether the number of episodes was left open.
        candidates: in the order of the ladder.
        outcomes: outcomes of all episodes.
    """

    risks: tuple[Risk, ...]
    beta: float
    correction: Correction
    anytime: bool
    candidates: tuple[Candidate, ...]
    outcomes: Outcomes

    @property
    def certified(self) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self.candidates if candidate.certified)

    @property
    def best(self) -> Candidate | None:
        """The certified candidate with the lowest bound if no delta was given; otherwise the one with the most successes,
        then the fewest steps. None if no candidate is certified.
        """
        least = [risk.name for risk in self.risks if risk.delta is None]

        def order(candidate: Candidate) -> tuple[float, ...]:
            return *(candidate.bounds[name] for name in least), *candidate.rank

        return min(self.certified, key=order, default=None)

    def delta(self, candidate: Candidate, risk: Risk) -> float:
        """The certified rate: the given delta, or the smallest one, rounded up to four decimals."""
        if risk.delta is not None:
            return risk.delta
        return float(min(np.ceil(candidate.bounds[risk.name] * 1e4) / 1e4, 1.0))


def judge(
    outcomes: Outcomes,
    risks: Sequence[Risk],
    beta: float = 0.05,
    correction: Correction = "holm",
    anytime: bool = False,
    candidates: Mapping[str, Mapping[str, Any]] | None = None,
    success: str = SUCCESS,
) -> Verdict:
    """Which settings keep all risks below their delta, from the outcomes of independent episodes.

    Args:
        outcomes: outcomes of all episodes, in chronological order.
        risks: what counts as a failure; for a risk without delta, the smallest certifiable one is found.
        beta: upper bound on the probability of any false certificate.
        correction: "holm" tests candidates in any order; "sequence" tests them in the given order, from the safest, until
            one fails: each may then use all of beta, but the order must be fixed before any of these episodes.
        anytime: whether the number of episodes was left open, for example until a verdict was reached.
        candidates: the ladder, settings by name; by default every setting that occurs. Settings without an episode count.
        success: the outcome that counts as success when the best candidate is chosen.
    """
    asked, level = checked_risks(risks), probability("beta", beta)
    known_name("correction", correction, get_args(Correction))
    ladder = {name: dict[str, Any]() for name in outcomes.settings} if candidates is None else candidates
    _check_ladder(ladder, outcomes)
    least = any(risk.delta is None for risk in asked)
    if least and (anytime or correction == "sequence"):
        raise CaptureError(
            "the smallest delta needs a correction over all candidates and a number of episodes fixed in advance; give "
            "every risk its delta, such as fell=0.02, or leave out --anytime and the fixed sequence."
        )
    share = level / (len(ladder) * len(asked))
    found = [
        _candidate(name, ladder[name], outcomes.at(name), asked, share if least else None, anytime, success)
        for name in ladder
    ]
    if least:
        passed = np.array([_within(candidate, asked) for candidate in found])
    else:
        passed = certified(np.array([candidate.p_value for candidate in found]), level, correction)
    judged = (Candidate(**(vars(one) | {"certified": bool(good)})) for one, good in zip(found, passed))
    return Verdict(asked, level, correction, anytime, tuple(judged), outcomes)


def certified(p_values: Floats, beta: float, correction: Correction) -> Bools:
    """Which hypotheses (J,) are rejected, such that any true one is rejected with probability at most beta.

    >>> certified(np.array([0.01, 0.2, 0.02]), 0.05, "holm"), certified(np.array([0.01, 0.2, 0.02]), 0.05, "sequence")
    (array([ True, False,  True]), array([ True, False, False]))
    """
    if correction == "sequence":
        return np.logical_and.accumulate(p_values <= beta)
    return holm(p_values) <= beta


def _candidate(
    name: str,
    settings: Mapping[str, Any],
    episodes: Outcomes,
    risks: tuple[Risk, ...],
    share: float | None,
    anytime: bool,
    success: str,
) -> Candidate:
    failed = {risk.name: risk.occurred(episodes.outcome) for risk in risks}
    counts = {name: int(which.sum()) for name, which in failed.items()}
    n = len(episodes)
    p_values = {risk.name: _p_value(failed[risk.name], risk.delta, anytime) for risk in risks}
    bounds = {} if share is None else {name: rate_bound(count, n, share) for name, count in counts.items()}
    good = episodes.outcome == success
    known = episodes.steps[good & np.isfinite(episodes.steps)]
    steps = float(np.median(known)) if len(known) else np.nan
    return Candidate(name, dict(settings), n, counts, p_values, bounds, False, int(good.sum()), steps)


def _p_value(failed: Bools, delta: float | None, anytime: bool) -> float:
    if delta is None:
        return 1.0
    return betting_p_value(failed, delta) if anytime else rate_p_value(int(failed.sum()), len(failed), delta)


def _within(candidate: Candidate, risks: tuple[Risk, ...]) -> bool:
    """Whether a candidate with bounds has episodes and keeps every given delta."""
    return candidate.episodes > 0 and all(risk.delta is None or candidate.bounds[risk.name] <= risk.delta for risk in risks)


def _check_ladder(ladder: Mapping[str, Any], outcomes: Outcomes) -> None:
    if not ladder:
        raise CaptureError("there are no candidates; expected at least one setting.")
    strangers = [name for name in outcomes.settings if name not in ladder]
    if strangers:
        raise CaptureError(
            f"there are episodes of {strangers[0]!r}, which is not among the candidates {', '.join(ladder)}; the ladder "
            "must be fixed in advance and name every setting that was tried."
        )
