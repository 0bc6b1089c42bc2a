"""What pictures show of a region: members of every stratum's part, its particles, start and outcome; angles unwrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.base.streams import Randomness, generator, stream
from capture_cp.capture.region_draws import middles, particles_of, unwrapped
from capture_cp.report.panel import Extract
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.strata import grid_of, has_grid

if TYPE_CHECKING:
    from capture_cp.capture.region import Region

#: Size of a sample that is only plotted.
POINTS = 2000
#: A stratum's part is plotted with at least one in this many of the sample's configurations.
SEEN = 20
#: Random members that estimate the extent of a region whose score does not give it.
MEMBERS = 512


class Members(NamedTuple):
    """Members of a region to plot: centres of its cells, or a sample."""

    Y: Floats  # (n, dc), angles unwrapped
    labels: Ints  # (n,)
    spacing: Floats | None = None  # (dc,), of the cells


def members_of(region: Region, n: int, rng: Randomness) -> Members:
    """The centres of a region's cells if its strata have a grid, otherwise n configurations.

    A part too thin to be visible among them gets more samples: a fraction of `1 / SEEN`.
    """
    if has_grid(region.strata):
        cells, strata = region.cells(), grid_of(region.strata)
        grid, labels = strata.require_grid(), strata.labels[cells].astype(np.int64)
        return Members(unwrapped(region, grid.centre(cells)), labels, grid.spacing)
    n = whole_number("n", n, 1)
    rng = generator(rng)  # one for all strata, so that a seed does not draw the same numbers for each
    Y = region.sample(n, rng)
    labels = np.asarray(region.strata.index(Y))
    for m, name in enumerate(region.strata.names):
        here = int((labels == m).sum())
        # a thin part that was never hit is too small to search for
        if 0 < here < n // SEEN:
            more = _more(region, n // SEEN - here, name, rng)
            Y, labels = np.concatenate([Y, more]), np.concatenate([labels, np.full(len(more), m)])
    return Members(unwrapped(region, Y), labels)


def _more(region: Region, n: int, stratum: str, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc) of the part in one stratum, or none if it is empty."""
    try:
        return region.sample(n, rng, stratum)
    except CaptureError:
        return np.empty((0, region.dims))


def checked_marks(region: Region, start: Any, outcome: Any) -> tuple[Floats | None, Floats | None]:
    """The start and the true outcome of a step, (dc,) each, where they are given."""
    given, meaning = {"start": start, "outcome": outcome}, "(dc,): one configuration"
    start, outcome = (None if Y is None else finite_array(name, Y, (region.dims,), meaning) for name, Y in given.items())
    return start, outcome


def extract_of(
    region: Region, n: int, rng: Randomness, start: Floats | None, outcome: Floats | None, inside: bool | None = None
) -> Extract:
    """All that pictures show of a region, with the start and the true outcome of its step where they are known.

    `inside` is whether the region contains the outcome, if that is already known.
    """
    if inside is None and outcome is not None:
        inside = bool(region.contains(_wrapped(region, outcome[None]))[0])

    def index(Y: Floats) -> Ints:
        return np.asarray(region.strata.index(_wrapped(region, Y)))

    def classify(Y: Floats) -> Ints:
        return np.where(region.contains(_wrapped(region, Y)), index(Y), -2)

    (Y, labels, spacing), cloud = members_of(region, n, rng), unwrapped(region, particles_of(region.prediction))
    start, outcome = (None if Y is None else unwrapped(region, Y) for Y in (start, outcome))
    names, turns = tuple(region.strata.names), middles(region)
    return Extract(names, Y, labels, cloud, start, outcome, inside, turns, spacing, classify, index)


def _wrapped(region: Region, Y: Floats) -> Floats:
    Y, angles = np.array(Y, dtype=np.float64), list(region.angles)
    if angles:
        Y[:, angles] = wrap_angle(Y[:, angles])
    return Y


def finite_box(region: Region) -> Floats:
    """Corners (2, dc) of a box around a region's parts in strata that it does not contain entirely.

    Where the score's box spans the whole circle on an angle, the box is that of random members.
    """
    finite = region.thresholds[np.isfinite(region.thresholds)]
    limit = max(float(finite.max()), 0.0) if len(finite) else 0.0
    box = np.vstack(region.score.box(region.prediction, np.array([limit]), region.dims))
    if np.isfinite(box).all():
        return box
    drawn = region.score.propose(region.prediction, limit, MEMBERS, region.dims, stream(0, "picture"))
    near = unwrapped(region, drawn.Y[drawn.weights > 0])
    return np.where(np.isfinite(box), box, [near.min(axis=0), near.max(axis=0)]) if len(near) else box
