"""Thresholds for all steps at once: one scale per group, times one number for all groups."""

from __future__ import annotations

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.conformal.quantile import conformal_ranks

#: A group's scale is at least this fraction of the largest scale: scores of zero are common in contact.
SMALLEST_SCALE = 1e-3
TINY = float(np.finfo(np.float64).tiny)


def numbered_at_random(episodes: Ints, rng: np.random.Generator) -> Ints:
    """The episodes (n,) of n rows as numbers 0, 1, ... in random order, independent of the scores: (n,)."""
    _, number = np.unique(episodes, return_inverse=True)
    return rng.permutation(int(number.max(initial=-1)) + 1)[number].astype(np.int64)


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
