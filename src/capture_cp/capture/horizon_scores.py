"""Groups and thresholds of a horizon, from the scores of whole rollouts: for each step separately, or for all at once.

Every step is grouped separately, so that no group ever contains two scores of one rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.saved_arrays import Arrays, all_between, require
from capture_cp.conformal.episodes import drawn_rows
from capture_cp.conformal.groups import Examples, Groups, met
from capture_cp.conformal.merging import without_borrowers
from capture_cp.conformal.partition import Partition, stacked
from capture_cp.conformal.thresholds import (
    PER_EPISODE,
    PER_GROUP,
    EpisodeScores,
    GroupScores,
    Thresholds,
    scales,
    thresholds_together,
)

#: Roles of a rollout: scales, scales and thresholds of single steps, thresholds of single steps and of all at once.
SCALES, SCALES_AND_STEPS, THRESHOLDS = range(3)
SCALE_SHARE = 0.5  # fraction of the rollouts, if the groups were made without any


@dataclass(frozen=True)
class HorizonScores:
    """Scores of n rollouts at S steps, and the role of each rollout.

    Attributes:
        scores: (n, S).
        groups: group of each score, (n, S), of J, as the partition was grown (`Partition.grown`): which strata are isolated
            depends on the rollouts that set thresholds, and scales must not.
        episodes: episode of each rollout, (n,).
        role: SCALES if the rollout made the groups, so that it may only provide scales; THRESHOLDS if it did not;
            SCALES_AND_STEPS if it did not but is needed for scales, (n,).
        n_groups: J.
        weighting: what an episode with several rollouts weighs 1 in, see `EpisodeScores`.
    """

    scores: Floats
    groups: Ints
    episodes: Ints
    role: Ints
    n_groups: int
    weighting: str = PER_GROUP

    @cached_property
    def _own(self) -> Thresholds:
        """Scores of each group, from rollouts that were not used to make the groups."""
        rows = self.role != SCALES
        return self._by_episode(self.scores[rows], self.groups[rows], self.n_groups, self.episodes[rows])

    @cached_property
    def _spread(self) -> GroupScores:
        """Scores of each group, from rollouts that are never compared with their scales."""
        rows = self.role != THRESHOLDS
        return GroupScores.from_groups(self.scores[rows].ravel(), self.groups[rows].ravel(), self.n_groups)

    @property
    def sizes(self) -> Ints:
        """Number of calibration rollouts (or episodes) of each group: (J,)."""
        return self._own.sizes

    def counted(self, confidence: float | None) -> Ints:
        """Number of them that determines whether the threshold of each group is finite: (J,)."""
        return self._own.counted(confidence)

    def needed(self, alpha: float, confidence: float | None = None) -> int:
        """Number of them that makes any threshold finite."""
        return self._own.needed(alpha, confidence)

    @property
    def seen_together(self) -> Bools:
        """Whether each group has a rollout that sets thresholds for all steps at once: (J,)."""
        return np.isin(np.arange(self.n_groups), self.groups[self.role == THRESHOLDS])

    @property
    def n_together(self) -> int:
        """Number of calibration rollouts (or episodes) for all steps at once."""
        return len(np.unique(self.episodes[self.role == THRESHOLDS]))

    def at(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of each group, valid for every step separately: (J,), +inf for groups that are too small."""
        return self._own.at(alpha, confidence)

    def together(self, alpha: float, confidence: float | None = None) -> Floats:
        """Threshold of each group, (J,), for all steps at once: one number q̂ times the scale of the group.

        q̂ is the conformal quantile of the rollouts' largest scores, each score in units of its group's scale. A group that
        no such rollout has visited is infinite: it may be a stratum that was isolated for that very reason.
        """
        rows, scale = self.role == THRESHOLDS, self.scales(alpha)
        largest = (self.scores[rows] / scale[self.groups[rows]]).max(axis=1)
        everywhere = np.zeros((len(largest), 1), dtype=np.int64)
        q = self._by_episode(largest[:, None], everywhere, 1, self.episodes[rows]).at(alpha, confidence)
        return thresholds_together(float(q[0]), scale, self.seen_together)

    def scales(self, alpha: float) -> Floats:
        """A large score of each group, (J,), from rollouts that set no threshold; see `thresholds.scales`.

        With the true quantiles at 1 - alpha / S, q̂ would be at most 1 for S steps, by Bonferroni.
        """
        return scales(self._spread.scores, self._spread.starts, alpha, self.scores.shape[1])

    def _by_episode(self, scores: Floats, groups: Ints, n_groups: int, episodes: Ints) -> Thresholds:
        """Scores (n, S) by group (n, S): unweighted if each episode (n,) has one rollout, else weighted."""
        _, number, rollouts = np.unique(episodes, return_inverse=True, return_counts=True)
        if rollouts.max(initial=0) <= 1:
            return GroupScores.from_groups(scores.ravel(), groups.ravel(), n_groups)
        # any random numbers are valid that do not depend on the scores; no group contains two steps of one rollout
        drawn, every = drawn_rows(episodes, stream(0, "HorizonScores")), scores.shape[1]
        steps = np.repeat(rollouts[number], every) if self.weighting == PER_EPISODE else None
        facts = np.repeat(drawn, every), np.repeat(number, every), steps
        return EpisodeScores.collected(scores.ravel(), groups.ravel(), n_groups, *facts)


def split_by_step(
    groups: Groups,
    X: Floats,
    m: Ints,
    R: Floats,
    episodes: Ints,
    n_strata: int,
    features: Floats | None,
    random: Callable[[], np.random.Generator],
) -> tuple[Partition, Bools]:
    """One partition for all steps, and the rollouts (n,) that were *not* used to make it.

    Inputs X (n, S, dx), strata m (n, S) and scores R (n, S) of S steps. The root of step s (from 0) and stratum m is
    `roots[s * M + m]`. `random` gives every step the same random numbers, so that the same rollouts are held out.
    """
    parts, held_out = [], np.ones(len(R), dtype=bool)
    for s in range(R.shape[1]):
        examples = Examples(np.ascontiguousarray(X[:, s]), m[:, s], R[:, s], n_strata, features, episodes)
        part, left_out = groups.split(examples, random())
        parts.append(without_borrowers(part, met(m[:, s], n_strata), met(m[left_out, s], n_strata)))
        held_out &= left_out
    return stacked(parts), held_out


def groups_of_steps(partition: Partition, X: Floats, m: Ints, n_strata: int) -> Ints:
    """Group of every input X (n, S, dx) in its stratum m (n, S): (n, S)."""
    parts = [partition.at_step(s, n_strata) for s in range(m.shape[1])]
    return np.stack([part.groups(np.ascontiguousarray(X[:, s]), m[:, s]) for s, part in enumerate(parts)], axis=1)


def roles(held_out: Bools, episodes: Ints, rng: np.random.Generator) -> Ints:
    """Role of each rollout, given which rollouts (n,) are held out from making the groups."""
    role = np.where(held_out, THRESHOLDS, SCALES)
    if held_out.all():  # the groups needed no rollouts, but the scales do; episodes stay whole
        different = np.unique(episodes)
        taken = rng.permutation(different)[: int(SCALE_SHARE * len(different))]
        role[np.isin(episodes, taken)] = SCALES_AND_STEPS
    return role


def checked_horizon_scores(arrays: Arrays, n_steps: int, n_groups: int, weighting: str) -> HorizonScores:
    """Scores of rollouts, checked to have existing groups and roles."""
    scores = np.asarray(arrays["scores"], dtype=np.float64)
    groups, episodes, role = (np.asarray(arrays[name], dtype=np.int64) for name in ("groups", "units", "role"))
    n = len(scores)
    sound = (
        scores.shape == groups.shape == (n, n_steps)
        and episodes.shape == role.shape == (n,)
        and n > 0
        and bool(np.isfinite(scores).all())
        and all_between(groups, 0, n_groups)
        and all_between(role, SCALES, THRESHOLDS + 1)
    )
    require(sound)
    return HorizonScores(scores, groups, episodes, role, n_groups, weighting)
