"""What pictures show of a region: members of every stratum's part, its particles, start and outcome; angles unwrapped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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


def members_of(regions: Sequence[Region], n: int, rng: Randomness) -> list[Members]:
    """The centres of the cells of regions of one calibration if its strata have a grid, otherwise n configurations of each.

    A part too thin to be visible among them gets more samples: a fraction of `1 / SEEN`.
    """
    n = whole_number("n", n, 1)
    if not has_grid(regions[0].strata):
        rng = generator(rng)
        return [_sample_of(region, n, rng) for region in regions]
    cells, strata = [region.cells() for region in regions], grid_of(regions[0].strata)
    together, ends = np.concatenate(cells), np.cumsum([len(some) for some in cells])[:-1]
    centres, labels = strata.require_grid().centre(together), strata.labels[together].astype(np.int64)
    parts = zip(regions, np.split(centres, ends), np.split(labels, ends))
    return [Members(unwrapped(region, Y), m) for region, Y, m in parts]


def _sample_of(region: Region, n: int, rng: np.random.Generator) -> Members:
    Y = region.sample(n, rng)  # one generator for all strata, so that a seed does not draw the same numbers for each
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


def extract_of(region: Region, n: int, rng: Randomness, start: Any = None, outcome: Any = None) -> Extract:
    """All that pictures show of a region, with the start and the true outcome of its step where they are known."""
    given, meaning = {"start": start, "outcome": outcome}, "(dc,): one configuration"
    marks = {name: None if Y is None else finite_array(name, Y, (region.dims,), meaning) for name, Y in given.items()}
    starts, outcomes = (None if Y is None else Y[None] for Y in marks.values())
    inside = None if outcomes is None else [bool(region.contains(_wrapped(region, outcomes))[0])]
    return extracts_of([region], n, rng, starts, outcomes, inside)[0]


def extracts_of(
    regions: Sequence[Region], n: int, rng: Randomness, starts: Floats | None, outcomes: Floats | None, inside: Any
) -> list[Extract]:
    """All that pictures show of r regions of one calibration, with starts and outcomes (r, dc) where they are known.

    `inside` (r,) is whether the regions contain the outcomes.
    """
    one = regions[0]
    members, spacing = (
        members_of(regions, n, rng),
        grid_of(one.strata).require_grid().spacing if has_grid(one.strata) else None,
    )

    def index(Y: Floats) -> Ints:
        return np.asarray(one.strata.index(_wrapped(one, Y)))

    def classify(region: Region, Y: Floats) -> Ints:
        return np.where(region.contains(_wrapped(region, Y)), index(Y), -2)

    places = [
        [None] * len(regions) if Y is None else [unwrapped(region, place) for region, place in zip(regions, Y)]
        for Y in (starts, outcomes)
    ]
    held = [None] * len(regions) if inside is None else map(bool, inside)
    clouds = [(unwrapped(region, particles_of(region.prediction)), middles(region)) for region in regions]
    columns = zip(members, clouds, *places, held, [partial(classify, region) for region in regions])
    names = tuple(one.strata.names)
    return [
        Extract(names, some.Y, some.labels, cloud, start, outcome, hit, turns, spacing, asked, index)
        for some, (cloud, turns), start, outcome, hit, asked in columns
    ]


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
