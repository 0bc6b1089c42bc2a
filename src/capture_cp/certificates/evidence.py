"""Evidence about a failure rate from counted failures: exact p-values and bounds, and bets that may be looked at any time.

The p-value and the bound take a number of episodes that was fixed beforehand. The bets do not: capital that starts at 1 and
is staked against a rate of at least delta reaches 1 / beta with probability at most beta, ever (Ville), so that whoever
plays the episodes may stop as soon as it has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from capture_cp.base.checks import CaptureError, Floats, Ints, probability, whole_number

#: Failure rates, as shares of delta, that bets below it are placed on; the capital is divided equally.
BELOW = np.array([0.0, 0.1, 0.25, 0.5, 0.75])
#: As multiples of delta, that bets above it are placed on, as far as they are below 1.
ABOVE = np.array([1.25, 1.5, 2.0, 3.0, 5.0, 10.0])
_MOST = 1e250  # no stake grows further, long after every alarm


def checked_counts(failures: Any, episodes: Any) -> tuple[int, int]:
    """Numbers of failures and episodes that can belong together."""
    failed, played = whole_number("failures", failures, 0), whole_number("episodes", episodes, 0)
    if failed > played:
        raise CaptureError(f"there are {failed} failures in {played} episodes; expected at most one per episode.")
    return failed, played


def rate_p_value(failures: int, episodes: int, delta: float) -> float:
    """How likely so few failures in independent episodes are, at most, if each fails with probability at least delta.

    The exact binomial tail P(Bin(n, delta) <= failures): with probability at most beta it is at most beta.

    >>> round(rate_p_value(0, 148, 0.02), 4), round(rate_p_value(0, 149, 0.02), 4)
    (0.0503, 0.0493)
    """
    failed, played = checked_counts(failures, episodes)
    return float(special.bdtr(failed, played, probability("delta", delta))) if failed < played else 1.0


def rate_bound(failures: int, episodes: int, beta: float) -> float:
    """The failure rate that is exceeded with probability at most beta over the episodes (Clopper and Pearson, one-sided).

    It is the least delta whose `rate_p_value` is at most beta.

    >>> round(rate_bound(0, 1000, 0.05), 5)
    0.00299
    """
    failed, played = checked_counts(failures, episodes)
    level = probability("beta", beta)
    return 1.0 if failed == played else float(special.betaincinv(failed + 1, played - failed, 1.0 - level))


def log_capital(failures: Ints, episodes: Ints, delta: float) -> Floats:
    """Logarithm of the capital staked against a rate of at least delta, after so many failures in so many episodes: (n,).

    A bet on the rate r < delta multiplies its stake by (1 - r) / (1 - delta) after a success and by r / delta after a
    failure. If the next episode fails with probability p, that is a factor of 1 - (p - delta)(delta - r) / (delta (1 -
    delta)) in the mean, at most 1 where p >= delta.
    """
    rate = probability("delta", delta)
    s, n = (np.asarray(counts, dtype=np.float64)[:, None] for counts in (failures, episodes))
    after_failure = special.xlogy(s, BELOW)  # 0 log 0 = 0: the stake on a rate of 0 is lost with the first failure
    grown = after_failure + (n - s) * (np.log1p(-BELOW * rate) - math.log1p(-rate))
    return np.asarray(special.logsumexp(grown, axis=1) - math.log(len(BELOW)))


def betting_p_value(failed: Any, delta: float) -> float:
    """As `rate_p_value`, for episodes (n,) in their order that were stopped at any time: 1 / the largest capital."""
    lost = np.cumsum(np.asarray(failed, dtype=np.int64))
    if not len(lost):
        return 1.0
    return math.exp(-max(0.0, float(log_capital(lost, np.arange(1, len(lost) + 1), delta).max())))


class RateWatch:
    """Bets that failures have become more frequent than delta, episode by episode, and for ever.

    As long as every episode fails with probability at most delta, whatever came before, the capital reaches 1 / level with
    probability at most `level`, ever. A change may come at any time: the stake 1 / (n (n + 1)) is placed on a change just
    before the n-th episode, and the rest waits.

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
        self._stakes = [0.0] * len(rates)  # what was staked on each rate, and has grown
        self.episodes = self.failures = 0
        self.log_largest = 0.0

    def update(self, failed: bool) -> None:
        """Show it the next episode."""
        self.episodes += 1
        self.failures += bool(failed)
        now = 1.0 / (self.episodes * (self.episodes + 1))
        factors = self._failure if failed else self._success
        self._stakes = [min((stake + now) * factor, _MOST) for stake, factor in zip(self._stakes, factors)]
        self.log_largest = max(self.log_largest, self.log_capital)

    @property
    def log_capital(self) -> float:
        """Of all stakes together, those that wait included."""
        return math.log(sum(self._stakes) / len(self._stakes) + 1.0 / (self.episodes + 1))

    def alarm(self, level: float = 0.01) -> bool:
        """Whether the capital ever reached 1 / level."""
        return self.log_largest >= -math.log(probability("level", level))

    def facts(self) -> dict[str, Any]:
        """Where it stands, as JSON can hold it, to the last bit."""
        counts = {"delta": self.delta, "episodes": self.episodes, "failures": self.failures}
        return counts | {"stakes": list(self._stakes), "log_largest": self.log_largest}

    @classmethod
    def from_facts(cls, facts: Any) -> RateWatch:
        """The watch that `facts` came from, ready to go on."""
        try:
            found = cls(facts["delta"])
            stakes = [float(stake) for stake in facts["stakes"]]
            largest = float(facts["log_largest"])
            found.failures, found.episodes = checked_counts(facts["failures"], facts["episodes"])
        except (KeyError, TypeError, ValueError):
            raise CaptureError("a watch has another shape than ours writes it; begin a new one.") from None
        sound = len(stakes) == len(found._stakes) and all(0.0 <= stake <= _MOST for stake in stakes)
        if not sound or not 0.0 <= largest < math.inf or any(stakes) != (found.episodes > 0):
            raise CaptureError("the capital of a watch does not add up; begin a new one.")
        found._stakes, found.log_largest = stakes, largest
        return found
