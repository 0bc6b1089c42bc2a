"""Regions without a grid: volumes and uniform samples from random configurations about the prediction.

A stratum's part of a region is drawn with the stratum's own threshold. Configurations come with weights whose mean over a
set is the set's volume in the region (`Score.propose`), so volumes are means, with a standard error, and a sample keeps
each configuration with a probability in proportion to its weight.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.conformal.scores import Proposed, Score
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index

DRAWS = 4096  # random configurations per stratum
#: Random configurations that a sample tries for each of its own before it gives up.
PATIENCE = 20_000


class Drawable(Protocol):
    """What is needed of a region."""

    score: Score
    prediction: object
    thresholds: Floats
    strata: Strata
    dims: int
    ambient: bool

    def limits(self, labels: Ints) -> Floats:
        """Threshold of each label (n,), negative where nothing belongs to the region."""


class Volume(float):
    """A volume, with the standard error of its estimate; 0 where it was counted on a grid."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> Volume:
        found = super().__new__(cls, value)
        found.standard_error = standard_error
        return found


def has_grid(strata: Strata) -> bool:
    """Whether regions have cells."""
    return isinstance(strata, GriddedStrata) and strata.grid is not None


def number_of(strata: Strata, name: str) -> int:
    """Number of the stratum called `name`."""
    return strata.names.index(known_name("stratum", name, strata.names))


def estimated_volume(region: Drawable, stratum: str | None, draws: int, rng: np.random.Generator) -> Volume:
    """Volume of a region, or of its part in one stratum, by `draws` random configurations per stratum."""
    n = whole_number("draws", draws, 2)
    parts = [_weights(region, part, n, rng)[1] for part in _parts(region, stratum)]
    errors = [float(weights.std(ddof=1) / np.sqrt(n)) for weights in parts]
    return Volume(float(sum(weights.mean() for weights in parts)), float(np.hypot.reduce(errors) if errors else 0.0))


def acceptance(region: Drawable, stratum: str | None, draws: int, rng: np.random.Generator) -> float:
    """Share of random configurations that a uniform sample keeps."""
    n, shares = whole_number("draws", draws, 2), []
    for part in _parts(region, stratum):
        proposed, weights = _weights(region, part, n, rng)
        shares.append(float(weights.mean() / proposed.largest))
    return float(np.mean(shares)) if shares else 0.0


def uniform_sample(region: Drawable, n: int, stratum: str | None, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc), uniform over a region or over its part in one stratum."""
    if not n:
        return np.empty((0, region.dims))
    parts = _parts(region, stratum)
    volumes = np.array([_weights(region, part, DRAWS, rng)[1].mean() for part in parts])
    if not volumes.sum() > 0:
        raise CaptureError("the region has nothing to sample from: it is empty, or too small a part of what is near.")
    counts = rng.multinomial(n, volumes / volumes.sum())
    found = [_uniform(region, part, int(count), rng) for part, count in zip(parts, counts) if count]
    return rng.permutation(np.concatenate(found))


def _uniform(region: Drawable, part: int, n: int, rng: np.random.Generator) -> Floats:
    found: list[Floats] = []
    tried = 0
    while sum(map(len, found)) < n:
        proposed, weights = _weights(region, part, DRAWS, rng)
        found.append(proposed.Y[rng.random(DRAWS) * proposed.largest < weights])
        tried += DRAWS
        if tried > PATIENCE * n:
            name = "what is infeasible" if part == INFEASIBLE else region.strata.names[part]
            raise CaptureError(f"of {tried:,} configurations near the particles hardly any is in {name}; nothing to sample.")
    return np.concatenate(found)[:n]


def _parts(region: Drawable, stratum: str | None) -> list[int]:
    """Numbers of the strata in which the region has a part, what is infeasible last."""
    if stratum is not None:
        return [number_of(region.strata, stratum)]
    everything = [*range(len(region.strata.names)), *([INFEASIBLE] if region.ambient else [])]
    return [part for part in everything if region.limits(np.array([part]))[0] >= 0]


def _weights(region: Drawable, part: int, n: int, rng: np.random.Generator) -> tuple[Proposed, Floats]:
    """n configurations about the prediction, and their weights in one stratum's part of the region, (n,)."""
    q = float(region.limits(np.array([part]))[0])
    if q < 0:
        return Proposed(np.empty((n, region.dims)), np.zeros(n), 1.0), np.zeros(n)
    if np.isinf(q):
        name = "what is infeasible" if part == INFEASIBLE else region.strata.names[part]
        raise CaptureError(
            f"the region takes in all of {name}, for want of calibration points there, and without a grid that has no end; "
            "calibrate on more transitions, or ask about another stratum."
        )
    proposed = region.score.propose(region.prediction, q, n, region.dims, rng)
    labels, near, names = np.full(n, INFEASIBLE - 1), proposed.weights > 0, region.strata.names
    labels[near] = checked_index(region.strata.index(proposed.Y[near]), int(near.sum()), len(names), "strata.index")
    return proposed, np.where(labels == part, proposed.weights, 0.0)
