"""Pooling of strata that are too rare for their own thresholds, determined from the rows that make the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.conformal.partition import Partition

if TYPE_CHECKING:
    from capture_cp.conformal.groups import Examples

LARGE = 0.9  # quantile of a stratum's scores by which strata are compared


class Pools(NamedTuple):
    """Which of M strata share their groups.

    Attributes:
        first: the first stratum of each stratum's pool, the stratum itself if it has none: (M,).
        rare: which strata were too rare to stand alone: (M,).
    """

    first: Ints
    rare: Bools


def pools(growing: Examples, others: int, fewest: int) -> Pools:
    """Pool the strata that expect fewer than `fewest` scores among `others` rows, or episodes, that are held out.

    All rare strata, including those that never occur, share one pool. A pool that still expects too few joins a stratum that
    is not rare: the one most similar to it by the features of the strata; without features, the one with the largest scores,
    so that thresholds err on the large side.

    The pools depend only on the rows that make the groups. Given these rows the pools are fixed, and held-out scores of a
    pool are exchangeable with a new score in it: coverage holds for the union of its strata.
    """
    number, seen = np.arange(growing.n_strata), _counted(growing, growing.m, growing.n_strata)
    # the number of held-out rows is known before any row is examined; their weight under a shift is not
    rows = len(growing.R) if growing.episodes is None else len(np.unique(growing.episodes))
    share = others / max(rows, 1)
    rare = seen * share < fewest - 1e-9
    members = rare.copy()
    if rare.any() and not rare.all():
        in_pool = _counted(growing, rare[growing.m].astype(np.int64), 2)[1]
        if in_pool * share < fewest - 1e-9:
            members[_host(growing, seen, rare)] = True
    return Pools(np.where(members, int(np.argmax(members)), number), np.asarray(rare))


def without_borrowers(partition: Partition, met: Bools, scored: Bools) -> Partition:
    """The partition in which each stratum without a calibration score has its own group, whose threshold is infinite.

    `met` (M,) marks strata with any row, `scored` (M,) strata with a row that sets thresholds. A rare stratum that was
    merged shares groups on purpose, and is left unchanged if any row is in it. Regions can only grow by this, so the
    guarantee of the group that the stratum would have shared remains valid.
    """
    if not partition.by_stratum:
        return partition
    unseen = np.flatnonzero(~scored)
    if partition.rare is not None:
        unseen = unseen[~(partition.rare[unseen] & met[unseen])]
    return partition.isolate(unseen)


def _counted(growing: Examples, labels: Ints, n_labels: int) -> Floats:
    """What sets thresholds of each label (n,): rows, their weight under a shift, or episodes that visit it, (n_labels,)."""
    if growing.episodes is None:
        return np.bincount(labels, growing.weights(), n_labels).astype(np.float64)
    number = np.unique(growing.episodes, return_inverse=True)[1]
    visits = np.unique(number * n_labels + labels) % n_labels
    return np.bincount(visits, minlength=n_labels).astype(np.float64)


def _host(growing: Examples, seen: Floats, rare: Bools) -> int:
    """The stratum that a small pool joins, among those that are not rare."""
    candidates = np.flatnonzero(~rare)
    large = np.array([np.quantile(growing.R[growing.m == c], LARGE) for c in candidates])
    if growing.stratum_features is None:
        return int(candidates[np.argmax(large)])
    own, others = growing.stratum_features[rare], growing.stratum_features[candidates]
    apart = np.linalg.norm(others[:, None] - own[None], axis=2)  # (candidates, rare strata)
    count = seen[rare] if seen[rare].any() else np.ones(len(own))
    # among equally near strata, the one with larger scores
    return int(candidates[np.lexsort((-large, apart @ count / count.sum()))[0]])
