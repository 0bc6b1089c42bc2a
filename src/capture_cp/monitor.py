"""Watching a calibration at work: are new transitions still exchangeable with those it was made from?"""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, Floats, Ints, feasible, whole_number
from capture_cp.conformal.martingale import JumperMartingale, OnlineRanks
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.predictor import Capture


class Monitor:
    """Tests over time whether new transitions are like those of a calibration, one by one or in batches.

    The scores of new transitions are ranked among all earlier ones of their group; a martingale bets on the ranks. While
    nothing has changed, `alarm(level)` is ever true with probability at most `level`, however long one watches. Of a
    calibration by episodes, show it one random step a new episode: steps of one episode are not independent.

    Args:
        cap: a fitted `Capture`.
        seed: of the particles and of the tie-breaking.
        martingale: how to bet, `JumperMartingale()` unless given.

    Attributes:
        p_values: of all transitions seen so far; uniform while nothing has changed, small where scores have grown.
        groups: the group of each.
    """

    def __init__(self, cap: Capture, seed: int = 0, martingale: JumperMartingale | None = None) -> None:
        cap._check_fitted()
        if not isinstance(cap.calibration_, GroupScores | EpisodeScores):
            raise CaptureError("this method is not calibrated, so there is nothing that new transitions could deviate from.")
        self.cap = cap
        self.martingale = martingale if martingale is not None else JumperMartingale()
        self._rng = np.random.default_rng([whole_number("seed", seed, 0), 0x30])
        self._ranks = OnlineRanks(cap.calibration_.single, self._rng)
        self._p_values: list[float] = []
        self._groups: list[int] = []

    def update(self, X: Any, Y: Any, prediction: Any = None) -> Floats:
        """Show it transitions X (n, dx), Y (n, dc), or one of them, in the order of time: their p-values (n,)."""
        X, Y = self.cap._pairs(np.atleast_2d(X), np.atleast_2d(Y))
        m = self.cap._index(Y)
        feasible("Y", m)
        prediction = self.cap._predict(X, prediction, self._rng, self.cap.n_outputs_)
        scores = self.cap._checked_scores(self.cap._score.score(prediction, Y), len(X))
        return self.update_scores(scores, self.cap.partition_.groups(X, m))

    def update_scores(self, scores: Floats, groups: Ints) -> Floats:
        """As `update`, for scores (n,) and their groups (n,) that are already at hand."""
        found = []
        for score, group in zip(scores.tolist(), groups.tolist()):
            found.append(self._ranks.p_value(group, score))
            self.martingale.update(found[-1])
        self._p_values += found
        self._groups += groups.tolist()
        return np.array(found)

    @property
    def p_values(self) -> Floats:
        return np.array(self._p_values)

    @property
    def groups(self) -> Ints:
        return np.array(self._groups, dtype=np.int64)

    @property
    def capital(self) -> float:
        """What a bet of 1 against exchangeability has become."""
        return self.martingale.capital

    def alarm(self, level: float = 0.01) -> bool:
        """Whether something has changed, at a probability of a false alarm, ever, of at most `level`."""
        return self.martingale.alarm(level)
