"""Sorted calibration scores by group: a threshold for any alpha asked later."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capture_cp.checks import Floats, Ints
from capture_cp.conformal.quantile import as_fraction, conformal_rank
from capture_cp.conformal.units import first_of_each


class Thresholds(Protocol):
    """What a calibrated (or deliberately uncalibrated) set of groups answers."""

    @property
    def sizes(self) -> Ints:
        """Calibration points of each group, or episodes where steps belong to some: (J,)."""

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

    @property
    def single(self) -> GroupScores:
        """The scores that are exchangeable with new ones across all groups: every one of them."""
        return self

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Conformal threshold q̂ⱼ of every group (Equation 6 of the paper): (J,), +inf for groups too small."""
        q = np.full(len(self.sizes), np.inf)
        for j, (start, size) in enumerate(zip(self.starts, self.sizes)):
            rank = conformal_rank(int(size), alpha, confidence)
            if rank <= size:
                q[j] = self.scores[start + rank - 1]
        return q


@dataclass(frozen=True)
class EpisodeScores:
    """Calibration scores of whole episodes: in a group, every episode with steps there weighs the same.

    Sorted as in `GroupScores`. The steps of an episode are not independent; the episodes are. `steps` (n,) says how many
    steps the score's episode has in the group, so that one score weighs 1 / steps of an episode. `drawn` (n,) is 1 where
    the step was drawn at random among those of its episode in its group, 2 where also among all of its episode, else 0.
    """

    scores: Floats
    starts: Ints
    steps: Ints
    drawn: npt.NDArray[np.uint8]

    @classmethod
    def from_groups(
        cls, scores: Floats, groups: Ints, n_groups: int, units: Ints, rng: np.random.Generator
    ) -> EpisodeScores:
        """Collect scores (n,) of steps by their groups (n,) and episodes `units` (n,)."""
        pair = np.unique(units, return_inverse=True)[1] * n_groups + groups
        steps = np.unique(pair, return_inverse=True, return_counts=True)
        shuffled = rng.permutation(len(scores))
        drawn = np.zeros(len(scores), dtype=np.uint8)
        # in one random order, so that the step drawn of the whole episode is also the one drawn of its group
        drawn[first_of_each(pair, shuffled)] = 1
        drawn[first_of_each(units, shuffled)] = 2
        order = np.lexsort((scores, groups))
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1)).astype(np.int64)
        return cls(scores[order], starts, steps[2][steps[1]][order].astype(np.int64), drawn[order])

    @property
    def sizes(self) -> Ints:
        return self._kept(1).sizes

    @property
    def single(self) -> GroupScores:
        """One random step an episode: scores that are exchangeable with such steps of new episodes, across all groups."""
        return self._kept(2)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of every group: (J,), +inf for groups with too few episodes.

        It holds for a random step in the group of a new episode. With `confidence` one random step an episode is used, to
        which the exact rank applies.
        """
        if confidence is not None:
            return self._kept(1).at(alpha, confidence)
        q = np.full(len(self.starts) - 1, np.inf)
        for j, episodes in enumerate(self.sizes):
            rows = slice(self.starts[j], self.starts[j + 1])
            needed = (int(episodes) + 1) * (1 - as_fraction(alpha))
            if needed <= episodes:
                q[j] = self.scores[rows][_reaches(self.steps[rows], needed)]
        return q

    def _kept(self, drawn: int) -> GroupScores:
        kept = self.drawn >= drawn
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        return GroupScores(self.scores[kept], starts.astype(np.int64))


def _reaches(steps: Ints, needed: Fraction) -> int:
    """First row up to which weights 1 / steps add up to `needed`, exactly: sums of floats only say where to look."""
    row = int(np.searchsorted(np.cumsum(1.0 / steps), float(needed) * (1 - 1e-9)))
    while _weight(steps[: row + 1]) < needed:
        row += 1
    return row


def _weight(steps: Ints) -> Fraction:
    counts = np.bincount(steps)
    return sum((Fraction(int(counts[size]), int(size)) for size in np.flatnonzero(counts)), Fraction(0))


@dataclass(frozen=True)
class FixedThreshold:
    """One group whose threshold is a constant: no calibration, no guarantee."""

    value: float

    @property
    def sizes(self) -> Ints:
        return np.zeros(1, dtype=np.int64)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        return np.array([self.value])
