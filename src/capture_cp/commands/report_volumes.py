"""Mean volumes of regions without a grid, from few enough questions that a report does not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.data.transitions import Transitions

if TYPE_CHECKING:
    from capture_cp.commands.calibrate import Calibrate

#: Configurations in all whose stratum may be asked for, those drawn for each part of a region, and fewest and most regions.
QUESTIONS, DRAWS = 20_000, 256
FEWEST, MOST = 4, 40


class MeanVolume(NamedTuple):
    """A mean over regions with its standard error; both infinite where a region takes in a whole stratum."""

    mean: float
    error: float


def mean_volumes(cap: Capture, kept: Transitions, command: Calibrate) -> dict[str, MeanVolume] | None:
    """Mean volume of the regions of some transitions that were held out, by stratum and for "all"; None if unknown."""
    names = cap.strata.names
    count = int(np.clip(QUESTIONS // (DRAWS * len(names)), FEWEST, MOST))
    rows = np.unique(np.linspace(0, len(kept) - 1, count).astype(int))
    try:
        found = np.array([_volumes(cap, kept, command, int(row)) for row in rows])  # (regions, M)
    except CaptureError:
        return None
    columns = {"all": found.sum(axis=1)} | dict(zip(names, found.T))
    return {name: _mean(column) for name, column in columns.items()}


def _volumes(cap: Capture, kept: Transitions, command: Calibrate, row: int) -> list[float]:
    seed = derived_seed(command.seed, row)
    region = cap.region(kept.X[row], command.alpha, command.confidence, rng=seed)
    parts = zip(region.strata.names, region.thresholds)
    return [np.inf if np.isinf(q) else region.volume(name, DRAWS, derived_seed(seed, name)) for name, q in parts]


def _mean(column: Floats) -> MeanVolume:
    if np.isinf(column).any():
        return MeanVolume(np.inf, np.inf)
    return MeanVolume(float(column.mean()), float(column.std(ddof=1) / np.sqrt(len(column))) if len(column) > 1 else 0.0)
