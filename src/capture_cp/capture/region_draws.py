"""Regions without a grid: volumes and uniform samples from random configurations around the prediction.

A stratum's part of a region is drawn with the stratum's own threshold. Configurations have weights whose mean over a set is
the set's volume in the region (`Score.propose`). Volumes are therefore means, with a standard error, and a sample keeps
each configuration with a probability proportional to its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.capture.region_cover import Ellipsoids
from capture_cp.capture.region_thin import thin_cover
from capture_cp.conformal.scores import Proposed, Score
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index

DRAWS = 4096  # random configurations per stratum
#: Random configurations tried per requested sample before giving up.
PATIENCE = 20_000
#: Smallest acceptance at which all strata are drawn together, and the number of draws to estimate it.
WORTH, TRIAL = 0.02, 16 * DRAWS
#: Random configurations per stratum that otherwise determine how much of a sample is in each.
SHARES = 4 * DRAWS


class Drawable(Protocol):
    """The interface of a region that is used here."""

    score: Score
    prediction: object
    thresholds: Floats
    strata: Strata
    dims: int
    ambient: bool

    def limits(self, labels: Ints) -> Floats:
        """Threshold of each label (n,), negative where nothing belongs to the region."""


class Volume(float):
    """A volume, with the standard error of its estimate; 0 where it was counted on a grid, or where no draw was inside."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> Volume:
        found = super().__new__(cls, value)
        found.standard_error = standard_error
        return found


class Source(NamedTuple):
    """Random configurations for one piece of a part: the mean of their weights over the part is the piece's volume."""

    part: int  # stratum number, or INFEASIBLE
    propose: Callable[[int, np.random.Generator], Proposed]
    share: float = 1.0  # of the draws
    leftover: bool = False  # the (tiny) remainder outside the ellipsoids of a thin part


def has_grid(strata: Strata) -> bool:
    """Whether regions have cells."""
    return isinstance(strata, GriddedStrata) and strata.grid is not None


def number_of(strata: Strata, name: str) -> int:
    """Number of the stratum called `name`."""
    return strata.names.index(known_name("stratum", name, strata.names))


def estimated_volume(region: Drawable, stratum: str | None, draws: int, rng: np.random.Generator) -> Volume:
    """Volume of a region, or of its part in one stratum, from `draws` random configurations per stratum."""
    n = whole_number("draws", draws, 8)
    pieces = [_piece(region, source, n, rng) for part in _parts(region, stratum) for source in _sources(region, part, rng)]
    errors = [piece.standard_error for piece in pieces]
    return Volume(float(sum(pieces)), float(np.hypot.reduce(errors) if errors else 0.0))


def acceptance(region: Drawable, stratum: str | None, draws: int, rng: np.random.Generator) -> float:
    """Fraction of plain random configurations that a uniform sample keeps."""
    n, shares = whole_number("draws", draws, 2), []
    for part in _parts(region, stratum):
        proposed = _plain(region, part).propose(n, rng)
        shares.append(float(_weights(region, part, proposed).mean() / proposed.largest) if proposed.largest > 0 else 0.0)
    return float(np.mean(shares)) if shares else 0.0


def uniform_sample(region: Drawable, n: int, stratum: str | None, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc), uniform over a region or over its part in one stratum.

    Exactly uniform by rejection if at least a fraction `WORTH` of the configurations is kept. Otherwise each stratum, and
    the remainder outside the ellipsoids of thin parts, gets a number of samples proportional to its volume, estimated from
    `SHARES` draws each, for thin parts `DRAWS`.
    """
    if not n:
        return np.empty((0, region.dims))
    sources = [source for part in _parts(region, stratum) for source in _sources(region, part, rng)]
    together = [source for source in sources if not source.leftover]
    if len(together) == len(sources):
        found = _uniform(region, sources, n, rng, TRIAL)
        if len(found) == n:
            return found
    if len(sources) == 1:
        return _all(_uniform(region, sources, n, rng, PATIENCE * n), n)
    # thin parts are small compared with the others, so their larger relative error hardly matters
    volumes = np.array([_piece(region, source, SHARES if source.share == 1 else DRAWS, rng) for source in sources])
    if not volumes.sum() > 0:
        return _all(np.empty((0, region.dims)), n)
    counts = rng.multinomial(n, volumes / volumes.sum())
    each = [
        _uniform(region, [source], int(count), rng, PATIENCE * int(count)) for source, count in zip(sources, counts) if count
    ]
    return _all(rng.permutation(np.concatenate(each)), n)


def members(region: Drawable, part: int, Y: Floats) -> Bools:
    """Which of Y (n, dc), all within the part's threshold, are in its stratum: (n,)."""
    names = region.strata.names
    return checked_index(region.strata.index(Y), len(Y), len(names), "strata.index") == part if len(Y) else np.zeros(0, bool)


def _piece(region: Drawable, source: Source, draws: int, rng: np.random.Generator) -> Volume:
    n = max(2, int(draws * source.share))
    weights = _weights(region, source.part, source.propose(n, rng))
    return Volume(float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(n)))


def _weights(region: Drawable, part: int, proposed: Proposed) -> Floats:
    """The weights of configurations, 0 outside the part: (n,)."""
    weights, near = np.zeros(len(proposed.Y)), np.flatnonzero(proposed.weights > 0)
    kept = near[members(region, part, proposed.Y[near])]
    weights[kept] = proposed.weights[kept]
    return weights


def _uniform(region: Drawable, sources: list[Source], n: int, rng: np.random.Generator, most: int) -> Floats:
    """n configurations (n, dc), uniform over the pieces of all sources together; fewer if `most` draws do not suffice.

    Each source is drawn from in proportion to its largest possible weight, so no volume needs to be known.
    """
    found: list[Floats] = [np.empty((0, region.dims))]
    largest = np.array([source.propose(1, rng).largest for source in sources])
    tried, kept, batch = 0, 0, min(max(DRAWS, n), TRIAL)
    while kept < n and largest.sum() > 0 and (tried < TRIAL or kept >= WORTH * tried or (kept and tried < most)):
        counts = rng.multinomial(batch, largest / largest.sum())
        drawn = [_kept(region, source, int(count), rng) for source, count in zip(sources, counts) if count]
        found.append(rng.permutation(np.concatenate(drawn)))
        tried, kept = tried + batch, kept + len(found[-1])
    return np.concatenate(found)[:n]


def _all(found: Floats, n: int) -> Floats:
    """`found` (m, dc), or an error if they are fewer than n."""
    if len(found) < n:
        raise CaptureError(
            f"the region cannot be sampled: only {len(found)} of the configurations drawn near the particles are in it. It "
            "is empty, or too small a part of the space near the particles."
        )
    return found


def _kept(region: Drawable, source: Source, n: int, rng: np.random.Generator) -> Floats:
    """Those of n configurations that are kept: first by weight, then by stratum, which may be slow to evaluate."""
    proposed = source.propose(n, rng)
    Y = proposed.Y[rng.random(n) * proposed.largest < proposed.weights]
    return Y[members(region, source.part, Y)]


def _parts(region: Drawable, stratum: str | None) -> list[int]:
    """Numbers of the strata in which the region has a part, INFEASIBLE last."""
    if stratum is not None:
        everything = [number_of(region.strata, stratum)]
    else:
        everything = [*range(len(region.strata.names)), *([INFEASIBLE] if region.ambient else [])]
    return [part for part in everything if region.limits(np.array([part]))[0] >= 0]


def _sources(region: Drawable, part: int, rng: np.random.Generator) -> list[Source]:
    """Sources of a part: plain draws around the particles; for a thin part ellipsoids, and plain draws for the rest."""
    plain = _plain(region, part)
    q = float(region.limits(np.array([part]))[0])

    def inside(Y: Floats) -> Bools:
        found = np.asarray(region.score.within(region.prediction, Y, np.full(len(Y), q)))
        found[found] = members(region, part, Y[found])
        return found

    cover = thin_cover(region.score, region.strata, region.dims, part, plain.propose, inside, rng)
    if cover is None:
        return [plain]

    def covered(n: int, rng: np.random.Generator) -> Proposed:
        proposed = cover.propose(n, rng)
        near = region.score.within(region.prediction, proposed.Y, np.full(n, q))
        return proposed._replace(weights=np.where(near, proposed.weights, 0.0))

    return [Source(part, covered, 0.75), Source(part, _beyond(plain, cover), 0.25, leftover=True)]


def _beyond(plain: Source, cover: Ellipsoids) -> Callable[[int, np.random.Generator], Proposed]:
    def propose(n: int, rng: np.random.Generator) -> Proposed:
        proposed = plain.propose(n, rng)
        return proposed._replace(weights=np.where(cover.layers(proposed.Y) == 0, proposed.weights, 0.0))

    return propose


def _plain(region: Drawable, part: int) -> Source:
    """Plain draws around the prediction, within the part's threshold."""
    q = float(region.limits(np.array([part]))[0])
    if np.isinf(q):
        raise CaptureError(
            f"the region includes all of {_name(region, part)}, for lack of calibration points there, and without a grid it "
            "is unbounded; calibrate on more transitions, or choose another stratum."
        )

    def propose(n: int, rng: np.random.Generator) -> Proposed:
        return region.score.propose(region.prediction, q, n, region.dims, rng)

    return Source(part, propose)


def _name(region: Drawable, part: int) -> str:
    return "infeasible space" if part == INFEASIBLE else region.strata.names[part]
