"""Thresholds from weighted calibration scores, for new inputs whose distribution differs from the log's."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate
from capture_cp.conformal.quantile import as_fraction, size_needed
from capture_cp.conformal.thresholds import SortedScores


class Ratios(NamedTuple):
    """Density ratio of new to logged inputs at each logged row.

    Attributes:
        weights: (n,), up to a factor common to all rows and `largest`.
        largest: a bound of the weight of any row, logged or new.
    """

    weights: Floats
    largest: float


@dataclass(frozen=True)
class WeightedScores(SortedScores):
    """Weighted calibration scores: rows from one distribution, a guarantee for another.

    `weights` (n,) are the ratios of the new density to the logged one at each row's input, and
    `largest` bounds this ratio everywhere. The threshold of a group of total weight W is the smallest score q up to which
    the weights add up to (1 - alpha)(W + largest), and +inf if they never do. All sums are exact.

    It holds for a new row of the new distribution, given its group: P(miss | group j) <= alpha. Proof for group j, whose
    rows are independent draws of the logged distribution, given that they are in the group; a new row is one of the new
    distribution, given the same. The two differ by the ratio times a constant, c w(x). Given the bag of all n + 1 pairs,
    the new row is pair i with probability w_i / (w_1 + ... + w_(n+1)), since c cancels (weighted exchangeability,
    Tibshirani and others, 2019). Let q* be the smallest score of the bag up to which the weights of the bag add up to
    1 - alpha of their sum. It does not depend on which pair is the new one, so the new score is at most q* with probability
    at least 1 - alpha. Let q be the smallest score up to which the n calibration weights alone reach that sum: q >= q*
    or q is infinite. Now replace the weight of the new row in the sum by its bound: q can only grow.

    By the same bound W / largest <= (sum of w)² / (sum of w²): a threshold is finite only where the effective size is at
    least 1 / alpha - 1.
    """

    weights: Floats
    largest: float

    @cached_property
    def effective_sizes(self) -> Floats:
        """Effective sample size of each group, (sum of weights)² / (sum of squared weights): (J,)."""
        sizes = np.zeros(len(self.starts) - 1)
        for j, (a, b) in enumerate(pairwise(self.starts)):
            most = self.weights[a:b].max(initial=0.0)
            if most > 0:
                shares = self.weights[a:b] / most  # exactly 1 for equal weights, so that their count is exact
                sizes[j] = shares.sum() ** 2 / (shares**2).sum()
        return sizes

    @property
    def sizes(self) -> Ints:
        return self.effective_sizes.astype(np.int64)

    def counted(self, confidence: float | None) -> Ints:
        _without(confidence)
        return self.sizes

    @property
    def times_largest(self) -> Floats:
        """Total weight of each group, in units of the largest possible weight: (J,)."""
        running, bound = self._running
        return np.array([float(Fraction(sums[-1], bound)) if sums else 0.0 for sums in running])

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of every group: (J,), +inf where the effective size or the total weight is too small."""
        _without(confidence)
        enough, share = self.sizes >= size_needed(alpha), 1 - as_fraction(failure_rate(alpha))
        running, bound = self._running
        q = np.full(len(running), np.inf)
        for j, sums in enumerate(running):
            if enough[j] and share * (sums[-1] + bound) <= sums[-1]:
                q[j] = self.scores[self.starts[j] + bisect_left(sums, share * (sums[-1] + bound))]
        return q

    @cached_property
    def _running(self) -> tuple[list[list[int]], int]:
        """Running sums of each group's weights, and `largest`, as whole multiples of one power of two: exact."""
        ratios = [number.as_integer_ratio() for number in (*self.weights.tolist(), float(self.largest))]
        unit = max(denominator for _, denominator in ratios)
        *whole, bound = (numerator * (unit // denominator) for numerator, denominator in ratios)
        return [list(accumulate(whole[a:b])) for a, b in pairwise(self.starts.tolist())], bound


def _without(confidence: float | None) -> None:
    if confidence is not None:
        raise CaptureError(
            "confidence is not available for a calibration with a shift, since weighted scores have no exact rank; leave "
            "it out, or calibrate on transitions of the new distribution."
        )
