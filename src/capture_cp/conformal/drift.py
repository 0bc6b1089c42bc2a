"""Tests of whether new data are like the calibration data, and a log like itself: valid at any size, Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array
from capture_cp.base.streams import stream
from capture_cp.conformal.quantile import conformal_ranks
from capture_cp.conformal.thresholds import GroupScores

LEVELS = 63  # quantiles per column that a calibration stores
MOST_ROWS = 10_000  # rows that the quantiles are computed from, and new rows compared with them
_AT_ONCE = 1_000  # orders of episodes that are drawn together
ROUNDING = 1e-12  # lower bound on p-values, so that rounding cannot raise an alarm


def column_quantiles(X: Floats) -> dict[str, Any]:
    """Order statistics of each column of X (n, dx), as plain lists that a calibration can store."""
    rows = _evenly(X)
    ranks = np.unique(np.rint(np.arange(1, LEVELS + 1) / (LEVELS + 1) * (len(rows) + 1)).astype(int).clip(1, len(rows)))
    values = np.partition(rows, ranks - 1, axis=0)[ranks - 1].T
    return {"rows": len(rows), "ranks": ranks.tolist(), "values": values.tolist()}


def column_p_values(summary: Mapping[str, Any], X: Floats) -> Floats:
    """P-value of each column of new inputs X (m, dx), for a deviation this large from the calibration's inputs: (dx,).

    If new and old inputs are exchangeable, the number of new ones up to an order statistic of the old ones is
    beta-binomial, for any distribution. The p-value is the smallest two-sided one over the stored order statistics, times
    their number (Bonferroni). Ties only raise it.
    """
    n, ranks, values = _checked_summary(summary, X.shape[1])
    ordered = np.sort(_evenly(X), axis=0)
    smallest = np.ones(X.shape[1])
    for rank, marks in zip(ranks.tolist(), values.T):
        at_most = np.cumsum(_passing(len(ordered), n, rank))
        upto, below = (
            np.array([np.searchsorted(column, mark, side) for column, mark in zip(ordered.T, marks)])
            for side in ("right", "left")
        )
        at_least = 1.0 - np.concatenate([[0.0], at_most])[below]
        smallest = np.minimum(smallest, np.minimum(at_most[upto], at_least))
    return np.asarray((2 * len(ranks) * np.maximum(smallest, ROUNDING)).clip(max=1.0))


def shortfall_p_value(held: int, trials: Ints, sizes: Ints, ranks: Ints) -> float:
    """P-value of at most `held` new outcomes passing their thresholds, if nothing has changed.

    Group j has `trials[j]` new outcomes, and its threshold is the `ranks[j]`-th of `sizes[j]` calibration scores. Its
    coverage is then a draw from Beta(k, n + 1 - k), so the sampling variation of the calibration counts as well as that of
    the batch.
    """
    return _tail(_passing_all(trials, sizes, ranks)[: held + 1])


def excess_p_value(held: int, trials: Ints, sizes: Ints, ranks: Ints) -> float:
    """Like `shortfall_p_value`, for at least `held` of them; tied scores make it smaller than it should be."""
    return _tail(_passing_all(trials, sizes, ranks)[held:])


@dataclass(frozen=True)
class Outcomes:
    """Independent outcomes that were not used for calibration.

    Attributes:
        alpha: allowed failure rate.
        group: of each outcome, (n,).
        held: whether each was in its region, (n,).
        passed: whether each passed a threshold whose coverage is Beta-distributed, (n,); differs from `held` only for
            episodes.
        sizes: calibration scores behind these thresholds, (J,).
        ranks: of the thresholds among them, (J,).
    """

    alpha: float
    group: Ints
    held: Bools
    passed: Bools
    sizes: Ints
    ranks: Ints

    @classmethod
    def of(cls, known: GroupScores, R: Floats, group: Ints, held: Bools, alpha: float, confidence: float | None) -> Outcomes:
        """Outcomes with scores R (n,) in groups (n,), which `held` or did not (n,), of the calibration with `known` scores.

        The known scores are exchangeable with new ones across all groups, as `single` are.
        """
        passed = known.at(alpha, confidence)[group] >= R
        return cls(alpha, group, held, passed, known.sizes, conformal_ranks(known.sizes, alpha, confidence))

    def shortfall(self, here: Bools) -> float:
        """P-value of so few outcomes held among those `here` (n,).

        It is the larger of two: one counts only the sampling variation of the batch, the other also that of the calibration.
        """
        held, n = int(self.held[here].sum()), int(here.sum())
        by_batch = float(scipy.special.betainc(n - held, held + 1, self.alpha)) if held < n else 1.0  # of a binomial number
        return max(by_batch, shortfall_p_value(int(self.passed[here].sum()), *self._groups(here)))

    def excess(self, here: Bools) -> float:
        """Likewise for so many outcomes held."""
        held, n = int(self.held[here].sum()), int(here.sum())
        by_batch = float(scipy.special.betainc(held, n - held + 1, 1 - self.alpha)) if held else 1.0
        return max(by_batch, excess_p_value(int(self.passed[here].sum()), *self._groups(here)))

    def _groups(self, here: Bools) -> tuple[Ints, Ints, Ints]:
        """Number of outcomes `here`, of calibration scores, and rank, for each group with such outcomes."""
        trials = np.bincount(self.group[here], minlength=len(self.sizes))
        some = trials > 0
        return trials[some], self.sizes[some], self.ranks[some]


def _passing_all(trials: Ints, sizes: Ints, ranks: Ints) -> Floats:
    """Probabilities that 0, 1, ... new outcomes of all groups together pass: a sum of beta-binomial numbers."""
    # the smallest first, so that few convolutions are long
    todo = sorted((_passing(m, n, k) for m, n, k in zip(trials.tolist(), sizes.tolist(), ranks.tolist())), key=len)
    total = np.ones(1)
    for each in todo:
        total = _convolved(total, each)
    return total


def _convolved(a: Floats, b: Floats) -> Floats:
    """The convolution of a (n,) and b (m,), n + m - 1 probabilities."""
    from scipy import fft  # scipy.signal has one too, and takes half a second to import

    length = len(a) + len(b) - 1
    padded = fft.next_fast_len(length, real=True)
    return np.asarray(fft.irfft(fft.rfft(a, padded) * fft.rfft(b, padded), padded)[:length])


def _passing(m: int, n: int, k: int) -> Floats:
    """Probabilities that 0, 1, ..., m of m new scores are at most the k-th of n earlier ones; all are if k is beyond n."""
    passed = np.arange(m + 1)
    if k > n:
        return np.asarray(passed == m, dtype=np.float64)
    a, b = k, n + 1 - k
    ways = scipy.special.gammaln(m + 1) - scipy.special.gammaln(passed + 1) - scipy.special.gammaln(m - passed + 1)
    return np.asarray(np.exp(ways + scipy.special.betaln(passed + a, m - passed + b) - scipy.special.betaln(a, b)))


def _tail(probabilities: Floats) -> float:
    return float(np.clip(probabilities.sum(), ROUNDING, 1.0))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """P-values adjusted by Holm's procedure: rejecting those up to a level keeps the family-wise error at that level."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def drift(errors: Floats, episodes: Ints, draws: int = 9_999, seed: int = 0) -> float:
    """P-value of a change during a log, from errors (n,) of its episodes (n,), numbered 0, 1, ... in the order of the log.

    The mean errors of the early half of the episodes are compared with those of the late half. Episodes that are alike
    could have come in any order: the p-value is the share of `draws` random orders in which the two differ at least as much.
    As the means count by their rank, infinite errors are only the largest. With under four episodes it is 1.

    >>> errors, episodes = np.r_[np.arange(10.0), np.arange(20.0, 30.0)], np.arange(20)
    >>> drift(errors, episodes)
    0.0001
    """
    visited, number, rows = np.unique(episodes, return_inverse=True, return_counts=True)
    count, early = len(visited), len(visited) // 2
    if count < 4:
        return 1.0
    _, place, ties = np.unique(np.bincount(number, weights=errors) / rows, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[place]
    expected, rng, as_far = early * (count + 1) / 2, stream(seed, "drift"), 1
    observed = abs(ranks[:early].sum() - expected)
    for first in range(0, draws, _AT_ONCE):
        orders = rng.permuted(np.tile(ranks, (min(_AT_ONCE, draws - first), 1)), axis=1)
        as_far += int((np.abs(orders[:, :early].sum(axis=1) - expected) >= observed).sum())
    return as_far / (draws + 1)


def _evenly(X: Floats) -> Floats:
    """Evenly spaced rows that represent a long table: under exchangeability, any choice that ignores the values is valid."""
    return X[:: -(-len(X) // MOST_ROWS)]


def _checked_summary(summary: Mapping[str, Any], columns: int) -> tuple[int, Ints, Floats]:
    try:
        ranks = np.asarray(summary["ranks"], dtype=np.int64)
        values = finite_array("the stored quantiles", summary["values"], (columns, len(ranks)), "(dx, levels)")
        n = int(summary["rows"])
        sound = ranks.ndim == 1 and len(ranks) > 0 and ranks[0] >= 1 and ranks[-1] <= n and bool((np.diff(ranks) > 0).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise CaptureError("the quantiles of the inputs stored in the calibration are damaged; calibrate again.")
    return n, ranks, values
