"""Distance to a region, and its support function, by search from a sample if the strata have no grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints, finite_array
from capture_cp.capture.region_draws import Searchable
from capture_cp.conformal.scores import NearestParticles
from capture_cp.spaces.metrics import Euclidean, Metric, wrap_angle

#: How often a path is halved.
HALVINGS = 20
#: Members of the region that climb, and how far at most, in standard deviations of the region.
CLIMBERS, FAR = 64, 6.0
#: Pairs of configurations that are measured at once.
BLOCK = 1_000_000


def particles_of(prediction: Any) -> Floats:
    """The particles of one prediction (L, dc), or the mean of a Gaussian (1, dc)."""
    return np.asarray(prediction[0] if isinstance(prediction, np.ndarray) else prediction.mean[:1])


def middles(region: Searchable) -> dict[int, float]:
    """The axes that are angles, each with the mean direction of the particles."""
    particles = particles_of(region.prediction)
    return {
        axis: float(np.arctan2(np.sin(particles[:, axis]).mean(), np.cos(particles[:, axis]).mean()))
        for axis in region.angles
    }


def unwrapped(region: Searchable, Y: Floats) -> Floats:
    """Configurations Y (..., dc) whose angles are within half a turn of the particles' mean direction."""
    Y = np.array(Y, dtype=np.float64)
    for axis, middle in middles(region).items():
        Y[..., axis] = middle + wrap_angle(Y[..., axis] - middle)
    return Y


def metric_of(region: Searchable) -> Metric:
    """The metric of the score; Euclidean if it has none."""
    return region.score.metric_ if isinstance(region.score, NearestParticles) else Euclidean()


def nearest(metric: Metric, Y: Floats, points: Floats) -> tuple[Ints, Floats]:
    """The nearest of `points` (n, dc) to each of Y (m, dc), and its distance: both (m,); infinite without points."""
    which, apart = np.zeros(len(Y), dtype=np.int64), np.full(len(Y), np.inf)
    size = max(1, BLOCK // max(1, len(points)))
    for first in range(0, len(Y) if len(points) else 0, size):
        rows = slice(first, first + size)
        distances = metric.distance(Y[rows, None], points[None])
        which[rows], apart[rows] = distances.argmin(axis=1), distances.min(axis=1)
    return which, apart


def searched_distance(region: Searchable, Y: Floats, sample: Floats) -> Floats:
    """Distances of Y (m, dc), outside the region, to members found from a `sample` (n, dc) of it: (m,), upper bounds."""
    metric, found = metric_of(region), np.full(len(Y), np.inf)
    for members in (sample, _particles_inside(region)):
        if len(members):
            starts = members[nearest(metric, Y, members)[0]]
            found = np.minimum(found, metric.distance(_pulled(region, starts, Y), Y))
    for moved in _moved_onto(region, Y):
        inside = region.contains(moved)
        ends = Y[inside]
        found[inside] = np.minimum(found[inside], metric.distance(_pulled(region, moved[inside], ends), ends))
    return found


def searched_support(region: Searchable, direction: Floats, sample: Floats) -> float:
    """Largest direction · y of members found from a `sample` (n, dc): a lower bound of the region's."""
    spread = np.maximum(unwrapped(region, sample).std(axis=0), 1e-300)
    reach = metric_of(region).reach(np.ones(1), region.dims)[0]  # along each axis at distance 1
    uphill = np.where(np.isfinite(reach).all(), reach, spread) ** 2 * direction  # to the highest point of a ball
    uphill *= FAR / max(float(np.linalg.norm(uphill / spread)), 1e-300)
    best = np.argsort(-(unwrapped(region, sample) @ direction), kind="stable")[:CLIMBERS]
    starts = np.concatenate([sample[best], _particles_inside(region)])
    starts = np.concatenate([starts, *(moved[region.contains(moved)] for moved in _moved_onto(region, starts))])
    return float((unwrapped(region, _pulled(region, starts, starts + uphill)) @ direction).max())


def _particles_inside(region: Searchable) -> Floats:
    particles = particles_of(region.prediction)
    return particles[region.contains(particles)]


def _pulled(region: Searchable, starts: Floats, ends: Floats) -> Floats:
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


def _moved_onto(region: Searchable, Y: Floats) -> list[Floats]:
    """Y (m, dc) moved onto each stratum by the strata's `project`, if they have one: arrays (m, dc)."""
    project = getattr(region.strata, "project", None)
    if project is None:
        return []
    meaning = "(n, dc), the shape of its argument"
    moved = (project(Y.copy(), m) for m in range(len(region.strata.names)))
    return [finite_array("what strata.project returned", found, Y.shape, meaning) for found in moved]
