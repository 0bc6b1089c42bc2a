"""Distance to a region, and its support function, by search from a sample if the strata have no grid."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array
from capture_cp.capture.region_draws import Drawable
from capture_cp.conformal.scores import NearestParticles
from capture_cp.spaces.metrics import Euclidean, Metric, wrap_angle
from capture_cp.spaces.strata import Strata

#: Members of the region that are pulled towards a configuration, and how often the path is halved.
NEAREST, HALVINGS = 8, 20
#: Members of the region that climb, and their number of steps.
CLIMBERS, CLIMBS = 48, 60
#: Length of their first step, in standard deviations of the region.
FAR = 6.0
#: Pairs of configurations that are measured at once.
BLOCK = 1_000_000


class Searchable(Drawable, Protocol):
    """The interface of a region that is used here."""

    def contains(self, Y: Any) -> Bools:
        """Whether each configuration Y (m, dc) is in the region: bool (m,)."""


def metric_of(region: Drawable) -> Metric:
    """The metric of the score; Euclidean if it has none."""
    return region.score.metric_ if isinstance(region.score, NearestParticles) else Euclidean()


def angles_of(region: Drawable) -> tuple[int, ...]:
    """The axes that are angles."""
    if isinstance(region.score, NearestParticles):
        return region.score.metric_.angles(region.dims)
    return tuple(getattr(region.score, "angles", ()))


def particles_of(prediction: Any) -> Floats:
    """The particles of one prediction (L, dc), or the mean of a Gaussian (1, dc)."""
    return np.asarray(prediction[0] if isinstance(prediction, np.ndarray) else prediction.mean[:1])


def middles(region: Drawable) -> dict[int, float]:
    """The axes that are angles, each with the mean direction of the particles."""
    particles = particles_of(region.prediction)
    return {
        axis: float(np.arctan2(np.sin(particles[:, axis]).mean(), np.cos(particles[:, axis]).mean()))
        for axis in angles_of(region)
    }


def unwrapped(region: Drawable, Y: Floats) -> Floats:
    """Configurations Y (..., dc) whose angles are within half a turn of the particles' mean direction."""
    Y = np.array(Y, dtype=np.float64)
    for axis, middle in middles(region).items():
        Y[..., axis] = middle + wrap_angle(Y[..., axis] - middle)
    return Y


def nearest_distance(metric: Metric, Y: Floats, points: Floats) -> Floats:
    """Distance of each of Y (m, dc) to the nearest of `points` (n, dc): (m,)."""
    found = np.full(len(Y), np.inf)
    size = max(1, BLOCK // max(1, len(Y)))
    for first in range(0, len(points), size):
        apart = metric.distance(Y[:, None], points[None, first : first + size])
        found = np.minimum(found, apart.min(axis=1))
    return found


def searched_distance(region: Searchable, Y: Floats, sample: Floats) -> Floats:
    """Distances of Y (m, dc), outside the region, to members found from a `sample` (n, dc) of it: (m,), upper bounds."""
    metric, particles = metric_of(region), particles_of(region.prediction)
    best, size = np.full(len(Y), np.inf), max(1, BLOCK // (len(sample) + len(particles)))
    for first in range(0, len(Y), size):
        rows = np.arange(first, min(first + size, len(Y)))
        found = [_nearest(metric, Y[rows], members) for members in (sample, particles[region.contains(particles)])]
        found.append(_moved_onto(region, Y[rows]))
        starts, of = (np.concatenate(parts) for parts in zip(*found))
        ends = Y[rows[of]]
        np.minimum.at(best, rows[of], metric.distance(_pulled(region, starts, ends), ends))
    return best


def searched_support(region: Searchable, direction: Floats, sample: Floats, rng: np.random.Generator) -> float:
    """Largest direction · y of members found by climbing from a `sample` (n, dc): a lower bound of the region's."""
    spread = np.maximum(unwrapped(region, sample).std(axis=0), 1e-300)
    uphill = _unit_reach(region, spread) ** 2 * direction  # the direction to the highest point of a ball
    uphill /= max(float(np.linalg.norm(uphill / spread)), 1e-300)
    particles = particles_of(region.prediction)
    members = np.concatenate([particles[region.contains(particles)], sample])
    Y = members[np.argsort(-(unwrapped(region, members) @ direction), kind="stable")[:CLIMBERS]]
    Y = np.concatenate([members[: len(members) - len(sample)], Y])
    Y = _pulled(region, Y, Y + FAR * uphill)
    heights = unwrapped(region, Y) @ direction
    length = np.full(len(Y), 0.5)
    for _ in range(CLIMBS):
        tried = Y + length[:, None] * (uphill + rng.standard_normal(Y.shape) * spread)
        for axis in angles_of(region):
            tried[:, axis] = wrap_angle(tried[:, axis])
        tried = _back(region, tried, Y)
        climbed = unwrapped(region, tried) @ direction
        better = region.contains(tried) & (climbed > heights)
        Y[better], heights[better] = tried[better], climbed[better]
        length = np.where(better, 1.5 * length, 0.7 * length)
    return float(heights.max())


def _unit_reach(region: Drawable, spread: Floats) -> Floats:
    """Largest offset along each axis at distance 1, (dc,); the region's spread if the metric has no bound."""
    reach = metric_of(region).reach(np.ones(1), region.dims)[0]
    return reach if np.isfinite(reach).all() else spread


def _nearest(metric: Metric, Y: Floats, members: Floats) -> tuple[Floats, Ints]:
    """The `NEAREST` members (n, dc) to each of Y (m, dc), concatenated, and the row that each belongs to."""
    near = np.argsort(metric.distance(Y[:, None], members[None]), axis=1, kind="stable")[:, :NEAREST]
    return members[near.ravel()], np.repeat(np.arange(len(Y)), near.shape[1])


def checked_direction(direction: Any, dims: int) -> Floats:
    """A direction (dc,) that is not zero."""
    array = finite_array("direction", direction, (dims,), "(dc,): one number per axis")
    if not array.any():
        raise CaptureError("direction is zero; expected a non-zero vector, such as (1, 0).")
    return array


def _pulled(region: Searchable, starts: Floats, ends: Floats) -> Floats:
    """Members `starts` (s, dc) moved towards `ends` (s, dc) as far as the path is found to stay in the region."""
    steps = ends - starts
    for axis in angles_of(region):
        steps[:, axis] = wrap_angle(steps[:, axis])
    inside, outside = np.zeros(len(starts)), np.ones(len(starts))
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        there = region.contains(starts + middle[:, None] * steps)
        inside, outside = np.where(there, middle, inside), np.where(there, outside, middle)
    return np.asarray(starts + inside[:, None] * steps)


def _moved_onto(region: Searchable, Y: Floats) -> tuple[Floats, Ints]:
    """Members of the region (s, dc) found by the strata's `project` from Y (m, dc), and the row of each: (s,)."""
    if getattr(region.strata, "project", None) is None:
        return np.empty((0, region.dims)), np.empty(0, dtype=np.int64)
    count = len(region.strata.names)
    found = np.concatenate([_projected(region.strata, Y, m) for m in range(count)])
    kept = np.flatnonzero(region.contains(found))
    return found[kept], kept % len(Y)


def _back(region: Searchable, tried: Floats, before: Floats) -> Floats:
    """Configurations `tried` (n, dc), moved back onto the strata of `before` (n, dc) if these have a `project`."""
    if getattr(region.strata, "project", None) is None:
        return tried
    outside = ~region.contains(tried)
    labels: Ints = np.asarray(region.strata.index(before))
    for m in np.unique(labels[outside & (labels >= 0)]):
        rows = outside & (labels == m)
        tried[rows] = _projected(region.strata, tried[rows], int(m))
    return tried


def _projected(strata: Strata, Y: Floats, m: int) -> Floats:
    found: Any = strata.project(Y.copy(), m)  # type: ignore[attr-defined]
    return finite_array("what strata.project returned", found, Y.shape, "(n, dc), the shape of its argument")
