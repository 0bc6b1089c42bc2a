"""Bounds on the score of a random row of a new episode, where rows are alike only within their episode.

Of K episodes, independent and alike, Fᵢ(q) is the share of episode i's rows with a score of at most q. A row drawn uniformly
among those of a new episode then passes q with probability E F(q). In practice the rows are those of one contact mode and
number of steps, and the episodes those that visit it. A score of +inf is a simulation that diverged.

All functions take scores (n,) and, for each, the number of its episode (n,): 0, 1, ... in the order of the log, which may
skip episodes without rows here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import scipy

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, failure_rate, probability
from capture_cp.base.streams import stream
from capture_cp.conformal.episodes import one_of_each
from capture_cp.conformal.quantile import as_fraction, conformal_quantile, size_needed, smallest_enough

#: With fewer rows in the median episode, one drawn row per episode gives lower bounds than all of them.
FEW = 3
#: The largest bet loses at most this share of the capital.
MOST = 0.97
_NEAR = 1e-9  # float sums of weights are exact to this, relative to their size
_SLACK = 1e-9  # several scores pass at once only with this to spare, so that rounding cannot let one pass that fails alone


# -- over log and episode -------------------------------------------------------------------------------------------------


def episode_quantile(scores: Floats, episodes: Ints, alpha: float) -> float:
    """The smallest q with P(score <= q) >= 1 - alpha, over the log and a random row of a new episode.

    Each episode weighs 1, shared by its rows; one more, the new one, is at infinity. q is the smallest score up to which the
    weights add up to (1 - alpha)(K + 1), in exact arithmetic: +inf while K < 1 / alpha - 1 (Lee, Barber and Willett,
    "Distribution-free inference with hierarchical data", 2306.06342).

    >>> episode_quantile(np.array([1.0, 2.0, 9.0, 4.0]), np.array([0, 0, 1, 2]), alpha=0.5)
    4.0
    >>> episode_quantile(np.array([1.0, 2.0, 9.0, 4.0]), np.array([0, 0, 1, 2]), alpha=0.2)
    inf
    """
    return float(episode_quantiles(scores, episodes, [alpha])[0])


def episode_quantiles(scores: Floats, episodes: Ints, alphas: Sequence[float] | Floats) -> Floats:
    """`episode_quantile` at each alpha: (A,)."""
    rows, order = _rows(scores, episodes), np.argsort(scores, kind="stable")
    steps, total = rows[episodes[order]], Fraction(int(np.count_nonzero(rows)))
    reached, found = np.cumsum(1.0 / steps), np.full(len(alphas), np.inf)
    for i, alpha in enumerate(alphas):
        row = _first_reaching(steps, total, reached, alpha)
        found[i] = math.inf if row is None else scores[order[row]]
    return found


def weighted_quantile(scores: Floats, steps: Ints, alpha: float) -> float:
    """The smallest of sorted scores (n,) up to which weights 1 / steps (n,) add up to (1 - alpha)(W + 1), W their sum."""
    row = _first_reaching(steps, weight(steps), np.cumsum(1.0 / steps), alpha)
    return math.inf if row is None else float(scores[row])


def _first_reaching(steps: Ints, total: Fraction, reached: Floats, alpha: float) -> int | None:
    """First row up to which weights 1 / steps (n,) add up to (1 - alpha)(total + 1), exactly; None if they never do.

    Their sums in floats, `reached` (n,), narrow the search; fractions decide only between rows at the border.
    """
    needed = (1 - as_fraction(failure_rate(alpha))) * (total + 1)
    if needed > total:
        return None
    goal = float(needed)
    low, high = (int(row) for row in np.searchsorted(reached, [goal * (1 - _NEAR), goal * (1 + _NEAR)]))
    high = min(high, len(steps) - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if weight(steps[: middle + 1]) >= needed else (middle + 1, high)
    return low


def weight(steps: Ints) -> Fraction:
    """Sum of the weights 1 / steps (n,), exactly."""
    counts = np.bincount(steps)
    return sum((Fraction(int(counts[size]), int(size)) for size in np.flatnonzero(counts)), Fraction(0))


# -- over the draw of the log ---------------------------------------------------------------------------------------------


def confident_quantile(scores: Floats, episodes: Ints, alpha: float, delta: float, seed: int = 0) -> float:
    """With probability 1 - delta over the log, P(score <= q) >= 1 - alpha for a random row of a new episode.

    All rows are used, by betting, or one drawn row per episode where the median episode has under `FEW`: counts decide,
    never scores, so that the level holds.
    """
    if few_rows(episodes):
        return drawn_quantile(scores, episodes, alpha, delta, seed)
    return betting_quantile(scores, episodes, alpha, delta)


def few_rows(episodes: Ints) -> bool:
    """Whether the median episode has under `FEW` rows."""
    counts = np.bincount(episodes)
    return bool(np.median(counts[counts > 0]) < FEW) if len(counts) else False


def drawn_quantile(scores: Floats, episodes: Ints, alpha: float, delta: float, seed: int = 0) -> float:
    """`confident_quantile` from one drawn row per episode: the exact order statistic of these rows."""
    _rows(scores, episodes)
    drawn = one_of_each(episodes, stream(seed, "drawn rows"))
    return conformal_quantile(scores[drawn], alpha, 1 - probability("delta", delta))


def betting_quantile(scores: Floats, episodes: Ints, alpha: float, delta: float) -> float:
    """`confident_quantile` from all rows: the smallest score that passes the test of `capital`, as all larger ones do.

    If q is below the true quantile, so that E F <= 1 - alpha just below that, the largest score there must have passed.
    """
    failure_rate(alpha), probability("delta", delta)
    rows = _rows(scores, episodes)
    count, goal = int(np.count_nonzero(rows)), -math.log(delta)
    number, order = (np.cumsum(rows > 0) - 1)[episodes], np.argsort(scores, kind="stable")
    ordered, number, rows = scores[order], number[order], rows[rows > 0]
    finite = ordered[np.isfinite(ordered)]
    last = np.flatnonzero(np.diff(finite, append=np.inf))  # the last row of each score, so that ties count

    def shares(candidate: int) -> Floats:
        return np.bincount(number[: last[candidate] + 1], minlength=count) / rows

    found, above, width = math.inf, len(last), len(last)
    while above > 0:
        width = max(1, min(width, above))
        low = above - width
        spare = _SLACK if width > 1 else 0.0
        if capital(shares(low), shares(above - 1), alpha, delta) >= goal + spare:
            found, above, width = float(ordered[last[low]]), low, 2 * width
        elif width == 1:
            break
        else:
            width //= 2
    return found


def capital(low: Floats, high: Floats, alpha: float, delta: float) -> float:
    """Logarithm of the largest capital of bets that E F > 1 - alpha, whichever shares F (K,) between `low` and `high`.

    With low = high = F it is exactly max over t of Σᵢ≤ₜ ln(1 + λᵢ xᵢ), for xᵢ = Fᵢ - (1 - α) in the order of the log and

        λᵢ = min(√(2 ln(1/δ) / (K vᵢ)), 0.97 / (1 - α)),   vᵢ = (2 α (1 - α) + Σᵣ<ᵢ xᵣ²) / (i + 1).

    λᵢ depends on earlier episodes only, so if E F <= 1 - α the capital has expectation at most 1 after every episode, and it
    ever reaches 1 / δ with probability at most δ (Ville; Waudby-Smith and Ramdas, "Estimating means of bounded random
    variables by betting", 2010.09686). Otherwise it is a lower bound: the smallest x with the worst λ.
    """
    count = len(low)
    if not count:
        return -math.inf
    x, others = low - (1 - alpha), high - (1 - alpha)
    largest = np.maximum(x**2, others**2)
    smallest = np.where((x < 0) & (others > 0), 0.0, np.minimum(x**2, others**2))
    squares = np.where(x < 0, np.cumsum(smallest) - smallest, np.cumsum(largest) - largest)
    v = (2 * alpha * (1 - alpha) + squares) / np.arange(2, count + 2)
    bets = np.minimum(np.sqrt(-2 * math.log(delta) / (count * v)), MOST / (1 - alpha))
    return float(np.cumsum(np.log1p(bets * x)).max())


# -- trust ----------------------------------------------------------------------------------------------------------------


def betting_passes(within: Bools, episodes: Ints, alpha: float, delta: float, seed: int = 0) -> bool | None:
    """Whether a random row of a new episode is `within` (n,) a tolerance with probability >= 1 - alpha, by a test at delta.

    The test is that of `confident_quantile`, with the same rule for drawn rows, whose test is the exact binomial one. None
    where no rows could pass it: there are fewer than `episodes_needed`.
    """
    failure_rate(alpha), probability("delta", delta)
    rows, drawn = _rows(within, episodes), few_rows(episodes)
    visited = rows > 0
    count = int(np.count_nonzero(visited))
    if count < episodes_needed(alpha, delta, drawn):
        return None
    if drawn:
        missed = count - int(within[one_of_each(episodes, stream(seed, "drawn rows"))].sum())
        return bool(scipy.special.bdtr(missed, count, alpha) <= delta)
    shares = np.bincount(episodes, weights=within)[visited] / rows[visited]
    return capital(shares, shares, alpha, delta) >= -math.log(delta)


class Trust(NamedTuple):
    """For how many steps something is trusted, None while unknown, and why not for more: all that were tested passed, one
    failed, or too few episodes.
    """

    steps: int | None
    ended: Literal["all passed", "failed", "too few episodes"]


def trusted_steps(passes: Sequence[bool | None]) -> Trust:
    """The number of steps 1, 2, ... that pass one after another, from `betting_passes` at each of them.

    As each is tested only if all before it passed, all statements hold jointly at the level of one (a fixed sequence).

    >>> trusted_steps([True, True, False, True])
    Trust(steps=2, ended='failed')
    >>> trusted_steps([None, None])
    Trust(steps=None, ended='too few episodes')
    """
    for steps, passed in enumerate(passes):
        if passed is None:
            return Trust(steps or None, "too few episodes")
        if not passed:
            return Trust(steps, "failed")
    return Trust(len(passes), "all passed")


@lru_cache(maxsize=256)
def episodes_needed(alpha: float, delta: float | None = None, drawn: bool = False) -> int:
    """Smallest number of episodes that gives a finite bound, or that can be trusted where all of their rows pass.

    With delta, over the draw of the log, from all rows or from one `drawn` row per episode (see `few_rows`).

    >>> episodes_needed(0.1), episodes_needed(0.1, 0.05), episodes_needed(0.1, 0.05, drawn=True)
    (9, 30, 29)
    """
    if delta is None:
        return size_needed(alpha)
    few = size_needed(alpha, 1 - probability("delta", delta))

    def enough(count: int) -> bool:
        return capital(np.ones(count), np.ones(count), alpha, delta) >= -math.log(delta)

    return few if drawn else smallest_enough(few, enough)


def _rows(values: Floats | Bools, episodes: Ints) -> Ints:
    """Number of rows of each episode 0, 1, ..., of which some may have none."""
    sound = values.ndim == 1 and values.shape == episodes.shape and episodes.dtype.kind in "iu" and not (episodes < 0).any()
    if not sound or np.isnan(values).any():
        raise CaptureError(
            f"scores have shape {values.shape} and episodes {episodes.shape} of {episodes.dtype}; expected a number without "
            "NaN and the number of its episode, 0 or larger, per row."
        )
    return np.bincount(episodes).astype(np.int64)
