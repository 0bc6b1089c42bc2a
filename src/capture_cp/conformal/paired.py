"""Which of two simulators is closer, from their errors at the same rows: an episode counts once, by its sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.conformal.drift import holm

#: Probability of a false verdict.
LEVEL = 0.05

Verdict = Literal["better", "worse", "no better", "cannot tell"]


@dataclass(frozen=True)
class Comparison:
    """In how many episodes one simulator is closer than another.

    Attributes:
        closer: number of episodes with more rows won than lost.
        tied: number of episodes with as many.
        farther: number of episodes with fewer.
        ratio: median over episodes of the ratio of mean errors, below 1 if closer; NaN without episodes.
        ratio_ci95: 95% interval of that median, from order statistics.
    """

    closer: int
    tied: int
    farther: int
    ratio: float
    ratio_ci95: tuple[float, float]

    @property
    def untied(self) -> int:
        return self.closer + self.farther

    @property
    def share(self) -> float:
        """Fraction of untied episodes that are closer; NaN if all are tied."""
        return self.closer / self.untied if self.untied else math.nan

    @property
    def ci95(self) -> tuple[float, float]:
        """Exact 95% interval of the share."""
        return clopper_pearson(self.closer, self.untied)

    @property
    def p_two_sided(self) -> float:
        """P-value of "as often closer as farther" (exact sign test): below 0.05 where `ci95` excludes one half."""
        return min(1.0, 2 * float(scipy.special.bdtr(min(self.closer, self.farther), self.untied, 0.5)))

    @property
    def p_no_better(self) -> float:
        """P-value of "mostly closer": at most 0.05 where the one-sided 95% upper bound of the share is at most one half."""
        return float(scipy.special.bdtr(self.closer, self.untied, 0.5))


def compare(ours: Floats, theirs: Floats, episodes: Ints, resolution: float = 0.01) -> Comparison:
    """Compare errors `ours` and `theirs` (n,) at the same rows of episodes (n,), numbered 0, 1, ...

    A row is won by the smaller error, or tied if they differ by at most `resolution` of the larger, or both are infinite.

    >>> found = compare(np.array([1.0, 1.0, 3.0, 2.0]), np.array([2.0, 1.005, 1.0, 4.0]), np.array([0, 0, 1, 2]))
    >>> found.closer, found.tied, found.farther, round(found.ratio, 3)
    (2, 0, 1, 0.666)
    """
    if not ours.shape == theirs.shape == episodes.shape or np.isnan(ours).any() or np.isnan(theirs).any():
        raise CaptureError(
            f"errors have shapes {ours.shape} and {theirs.shape}, episodes {episodes.shape}; expected one of each per row, "
            "without NaN."
        )
    visited, number = np.unique(episodes, return_inverse=True)
    wins = np.bincount(number, weights=_signs(ours, theirs, resolution), minlength=len(visited))
    rows = np.bincount(number, minlength=len(visited))
    ratios = _ratios(*(np.bincount(number, weights=errors, minlength=len(visited)) / rows for errors in (ours, theirs)))
    counts = (int((wins * sign > 0).sum()) for sign in (1, -1))
    closer, farther = counts
    middle = float(np.median(ratios)) if len(ratios) else math.nan
    return Comparison(closer, len(visited) - closer - farther, farther, middle, median_interval(ratios))


def median_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Interval of the median of independent non-negative values (n,): the k-th smallest and the k-th largest.

    k is the largest number with P(Bin(n, 1/2) < k) <= (1 - level) / 2, so that it holds for any distribution.

    >>> median_interval(np.arange(1.0, 21.0))
    (6.0, 15.0)
    """
    below = scipy.special.bdtr(np.arange(len(values)), len(values), 0.5) if len(values) else np.empty(0)
    k = int(np.searchsorted(below, (1 - level) / 2, "right"))
    ordered = np.sort(values)
    return (float(ordered[k - 1]), float(ordered[-k])) if k else (0.0, math.inf)


def verdicts(comparisons: Sequence[Comparison], level: float = LEVEL) -> list[Verdict]:
    """What each comparison shows, by exact sign tests with Holm's correction over all of them, which are those shown.

    "better" and "worse", in most untied episodes, are two-sided, and "no better" is one-sided: not being able to tell is no
    proof. Any false "better" or "worse" has probability at most `level`, and so has any false "no better".
    """
    two_sided = holm([one.p_two_sided for one in comparisons]) <= level
    no_better = holm([one.p_no_better for one in comparisons]) <= level
    found: list[Verdict] = []
    for one, differ, not_better in zip(comparisons, two_sided, no_better):
        if differ:
            found.append("better" if one.closer > one.farther else "worse")
        else:
            found.append("no better" if not_better else "cannot tell")
    return found


def _signs(ours: Floats, theirs: Floats, resolution: float) -> Floats:
    """1 where ours is closer, -1 where it is farther, 0 for ties: (n,)."""
    with np.errstate(invalid="ignore"):  # the difference of two infinite errors
        differ = np.abs(ours - theirs) > resolution * np.maximum(ours, theirs)
    one_diverged = np.isinf(ours) != np.isinf(theirs)
    return np.where(differ | one_diverged, np.sign(np.where(ours < theirs, 1.0, -1.0)), 0.0)


def _ratios(ours: Floats, theirs: Floats) -> Floats:
    """ours / theirs (K,), 1 where both are zero or both infinite."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(ours == theirs, 1.0, ours / theirs)
