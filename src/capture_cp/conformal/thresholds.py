"""Sorted calibration scores by group, from which thresholds for any alpha are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, Labels
from capture_cp.conformal.hierarchical import (
    confident_quantile,
    episode_quantile,
    episodes_needed,
    weight,
    weighted_quantile,
)
from capture_cp.conformal.partition import counts_of
from capture_cp.conformal.quantile import as_fraction, conformal_quantile, conformal_ranks, size_needed

#: A group's scale is at least this fraction of the largest scale: scores of zero are common in contact.
SMALLEST_SCALE = 1e-3
TINY = float(np.finfo(np.float64).tiny)
#: What an episode weighs 1 in: each group that it visits, or, in files of earlier versions, its whole log.
PER_GROUP, PER_EPISODE = "each group", "whole episode"


class Thresholds(ABC):
    """Base class of a calibrated (or deliberately uncalibrated) set of groups."""

    @property
    @abstractmethod
    def sizes(self) -> Ints:
        """Number of calibration points of each group, or of episodes that visit it: (J,)."""

    @abstractmethod
    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of each group: (J,)."""

    def counted(self, confidence: float | None) -> Ints:
        """Number of points that determines whether the threshold of each group is finite: (J,)."""
        return self.sizes

    def needed(self, alpha: float, confidence: float | None = None) -> int:
        """Number of points that makes any threshold finite."""
        return size_needed(alpha, confidence)


@dataclass(frozen=True)
class SortedScores(Thresholds):
    """Base class of calibration scores, sorted inside each group: group j is `scores[starts[j]:starts[j + 1]]`."""

    scores: Floats
    starts: Ints

    @classmethod
    def collected(cls, scores: Floats, groups: Labels, n_groups: int, *rows: Any) -> Self:
        """Collect scores (n,) by their groups (n,), with the other fields: those that are arrays have a row per score."""
        order = np.lexsort((scores, groups))
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1)).astype(np.int64)
        return cls(scores[order], starts, *(row[order] if isinstance(row, np.ndarray) else row for row in rows))

    @property
    def groups(self) -> Ints:
        """Group of each score: (n,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True)
class GroupScores(SortedScores):
    """Scores of independent transitions, each with the same weight."""

    @classmethod
    def from_groups(cls, scores: Floats, groups: Labels, n_groups: int, overwrite: bool = False) -> GroupScores:
        """Collect scores (n,) by their groups (n,); with `overwrite` in these arrays, which saves memory."""
        from capture_cp.kernels.tree import gather

        if not overwrite:
            scores, groups = scores.copy(), groups.copy()
        starts = np.concatenate([[0], np.cumsum(counts_of(groups, n_groups))])
        gather(scores, groups, starts)
        for a, b in pairwise(starts.tolist()):
            scores[a:b].sort()
        return cls(scores, starts)

    @classmethod
    def merged(cls, parts: Sequence[GroupScores], n_groups: int, rng: np.random.Generator) -> GroupScores:
        """The scores of several calibrations of the same groups."""
        scores, groups = (np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "groups"))
        return cls.from_groups(scores, groups, n_groups, overwrite=True)

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts)

    @property
    def single(self) -> GroupScores:
        """The scores that are exchangeable with new scores across all groups: all of them."""
        return self

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Conformal threshold q̂ⱼ of every group (Equation 6 of the paper): (J,), +inf for groups too small."""
        ranks, q = conformal_ranks(self.sizes, alpha, confidence), np.full(len(self.sizes), np.inf)
        enough = ranks <= self.sizes
        q[enough] = self.scores[(self.starts[:-1] + ranks - 1)[enough]]
        return q


@dataclass(frozen=True)
class EpisodeScores(SortedScores):
    """Calibration scores of whole episodes: in every group, each episode that visits it weighs 1, shared by its rows there.

    Rows of an episode are not independent; the episodes are. `episode` (n,) is the number of the score's episode: 0, 1, ...
    in random order. `drawn` (n,) is 1 where the row was drawn at random among all of its episode, else 0.

    Thresholds hold for a new episode that visits the group, at a row drawn at random among its rows there (`hierarchical`).
    With several groups this says nothing about a random row of the whole episode.

    In files of earlier versions `steps` (n,) is the length of the score's episode, and a score weighs 1 / steps in every
    group. These keep their weighting. With W the weight of a group, its threshold is where the weight of scores up to q
    reaches (W + 1)(1 - alpha). It holds for a random row of a new episode, given its group: with w the fraction of an
    episode's rows in the group and l(q) the fraction that is also above q, let q* be the smallest q at which the sum of
    l(q) - alpha w over all n + 1 episodes is at most 0. By symmetry E[l(q*) - alpha w] <= 0 for each of them. The last one
    adds at most 1 - alpha, so the smallest q at which the first n reach -(1 - alpha) is at least q*. Only `together` needs
    their `episode`, which the oldest files lack.
    """

    drawn: npt.NDArray[np.uint8]
    episode: Ints | None
    steps: Ints | None = None

    @classmethod
    def merged(cls, parts: Sequence[EpisodeScores], n_groups: int, rng: np.random.Generator) -> EpisodeScores:
        """The scores of several calibrations of the same groups, weighted as in the first.

        Their episodes are renumbered at random.
        """
        scores, groups, drawn = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "groups", "drawn")
        )
        known = [part.episode for part in parts if part.episode is not None]
        numbers = None
        if len(known) == len(parts):
            before = np.cumsum([0, *(part._count for part in parts)])
            numbers = rng.permutation(int(before[-1]))[np.concatenate([one + first for one, first in zip(known, before)])]
        steps = None if parts[0].steps is None else np.concatenate([part.lengths for part in parts])
        return cls.collected(scores, groups, n_groups, drawn, numbers, steps)

    @property
    def weighting(self) -> str:
        """What each episode weighs 1 in, as a file names it."""
        return PER_GROUP if self.steps is None else PER_EPISODE

    @property
    def lengths(self) -> Ints:
        """Number of rows of each score's episode: (n,)."""
        return np.bincount(self._numbers)[self._numbers].astype(np.int64) if self.steps is None else self.steps

    @cached_property
    def sizes(self) -> Ints:
        """Number of episodes that visit each group; by the earlier weighting, their weight in whole episodes."""
        groups = list(pairwise(self.starts))
        if self.steps is None:
            return np.array([np.count_nonzero(np.bincount(self._numbers[a:b])) for a, b in groups], dtype=np.int64)
        return np.array([int(weight(self.steps[a:b])) for a, b in groups], dtype=np.int64)

    def counted(self, confidence: float | None) -> Ints:
        return self.sizes if self.steps is None or confidence is None else self.single.sizes

    def needed(self, alpha: float, confidence: float | None = None) -> int:
        if self.steps is not None or confidence is None:
            return super().needed(alpha, confidence)
        return episodes_needed(alpha, _delta(confidence))

    @cached_property
    def single(self) -> GroupScores:
        """One random row per episode: scores exchangeable with random rows of new episodes, across all groups."""
        return self._only(self.drawn > 0)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of every group: (J,), +inf for groups with too few episodes."""
        if self.steps is not None and confidence is not None:
            return self.single.at(alpha, confidence)
        q = np.full(len(self.starts) - 1, np.inf)
        for j, (a, b) in enumerate(pairwise(self.starts)):
            if self.steps is not None:
                q[j] = weighted_quantile(self.scores[a:b], self.steps[a:b], alpha)
            elif confidence is None:
                q[j] = episode_quantile(self.scores[a:b], self._numbers[a:b], alpha)
            else:
                q[j] = confident_quantile(self.scores[a:b], self._numbers[a:b], alpha, _delta(confidence))
        return q

    # -- all steps of an episode at once ------------------------------------------------------------------------------

    def together(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of every group, (J,), for all steps of an episode at once: one number q̂ times a scale per group.

        Half of the episodes set the scales. Each of the others, the compared episodes, has a number, its largest score in
        units of the scales, and q̂ is the conformal quantile of these numbers. Proof: given the scales, the number of a new
        episode is exchangeable with those of the compared episodes, so it is at most q̂ with probability at least
        1 - alpha; then so are all of its scores, each in its unit. `size_needed(alpha, confidence)` compared episodes are
        needed, about twice as many in total. Groups that no compared episode has visited have an infinite threshold.
        """
        number, scale = self._numbers, self.scales(alpha)
        compared = number >= self._half
        with np.errstate(over="ignore"):
            units = (self.scores / scale[self.groups])[compared]
        largest = np.zeros(self.n_together)
        np.maximum.at(largest, number[compared] - self._half, units)
        return thresholds_together(conformal_quantile(largest, alpha, confidence), scale, self.seen_together)

    def scales(self, alpha: float) -> Floats:
        """A large score of each group, (J,), from the episodes that are not compared; see `scales`."""
        spread = self._only(self._numbers < self._half)
        return scales(spread.scores, spread.starts, alpha, max(1.0, len(spread.scores) / max(1, self._half)))

    @property
    def n_together(self) -> int:
        """Number of episodes that are compared for all steps at once."""
        return self._count - self._half

    @property
    def seen_together(self) -> Bools:
        """Whether each group has a step of an episode that is compared: (J,)."""
        return np.isin(np.arange(len(self.starts) - 1), self.groups[self._numbers >= self._half])

    @property
    def _numbers(self) -> Ints:
        if self.episode is None:
            raise CaptureError(
                "this calibration was saved without episode numbers, which regions for all steps of an episode at once "
                "need; calibrate again with fit(X, Y, episodes=...), and save it."
            )
        return self.episode

    @property
    def _count(self) -> int:
        return int(self.drawn.sum(dtype=np.int64))  # one step of each episode is drawn

    @property
    def _half(self) -> int:
        """Number of episodes that set scales; these are the first by number."""
        return self._count // 2

    def _only(self, kept: Bools) -> GroupScores:
        """The scores that are `kept` (n,)."""
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        return GroupScores(self.scores[kept], starts.astype(np.int64))


def _delta(confidence: float) -> float:
    """1 - confidence, exactly the fraction that the user meant."""
    return float(1 - as_fraction(confidence))


@dataclass(frozen=True)
class FixedThreshold(Thresholds):
    """One group whose threshold is a constant: no calibration, no guarantee."""

    value: float

    @property
    def sizes(self) -> Ints:
        return np.zeros(1, dtype=np.int64)

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        return np.array([self.value])


def scales(scores: Floats, starts: Ints, alpha: float, steps: float) -> Floats:
    """A large score of each group, (J,): the quantile at 1 - alpha / steps, with `steps` the mean length of a run.

    Group j is `scores[starts[j]:starts[j + 1]]`, sorted, from runs that are never compared with their scales. With the true
    quantiles a run would exceed its scales alpha times on average, so the one number for all groups would be at most 1;
    steps that fail together make it smaller. Coverage holds for any positive scales: a group with too few scores uses its
    largest score, a group without scores the largest of all.
    """
    sizes, scale = np.diff(starts), np.zeros(len(starts) - 1)
    ranks, some = np.minimum(conformal_ranks(sizes, max(alpha / steps, TINY)), sizes), sizes > 0
    scale[some] = scores[(starts[:-1] + ranks - 1)[some]]
    most = float(scale.max()) or 1.0
    scale[sizes == 0] = most
    return np.maximum(scale, max(SMALLEST_SCALE * most, TINY))


def thresholds_together(q: float, scale: Floats, seen: Bools) -> Floats:
    """Threshold of each group, (J,): q times its scale (J,), +inf for groups not `seen` (J,) in a compared run.

    A group that no compared run has visited may be a stratum that was isolated for that very reason.
    """
    return np.where(seen, exact_product(q, scale), np.inf)


def exact_product(q: float, scale: Floats) -> Floats:
    """The largest t (J,) with t / scale <= q in floating point, so that the run that sets q passes its own thresholds."""
    if not np.isfinite(q):
        return np.full(len(scale), np.inf)
    # positive floats are ordered like their bits, so bisection ends after 64 steps for any q and scale
    low = np.zeros(len(scale), dtype=np.int64)
    high = np.full(len(scale), np.finfo(np.float64).max).view(np.int64)
    with np.errstate(over="ignore"):
        for _ in range(64):
            middle = high - (high - low) // 2
            passes = middle.view(np.float64) / scale <= q
            low, high = np.where(passes, middle, low), np.where(passes, high, middle - 1)
    return low.view(np.float64)
