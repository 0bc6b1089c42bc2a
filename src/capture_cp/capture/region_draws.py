"""Regions without a grid: volumes, uniform samples, distances and extents from random configurations.

A stratum's part of a region is drawn with the stratum's own threshold. Configurations have weights whose mean over a set is
the set's volume in the region (`Score.propose`). Volumes are therefore means, with a standard error, and a sample keeps
each configuration with a probability proportional to its weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.conformal.scores import NearestParticles, Proposed, Score
from capture_cp.spaces.metrics import Euclidean, Metric, wrap_angle
from capture_cp.spaces.strata import INFEASIBLE, Strata, checked_index

if TYPE_CHECKING:
    from capture_cp.capture.region import Region

DRAWS = 4096  # random configurations per stratum
#: Random configurations that determine whether a part can be sampled, or how much of a sample is in each part.
TRIAL, SHARES = 16 * DRAWS, 4 * DRAWS
#: Random configurations tried per requested sample: from all parts together, and from a single one.
TOGETHER, ALONE = 50, 20_000
#: Random configurations per region where many are measured at once, and how many strata are evaluated at once.
FEW, BLOCK = 1024, 250_000
_OUTSIDE = INFEASIBLE - 1  # outside a region
#: How often a path is halved, members that climb towards the extent of a region, and how far, in standard deviations of it.
HALVINGS, CLIMBERS, FAR = 20, 64, 6.0
#: Pairs of configurations that are measured at once.
PAIRS = 1_000_000


class Volume(float):
    """A volume with the standard error of its estimate, which is 0 where it was counted on a grid.

    Where no draw was inside, the volume is 0 and its standard error is what a single draw would have contributed at most.
    """

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> Volume:
        found = super().__new__(cls, value)
        found.standard_error = standard_error
        return found


def number_of(strata: Strata, name: str) -> int:
    """Number of the stratum called `name`."""
    return strata.names.index(known_name("stratum", name, strata.names))


# -- one region -----------------------------------------------------------------------------------------------------------


def estimated_volume(region: Region, stratum: str | None, draws: int, rng: np.random.Generator) -> Volume:
    """Volume of a region, or of its part in one stratum, from `draws` random configurations per stratum."""
    n = whole_number("draws", draws, 8)
    parts = [_measured(region, part, n, rng) for part in _parts(region, stratum)]
    return Volume(float(sum(parts)), float(np.hypot.reduce([part.standard_error for part in parts])))


def acceptance(region: Region, stratum: str | None, draws: int, rng: np.random.Generator) -> float:
    """Fraction of random configurations that a uniform sample keeps."""
    n, shares = whole_number("draws", draws, 2), []
    for part in _parts(region, stratum):
        proposed = _propose(region, part, n, rng)
        shares.append(float(_weights(region, part, proposed).mean() / proposed.largest) if proposed.largest > 0 else 0.0)
    return float(np.mean(shares)) if shares else 0.0


def uniform_sample(region: Region, n: int, stratum: str | None, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc), uniform over a region or over its part in one stratum.

    Exactly uniform if at least one in `TOGETHER` random configurations is kept. Otherwise each stratum gets a number of
    samples proportional to its volume, estimated from `SHARES` draws.
    """
    parts = _parts(region, stratum)
    found = _uniform(region, parts, n, TOGETHER if len(parts) > 1 else ALONE, rng)
    if len(found) < n and len(parts) > 1:
        volumes = np.array([_measured(region, part, SHARES, rng) for part in parts])
        counts = rng.multinomial(n, volumes / volumes.sum()) if volumes.any() else np.zeros(len(parts), dtype=np.int64)
        each = [_uniform(region, [part], int(count), ALONE, rng) for part, count in zip(parts, counts)]
        found = rng.permutation(np.concatenate(each))
    if len(found) < n:
        raise CaptureError(
            f"the region cannot be sampled: only {len(found)} of the configurations drawn near the particles are in it. It "
            "is empty, or too small a part of the space near the particles."
        )
    return found


def _uniform(region: Region, parts: Sequence[int], n: int, patience: int, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc), uniform over some parts together; fewer if `patience` draws for each do not suffice.

    Each part is drawn from in proportion to its largest possible weight, so no volume needs to be known.
    """
    found = np.empty((0, region.dims))
    largest = np.array([_propose(region, part, 1, rng).largest for part in parts])
    tried, batch = 0, min(max(DRAWS, n), TRIAL)
    while len(found) < n and largest.any() and (tried < TRIAL or (len(found) and tried < patience * n)):
        counts = rng.multinomial(batch, largest / largest.sum())
        kept = [_kept(region, part, int(count), rng) for part, count in zip(parts, counts) if count]
        found = np.concatenate([found, rng.permutation(np.concatenate(kept))])
        tried += batch
    return found[:n]


def _kept(region: Region, part: int, n: int, rng: np.random.Generator) -> Floats:
    """Those of n configurations that are kept: first by weight, then by stratum, which may be slow to evaluate."""
    proposed = _propose(region, part, n, rng)
    Y: Floats = proposed.Y[rng.random(n) * proposed.largest < proposed.weights]
    return np.asarray(Y[_labels(region.strata, Y) == part])


def _measured(region: Region, part: int, n: int, rng: np.random.Generator) -> Volume:
    proposed = _propose(region, part, n, rng)
    weights = _weights(region, part, proposed)
    if not weights.any():
        return Volume(0.0, proposed.largest / n)
    return Volume(float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(n)))


def _weights(region: Region, part: int, proposed: Proposed) -> Floats:
    """The weights of configurations, 0 outside the part: (n,)."""
    weights, near = proposed.weights.copy(), np.flatnonzero(proposed.weights > 0)
    weights[near[_labels(region.strata, proposed.Y[near]) != part]] = 0.0
    return weights


def _parts(region: Region, stratum: str | None) -> list[int]:
    """Numbers of the strata in which the region has a part, INFEASIBLE last."""
    if stratum is not None:
        everything = [number_of(region.strata, stratum)]
    else:
        everything = [*range(len(region.strata.names)), *([INFEASIBLE] if region.ambient else [])]
    return [part for part in everything if region.limits(np.array([part]))[0] >= 0]


def _propose(region: Region, part: int, n: int, rng: np.random.Generator) -> Proposed:
    """Weighted random configurations around the prediction, within the threshold of a part."""
    q = float(region.limits(np.array([part]))[0])
    if np.isinf(q):
        name = "infeasible space" if part == INFEASIBLE else region.strata.names[part]
        raise CaptureError(
            f"the region includes all of {name}, for lack of calibration points there, and without a grid it is unbounded; "
            "calibrate on more transitions, or choose another stratum."
        )
    return region.score.propose(region.prediction, q, n, region.dims, rng)


def _labels(strata: Strata, Y: Floats) -> Ints:
    """Stratum of each of Y (n, dc): (n,)."""
    if not len(Y):
        return np.empty(0, dtype=np.int64)
    return checked_index(strata.index(Y), len(Y), len(strata.names), "strata.index")


# -- many regions ---------------------------------------------------------------------------------------------------------


def batch_volumes(
    score: Score, prediction: Any, q: Floats, strata: Strata, dims: int, rng: np.random.Generator, draws: int = FEW
) -> Floats:
    """Estimated volumes of regions by stratum, infeasible space last: (n, M + 1).

    Infinite where a threshold is: without a grid a whole stratum has no known bound. Each volume is a rough estimate, but
    means over many regions are precise: the estimates are unbiased and independent.

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


def part_volumes(region: Region, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """Estimated volumes of one region by stratum, infeasible space last, infinite where a threshold is: (M + 1,)."""
    q = region.limits(np.append(np.arange(len(region.strata.names)), INFEASIBLE))
    found = batch_volumes(region.score, region.prediction, q[None], region.strata, region.dims, rng, draws)
    return np.asarray(found[0])


def _means(drawn: list[Proposed], columns: Ints, strata: Strata) -> Floats:
    """Mean weights of each region's configurations in the strata of some columns: (regions, columns)."""
    weights = np.concatenate([one.weights for one in drawn])
    near, labels = np.flatnonzero(weights > 0), np.full(len(weights), _OUTSIDE)
    labels[near] = _labels(strata, np.concatenate([one.Y for one in drawn])[near])
    wanted = np.where(columns < len(strata.names), columns, INFEASIBLE)
    parts = [np.where(labels == label, weights, 0.0).reshape(len(drawn), -1).mean(axis=1) for label in wanted]
    return np.stack(parts, axis=1)


def _alike(q: Floats) -> Iterator[Ints]:
    """Groups of columns of q (n, M + 1) that are equal in every row."""
    _, which = np.unique(q, axis=1, return_inverse=True)
    for number in range(int(which.max()) + 1):
        yield np.flatnonzero(which.ravel() == number)


# -- distance and extent ---------------------------------------------------------------------------------------------------


def particles_of(prediction: Any) -> Floats:
    """The particles of one prediction (L, dc), or the mean of a Gaussian (1, dc)."""
    return np.asarray(prediction[0] if isinstance(prediction, np.ndarray) else prediction.mean[:1])


def middles(region: Region) -> dict[int, float]:
    """The axes that are angles, each with the mean direction of the particles."""
    particles = particles_of(region.prediction)
    return {
        axis: float(np.arctan2(np.sin(particles[:, axis]).mean(), np.cos(particles[:, axis]).mean()))
        for axis in region.angles
    }


def unwrapped(region: Region, Y: Floats) -> Floats:
    """Configurations Y (..., dc) whose angles are within half a turn of the particles' mean direction."""
    Y = np.array(Y, dtype=np.float64)
    for axis, middle in middles(region).items():
        Y[..., axis] = middle + wrap_angle(Y[..., axis] - middle)
    return Y


def metric_of(region: Region) -> Metric:
    """The metric of the score; Euclidean if it has none."""
    return region.score.metric_ if isinstance(region.score, NearestParticles) else Euclidean()


def nearest(metric: Metric, Y: Floats, points: Floats) -> tuple[Ints, Floats]:
    """The nearest of `points` (n, dc) to each of Y (m, dc), and its distance: both (m,); infinite without points."""
    which, apart = np.zeros(len(Y), dtype=np.int64), np.full(len(Y), np.inf)
    size = max(1, PAIRS // max(1, len(points)))
    for first in range(0, len(Y) if len(points) else 0, size):
        rows = slice(first, first + size)
        distances = metric.distance(Y[rows, None], points[None])
        which[rows], apart[rows] = distances.argmin(axis=1), distances.min(axis=1)
    return which, apart


def searched_distance(region: Region, Y: Floats, sample: Floats) -> Floats:
    """Distances of Y (m, dc), outside the region, to members found from a `sample` (n, dc) of it: (m,), upper bounds."""
    metric, found = metric_of(region), np.full(len(Y), np.inf)
    for members in (sample, _particles_inside(region)):
        if len(members):
            starts = members[nearest(metric, Y, members)[0]]
            found = np.minimum(found, metric.distance(_pulled(region, starts, Y), Y))
    return found


def searched_support(region: Region, direction: Floats, sample: Floats) -> float:
    """Largest direction · y of members found from a `sample` (n, dc): a lower bound of the region's."""
    spread = np.maximum(unwrapped(region, sample).std(axis=0), 1e-300)
    reach = metric_of(region).reach(np.ones(1), region.dims)[0]  # along each axis at distance 1
    uphill = np.where(np.isfinite(reach).all(), reach, spread) ** 2 * direction  # to the highest point of a ball
    uphill *= FAR / max(float(np.linalg.norm(uphill / spread)), 1e-300)
    best = np.argsort(-(unwrapped(region, sample) @ direction), kind="stable")[:CLIMBERS]
    starts = np.concatenate([sample[best], _particles_inside(region)])
    return float((unwrapped(region, _pulled(region, starts, starts + uphill)) @ direction).max())


def _particles_inside(region: Region) -> Floats:
    particles = particles_of(region.prediction)
    return particles[region.contains(particles)]


def _pulled(region: Region, starts: Floats, ends: Floats) -> Floats:
    """Members `starts` (s, dc) moved towards `ends` (s, dc) as far as the path is found to stay in the region."""
    steps = ends - starts
    for axis in region.angles:
        steps[:, axis] = wrap_angle(steps[:, axis])
    inside, outside = np.zeros(len(starts)), np.ones(len(starts))
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        there = region.contains(starts + middle[:, None] * steps)
        inside, outside = np.where(there, middle, inside), np.where(there, outside, middle)
    return np.asarray(starts + inside[:, None] * steps)
