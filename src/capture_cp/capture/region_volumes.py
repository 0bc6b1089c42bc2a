"""Volumes of many regions at once without a grid, by stratum, from a few random configurations each.

The volume of a single region is only a rough estimate, but means over many regions are precise, since every estimate is
unbiased and the draws are independent. For one region, and for its thin parts, see `Region.volume`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints, whole_number
from capture_cp.capture.region_draws import Drawable
from capture_cp.conformal.scores import Proposed, Score
from capture_cp.spaces.strata import INFEASIBLE, Strata, checked_index

#: Random configurations per region and threshold, and how many strata are evaluated at once.
DRAWS, BLOCK = 1024, 250_000
#: Random configurations for a single region.
ONE = 4096
_OUTSIDE = INFEASIBLE - 1  # outside a region


def batch_volumes(
    score: Score, prediction: Any, q: Floats, strata: Strata, dims: int, rng: np.random.Generator, draws: int = DRAWS
) -> Floats:
    """Estimated volumes of regions by stratum, infeasible space last: (n, M + 1).

    Infinite where a threshold is: without a grid a whole stratum has no known bound.

    Args:
        score: the score that defines the regions.
        prediction: prediction for n inputs.
        q: thresholds by stratum, infeasible space last, (n, M + 1); negative where a region is empty.
        strata: evaluated at every configuration that is near enough.
        dims: number of coordinates of a configuration.
        rng: draws the configurations.
        draws: configurations per region and threshold; strata with the same thresholds share them.
    """
    draws = whole_number("draws", draws, 1)
    volumes, size = np.where(np.isposinf(q), np.inf, 0.0), max(1, BLOCK // draws)
    for columns in _alike(q):
        limits = q[:, columns[0]]
        finite = np.flatnonzero((limits >= 0) & np.isfinite(limits))
        for first in range(0, len(finite), size):
            rows = finite[first : first + size]
            drawn = [score.propose(prediction[i : i + 1], float(limits[i]), draws, dims, rng) for i in rows]
            volumes[np.ix_(rows, columns)] = _means(drawn, columns, strata)
    return volumes


def part_volumes(region: Drawable, rng: np.random.Generator, draws: int = ONE) -> Floats:
    """Estimated volumes of one region by stratum, infeasible space last: (M + 1,)."""
    q = region.limits(np.append(np.arange(len(region.strata.names)), INFEASIBLE))
    prediction: Any = region.prediction
    found = batch_volumes(region.score, prediction, q[None], region.strata, region.dims, rng, draws)
    return np.asarray(found[0])


def _means(drawn: list[Proposed], columns: Ints, strata: Strata) -> Floats:
    """Mean weights of each region's configurations in the strata of some columns: (regions, columns)."""
    weights, M = np.concatenate([one.weights for one in drawn]), len(strata.names)
    near = np.flatnonzero(weights > 0)
    labels = np.full(len(weights), _OUTSIDE)
    if len(near):
        Y = np.concatenate([one.Y for one in drawn])[near]
        labels[near] = checked_index(strata.index(Y), len(Y), M, "strata.index")
    wanted = np.where(columns < M, columns, INFEASIBLE)
    parts = [np.where(labels == label, weights, 0.0).reshape(len(drawn), -1).mean(axis=1) for label in wanted]
    return np.stack(parts, axis=1)


def _alike(q: Floats) -> Iterator[Ints]:
    """Groups of columns of q (n, M + 1) that are equal in every row."""
    _, which = np.unique(q, axis=1, return_inverse=True)
    for number in range(int(which.max()) + 1):
        yield np.flatnonzero(which.ravel() == number)
