"""Sorted calibration scores by group: a threshold for any alpha asked later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from capture_cp.checks import Floats, Ints
from capture_cp.conformal.quantile import conformal_rank


class Thresholds(Protocol):
    """What a calibrated (or deliberately uncalibrated) set of groups answers."""

    @property
    def sizes(self) -> Ints:
        """Calibration points of each group: (J,)."""

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of each group: (J,)."""


@dataclass(frozen=True)
class GroupScores:
    """Calibration scores, sorted inside each group: group j is `scores[starts[j]:starts[j + 1]]`."""

    scores: Floats
    starts: Ints

    @classmethod
    def from_groups(cls, scores: Floats, groups: Ints, n_groups: int) -> GroupScores:
        """Collect scores (n,) by their groups (n,)."""
        order = np.lexsort((scores, groups))
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1))
        return cls(scores[order], starts.astype(np.int64))

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Conformal threshold q̂ⱼ of every group (Equation 6 of the paper): (J,), +inf for groups too small."""
        q = np.full(len(self.sizes), np.inf)
        for j, (start, size) in enumerate(zip(self.starts, self.sizes)):
            rank = conformal_rank(int(size), alpha, confidence)
            if rank <= size:
                q[j] = self.scores[start + rank - 1]
        return q


@dataclass(frozen=True)
class FixedThreshold:
    """One group whose threshold is a constant: no calibration, no guarantee."""

    value: float

    @property
    def sizes(self) -> Ints:
        return np.zeros(1, dtype=np.int64)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        return np.array([self.value])
