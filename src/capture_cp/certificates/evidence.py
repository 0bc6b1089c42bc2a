"""Evidence about a failure rate from counted failures: exact p-values and bounds, and bets that are valid at any time.

The p-value and the bound need a number of episodes that was fixed in advance. The bets do not: capital that starts at 1 and
is staked against a rate of at least delta ever reaches 1 / beta with probability at most beta (Ville's inequality), so
you may stop playing episodes as soon as it does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from capture_cp.base.checks import CaptureError, Floats, Ints, probability, whole_number

#: Failure rates below delta, as fractions of it, that bets are placed on; the capital is divided equally.
BELOW = np.array([0.0, 0.1, 0.25, 0.5, 0.75])
#: Failure rates above delta, as multiples of it, that bets are placed on where they are below 1.
ABOVE = np.array([1.25, 1.5, 2.0, 3.0, 5.0, 10.0])
_MOST = 1e250  # cap on a stake, far above every alarm level


def checked_counts(failures: Any, episodes: Any) -> tuple[int, int]:
    """The numbers of failures and episodes, checked to be consistent."""
    failed, played = whole_number("failures", failures, 0), whole_number("episodes", episodes, 0)
    if failed > played:
        raise CaptureError(f"there are {failed} failures in {played} episodes; expected at most one per episode.")
    return failed, played


def rate_p_value(failures: int, episodes: int, delta: float) -> float:
    """Upper bound on the probability of so few failures in independent episodes that each fail with probability >= delta.

    The exact binomial tail P(Bin(n, delta) <= failures): with probability at most beta it is at most beta.

    >>> round(rate_p_value(0, 148, 0.02), 4), round(rate_p_value(0, 149, 0.02), 4)
    (0.0503, 0.0493)
    """
    failed, played = checked_counts(failures, episodes)
    return float(scipy.special.bdtr(failed, played, probability("delta", delta))) if failed < played else 1.0


def rate_bound(failures: int, episodes: int, beta: float) -> float:
    """The failure rate that is exceeded with probability at most beta over the episodes (Clopper and Pearson, one-sided).

    It is the least delta whose `rate_p_value` is at most beta.

    >>> round(rate_bound(0, 1000, 0.05), 5)
    0.00299
    """
    failed, played = checked_counts(failures, episodes)
    level = probability("beta", beta)
    return 1.0 if failed == played else float(scipy.special.betaincinv(failed + 1, played - failed, 1.0 - level))


def log_capital(failures: Ints, episodes: Ints, delta: float) -> Floats:
    """Logarithm of the capital staked against a rate of at least delta, after the given failures and episodes: (n,).

    A bet on the rate r < delta multiplies its stake by (1 - r) / (1 - delta) after a success and by r / delta after a
    failure. If the next episode fails with probability p, the expected factor is 1 - (p - delta)(delta - r) / (delta (1 -
    delta)), which is at most 1 where p >= delta.
    """
    rate = probability("delta", delta)
    s, n = (np.asarray(counts, dtype=np.float64)[:, None] for counts in (failures, episodes))
    after_failure = scipy.special.xlogy(s, BELOW)  # 0 log 0 = 0: the stake on a rate of 0 is lost with the first failure
    grown = after_failure + (n - s) * (np.log1p(-BELOW * rate) - math.log1p(-rate))
    return np.asarray(scipy.special.logsumexp(grown, axis=1) - math.log(len(BELOW)))


def betting_p_value(failed: Any, delta: float) -> float:
    """Like `rate_p_value`, for episodes (n,) in order that may stop at any time: 1 / the largest capital."""
    lost = np.cumsum(np.asarray(failed, dtype=np.int64))
    if not len(lost):
        return 1.0
    return math.exp(-max(0.0, float(log_capital(lost, np.arange(1, len(lost) + 1), delta).max())))


class RateWatch:
    """Bets, episode by episode and without end, that failures have become more frequent than delta.

    As long as every episode fails with probability at most delta given all earlier ones, the capital ever reaches 1 / level
    with probability at most `level`. The change may come at any time: the stake 1 / (n (n + 1)) is placed on a change just
    before the n-th episode, and the remaining capital waits.

    >>> watch = RateWatch(0.05)
    >>> for failed in [False] * 100 + [True, False] * 10:
    ...     watch.update(failed)
    >>> watch.alarm(0.01)
    True
    """

    def __init__(self, delta: float) -> None:
        self.delta = probability("delta", delta)
        rates = np.unique(np.append(ABOVE[self.delta * ABOVE < 1.0] * self.delta, (1.0 + self.delta) / 2))
        self._failure, self._success = (rates / self.delta).tolist(), ((1.0 - rates) / (1.0 - self.delta)).tolist()
        self._stakes = [0.0] * len(rates)  # current value of the stake on each rate
        self.episodes = self.failures = 0
        self.log_largest = 0.0

    def update(self, failed: bool) -> None:
        """Add the next episode."""
        self.episodes += 1
        self.failures += bool(failed)
        now = 1.0 / (self.episodes * (self.episodes + 1))
        factors = self._failure if failed else self._success
        self._stakes = [min((stake + now) * factor, _MOST) for stake, factor in zip(self._stakes, factors)]
        self.log_largest = max(self.log_largest, self.log_capital)

    @property
    def log_capital(self) -> float:
        """Logarithm of all stakes together, including those not placed yet."""
        return math.log(sum(self._stakes) / len(self._stakes) + 1.0 / (self.episodes + 1))

    def alarm(self, level: float = 0.01) -> bool:
        """Whether the capital ever reached 1 / level."""
        return self.log_largest >= -math.log(probability("level", level))

    def facts(self) -> dict[str, Any]:
        """The exact state as JSON values."""
        counts = {"delta": self.delta, "episodes": self.episodes, "failures": self.failures}
        return counts | {"stakes": list(self._stakes), "log_largest": self.log_largest}

    @classmethod
    def from_facts(cls, facts: Any) -> RateWatch:
        """Restore a watch from its `facts`."""
        try:
            found = cls(facts["delta"])
            stakes = [float(stake) for stake in facts["stakes"]]
            largest = float(facts["log_largest"])
            found.failures, found.episodes = checked_counts(facts["failures"], facts["episodes"])
        except (KeyError, TypeError, ValueError):
            raise CaptureError("a saved watch has an unexpected structure; begin a new one.") from None
        sound = len(stakes) == len(found._stakes) and all(0.0 <= stake <= _MOST for stake in stakes)
        if not sound or not 0.0 <= largest < math.inf or any(stakes) != (found.episodes > 0):
            raise CaptureError("a saved watch is inconsistent: its capital does not add up; begin a new one.")
        found._stakes, found.log_largest = stakes, largest
        return found
