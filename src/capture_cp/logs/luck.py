"""Is coverage further from its target than the luck of the batch and of the calibration set together explain?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.conformal.drift import excess_p_value, holm, shortfall_p_value
from capture_cp.conformal.episodes import episode_numbers, one_of_each
from capture_cp.conformal.quantile import conformal_rank
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.data.transitions import Transitions

#: Reports of sound logs in which anything is marked.
MARKED = 0.05


@dataclass(frozen=True)
class Outcomes:
    """Independent outcomes that a calibration was not made from.

    Attributes:
        alpha: allowed failure rate.
        group: of each outcome, (n,).
        held: whether each was in its region, (n,).
        passed: likewise, by a threshold whose coverage is known to be a Beta draw: the same, but for episodes. (n,)
        sizes: calibration scores behind these thresholds, (J,).
        ranks: of the thresholds among them, (J,).
    """

    alpha: float
    group: Ints
    held: Bools
    passed: Bools
    sizes: Ints
    ranks: Ints

    def shortfall(self, here: Bools) -> float:
        """How likely so few are to hold, of those `here` (n,), by the luck of the batch, and by that of both."""
        held, n = int(self.held[here].sum()), int(here.sum())
        by_batch = float(stats.binom.cdf(held, n, 1 - self.alpha))
        return max(by_batch, shortfall_p_value(int(self.passed[here].sum()), *self._groups(here)))

    def excess(self, here: Bools) -> float:
        """Likewise so many."""
        held, n = int(self.held[here].sum()), int(here.sum())
        by_batch = float(stats.binom.sf(held - 1, n, 1 - self.alpha))
        return max(by_batch, excess_p_value(int(self.passed[here].sum()), *self._groups(here)))

    def _groups(self, here: Bools) -> tuple[Ints, Ints, Ints]:
        """Outcomes `here`, calibration scores and rank, of each group that has such outcomes."""
        trials = np.bincount(self.group[here], minlength=len(self.sizes))
        some = trials > 0
        return trials[some], self.sizes[some], self.ranks[some]


def outcomes_of(cap: Capture, R: Floats, X: Floats, m: Ints, alpha: float, confidence: float | None) -> Outcomes:
    """Outcomes with scores R (n,) of inputs X (n, dx) that landed in strata m (n,)."""
    assert isinstance(cap.calibration_, GroupScores | EpisodeScores)
    single = cap.calibration_.single
    ranks = np.array([conformal_rank(int(n), alpha, confidence) for n in single.sizes])
    group = cap.partition_.grown.groups(X, m)
    held = cap.threshold_table(alpha, confidence).thresholds[cap.partition_.groups(X, m)] >= R
    return Outcomes(alpha, group, held, single.at(alpha, confidence)[group] >= R, single.sizes, ranks)


def marks(cap: Capture, log: Transitions, alpha: float, confidence: float | None, seed: int) -> dict[str, str]:
    """Rows of a coverage table, strata and "all", that luck does not explain: "under" or "over".

    `log` holds transitions that the calibration was not made from; of episodes, one random step each is looked at. If it is
    like the log of the calibration, anything is marked with probability at most `MARKED`: two-sided tests, Holm's
    correction.
    """
    rows = np.arange(len(log)) if log.episode is None else _one_step(log, seed)
    X, Y = log.X[rows], log.Y[rows]
    m = np.asarray(cap.strata.index(Y))
    outcomes = outcomes_of(cap, cap.score_.score(cap.predict(X, seed), Y), X, m, alpha, confidence)
    where = {"all": np.ones(len(rows), dtype=bool)}
    if len(cap.strata.names) > 1:
        where |= {name: m == i for i, name in enumerate(cap.strata.names)}
    sides = {name: (outcomes.shortfall(here), outcomes.excess(here)) for name, here in where.items() if here.any()}
    corrected = holm([min(1.0, 2 * min(both)) for both in sides.values()])
    found = zip(sides.items(), corrected)
    return {name: "under" if low < high else "over" for (name, (low, high)), p in found if p <= MARKED}


def _one_step(log: Transitions, seed: int) -> Ints:
    return one_of_each(episode_numbers(log.episode, len(log)), stream(seed, "marks"))
