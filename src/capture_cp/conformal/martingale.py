"""Betting against exchangeability: conformal p-values of a growing set of scores, and a martingale on them.

As long as the scores of a group, old and new, are exchangeable, the p-values are independent and uniform, and no betting
strategy has a positive expected gain: capital that starts at 1 ever reaches c with probability at most 1 / c (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.base.params import Params
from capture_cp.conformal.thresholds import GroupScores


class OnlineRanks:
    """Sequential smoothed conformal p-values of new scores among all earlier scores of the same group.

    After ranking, a score is added to its group. P-values against a fixed calibration set would not be independent, because
    they all depend on that set, and a sequential test on them would raise false alarms.
    """

    def __init__(self, calibration: GroupScores, rng: np.random.Generator) -> None:
        self._bags = [calibration.scores[a:b] for a, b in pairwise(calibration.starts)]
        self._rng = rng

    def p_value(self, group: int, score: float) -> float:
        """Fraction of scores of the group, this one included, that are larger; ties are broken at random."""
        bag = self._bags[group]
        first, before = (int(np.searchsorted(bag, score, side)) for side in ("left", "right"))
        p = (len(bag) - before + self._rng.random() * (before - first + 1)) / (len(bag) + 1)
        self._bags[group] = np.insert(bag, before, score)
        return p

    def p_values(self, groups: Ints, scores: Floats) -> Floats:
        """Like `p_value`, for scores (n,) and their groups (n,) in sequence: (n,)."""
        from capture_cp.kernels.betting import among_earlier

        random, found = self._rng.random(len(scores)), np.empty(len(scores))
        for group in np.unique(groups).tolist():
            here = np.flatnonzero(groups == group)
            bag, mine = self._bags[group], scores[here]
            distinct, ranks = np.unique(mine, return_inverse=True)
            smaller, equal = among_earlier(ranks, len(distinct))
            first = np.searchsorted(bag, mine, "left") + smaller
            before = np.searchsorted(bag, mine, "right") + smaller + equal
            size = len(bag) + np.arange(len(mine))
            found[here] = (size - before + random[here] * (before - first + 1)) / (size + 1)
            self._bags[group] = np.sort(np.concatenate([bag, mine]))
        return found

    def add(self, groups: Ints, scores: Floats) -> None:
        """Add scores (n,) that were ranked in an earlier run to their groups (n,)."""
        for group in np.unique(groups).tolist():
            self._bags[group] = np.sort(np.concatenate([self._bags[group], scores[groups == group]]))


class JumperMartingale(Params):
    """A conformal test martingale: it bets that p-values are too small or too large, and switches between bets.

    The capital is divided equally among several switching rates, so no rate need be known in advance (the composite jumper
    of Vovk and others). Pass it p-values with `update`; `alarm` tests its capital.

    Args:
        rates: fractions of the capital that are redistributed among the three bets at each step.

    >>> calm = JumperMartingale()
    >>> for p in [0.5, 0.2, 0.9, 0.4] * 50:
    ...     capital = calm.update(p)
    >>> calm.alarm(0.01)
    False
    >>> for p in [0.1, 0.02, 0.3, 0.05] * 10:
    ...     capital = calm.update(p)
    >>> calm.alarm(0.01)
    True
    """

    def __init__(self, rates: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)) -> None:
        self.rates = rates
        self.reset()

    def reset(self) -> None:
        """Start again with a capital of 1."""
        self._rates = np.asarray(self.rates, dtype=np.float64)[:, None]
        if self._rates.size == 0 or not ((self._rates >= 0) & (self._rates <= 1)).all():
            raise CaptureError(f"rates are {self.rates!r}; expected numbers from 0 to 1, such as (0.001, 0.01, 0.1).")
        self._bets: Floats = np.full((len(self._rates), 3), 1 / (3 * len(self._rates)))  # fractions of the capital
        self.log_capital = 0.0
        self.log_largest = 0.0
        self.steps = 0

    def update(self, p: float) -> float:
        """Bet on one p-value; returns the capital afterwards."""
        self.update_all(np.array([p], dtype=np.float64))
        return self.capital

    def update_all(self, p_values: Floats, level: float = 0.01) -> int | None:
        """Bet on p-values (n,) in sequence; returns the index at which `alarm(level)` became true, None if it did not."""
        from capture_cp.kernels.betting import jump

        known, limit = self.alarm(level), -math.log(level)
        now = self._bets, self._rates[:, 0], p_values, self.log_capital, self.log_largest, limit
        self.log_capital, self.log_largest, first = jump(*now)
        self.steps += len(p_values)
        return None if known or first < 0 else int(first)

    def facts(self) -> dict[str, Any]:
        """The exact state as JSON-compatible data."""
        stands = {name: getattr(self, name) for name in ("log_capital", "log_largest", "steps")}
        return {"rates": list(self.rates), "bets": self._bets.tolist(), **stands}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """The martingale whose state is `facts`, ready to continue."""
        found = cls(tuple(map(float, facts["rates"])))
        bets = finite_array("bets", facts["bets"], (len(found.rates), 3), "(rates, 3)")
        now, largest = float(facts["log_capital"]), float(facts["log_largest"])
        steps = whole_number("steps", facts["steps"], 0)
        if not (bets.min() >= 0 and abs(bets.sum() - 1) < 1e-6 and -math.inf < now <= largest < math.inf and largest >= 0):
            raise CaptureError("the capital does not add up.")
        found._bets, found.log_capital, found.log_largest, found.steps = bets, now, largest, steps
        return found

    @property
    def capital(self) -> float:
        return math.exp(min(self.log_capital, 700.0))

    def alarm(self, level: float = 0.01) -> bool:
        """Whether the capital ever reached 1 / level: with exchangeable scores that happens with probability <= level."""
        return self.log_largest >= -math.log(level)
