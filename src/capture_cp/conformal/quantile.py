"""The exact conformal rank, without interpolation, clipping or floating-point error, and how much data it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from capture_cp.base.checks import CaptureError, Floats, Ints, confidence_level, failure_rate, whole_number

#: With at least this probability every group gets as many rollouts as it needs.
SURE = 0.95


def conformal_quantile(scores: Any, alpha: float, confidence: float | None = None) -> float:
    """The smallest threshold that a new exchangeable score does not exceed with probability at least 1 - alpha.

    It is the k-th smallest of the n scores with k = ⌈(n+1)(1-α)⌉, and +inf when k > n.

    Args:
        scores: calibration scores, (n,); n may be 0.
        alpha: allowed failure rate, strictly between 0 and 1.
        confidence: if set, the rank is raised until, with this probability over the draw of the calibration set, the
            coverage of the threshold is at least 1 - alpha; +inf when n is too small for that.

    >>> conformal_quantile([1, 2, 3, 4, 5, 6, 7, 8, 9], alpha=0.1)
    9.0
    >>> conformal_quantile([1, 2, 3], alpha=0.1)
    inf
    """
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full((), np.nan)
    if array.ndim != 1 or np.isnan(array).any():
        raise CaptureError(f"scores have shape {array.shape} or contain NaN; expected numbers of shape (n,), without NaN.")
    rank = conformal_rank(len(array), alpha, confidence)
    return float(np.partition(array, rank - 1)[rank - 1]) if rank <= len(array) else math.inf


def conformal_rank(n: int, alpha: float, confidence: float | None = None) -> int:
    """Rank of the threshold among n sorted scores, counted from 1; n + 1 means +inf."""
    return int(conformal_ranks([whole_number("n", n, 0)], alpha, confidence)[0])


def conformal_ranks(sizes: Sequence[int] | Ints, alpha: float, confidence: float | None = None) -> Ints:
    """Rank of the threshold of each group, (J,), by the number of its scores (J,)."""
    alpha, confidence = failure_rate(alpha), confidence_level(confidence)
    share, ranks = 1 - as_fraction(alpha), np.empty(len(sizes), dtype=np.int64)
    for j, n in enumerate(map(int, sizes)):
        rank = math.ceil((n + 1) * share)
        if confidence is not None:
            rank = max(rank, _confident_rank(n, alpha, confidence))
        ranks[j] = min(rank, n + 1)
    return ranks


def size_needed(alpha: float, confidence: float | None = None) -> int:
    """The smallest number of calibration scores that gives a finite threshold."""
    alpha, confidence = failure_rate(alpha), confidence_level(confidence)
    needed = math.ceil(1 / as_fraction(alpha)) - 1
    if confidence is not None:
        # the largest score suffices when (1 - alpha)^n <= 1 - confidence
        needed = max(needed, math.ceil(math.log1p(-confidence) / math.log1p(-alpha) - 1e-9))
    return needed


def draws_needed(scores: int, share: float, miss: float) -> int:
    """Smallest number of draws of which at least `scores` fall in a group of that share with probability >= 1 - `miss`.

    >>> draws_needed(9, 1.0, 0.05), draws_needed(9, 0.25, 0.05)
    (9, 55)
    """
    if share == 1.0:
        return scores
    return smallest_enough(scores, lambda draws: scipy.special.bdtr(scores - 1, draws, share) <= miss)


def smallest_enough(few: int, enough: Callable[[int], bool]) -> int:
    """The smallest number from `few` on that is enough; all larger numbers must be enough too."""
    if enough(few):
        return few
    many = max(1, 2 * few)
    while not enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def rollouts_needed(
    alpha: float,
    confidence: float | None = None,
    steps: int = 1,
    groups: int = 1,
    *,
    simultaneous: bool = False,
    smallest: float | None = None,
    partition_share: float = 0.7,
) -> int:
    """Smallest number of rollouts that gives finite thresholds, including the rollouts that make the groups.

    A rollout provides a score at every step, so for single steps their number matters only with `confidence`. Without it the
    result does not depend on `steps`. With it, coverage holds for every step and group at once with that probability, each
    at level 1 - (1 - confidence) / (steps * groups). For all steps at once (`simultaneous`) there is one threshold, shared
    by groups and steps; they also need scales, which come from the rollouts that make the groups.

    Args:
        alpha: allowed failure rate.
        confidence: as for thresholds; None for coverage on average over calibration sets.
        steps: S, number of steps with a region.
        groups: number of groups per step, strata times leaves.
        simultaneous: whether coverage is for all steps at once.
        smallest: fraction of rollouts in the rarest group, by default 1 / groups. Every group gets enough rollouts with a
            probability of 95%.
        partition_share: fraction of rollouts that make the groups, as in `Tree`.

    >>> rollouts_needed(0.1, steps=6, groups=3)
    177
    >>> rollouts_needed(0.1, steps=6, groups=3, simultaneous=True)
    336
    """
    alpha, confidence = failure_rate(alpha), confidence_level(confidence)
    steps, groups = whole_number("steps", steps, 1), whole_number("groups", groups, 1)
    rarest = 1 / groups if smallest is None else float(smallest)
    if not 0.0 < rarest <= 1 / groups:
        raise CaptureError(
            f"smallest is {smallest!r}; expected the fraction of rollouts in the rarest of {groups} groups, above 0 and at "
            f"most 1/{groups}."
        )
    if not 0.0 < partition_share < 1.0:
        raise CaptureError(f"partition_share is {partition_share!r}; expected a number between 0 and 1, such as 0.7.")
    many = steps * groups
    if simultaneous:
        thresholds = _parted(size_needed(alpha, confidence), 1 - partition_share)
        scales = _drawn(size_needed(alpha / steps), rarest, many)
        return max(thresholds, _parted(scales, partition_share))
    each = None if confidence is None else 1 - (1 - confidence) / many
    return _parted(_drawn(size_needed(alpha, each), rarest, many), 1 - partition_share)


def _drawn(needed: int, share: float, many: int) -> int:
    """Smallest number of draws of which `needed` fall in each of `many` groups of that share, with probability SURE."""
    return draws_needed(needed, share, (1 - SURE) / many)


def _parted(rows: int, share: float) -> int:
    """Smallest number of rollouts of which a part of that share has at least `rows` rows."""
    return math.ceil(rows / share - 1e-9)


@lru_cache(maxsize=64)  # called once for every group, and at every step if alpha changes
def as_fraction(alpha: float) -> Fraction:
    """The simple fraction that the user meant: 0.1, and also 1 - 0.9, is one tenth.

    In floating point, (n+1)(1-α) can land on either side of an integer, and the rank would then be off by one.
    """
    near = Fraction(alpha).limit_denominator(10**12)
    return near if 0 < near < 1 else Fraction(alpha)


def _confident_rank(n: int, alpha: float, confidence: float) -> int:
    """Smallest k with P(Beta(k, n+1-k) ≥ 1-α) ≥ confidence; n + 1 when there is none.

    The coverage of the k-th smallest of n continuous scores is Beta(k, n+1-k); ties only raise it.
    """
    k: Floats = np.arange(1, n + 1, dtype=np.float64)
    undercovers = scipy.special.betainc(k, n + 1 - k, 1 - alpha)
    good = undercovers <= (1 - confidence) * (1 + 1e-12)
    return int(np.argmax(good)) + 1 if good.any() else n + 1
