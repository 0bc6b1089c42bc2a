"""The range of a task's configurations, estimated from random inputs: the bounds of a space without a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats
from capture_cp.base.streams import stream
from capture_cp.spaces.metrics import Metric

#: Random inputs that are drawn, and how many of them are compared with each other.
INPUTS, PAIRED = 2000, 200
#: Fraction of the inputs left out at either end of an axis, and how much of its spread an axis is then widened by.
TAIL, MARGIN = 0.05, 1 / 6
#: Fraction of the spread that counts as a small length.
SMALL = 0.01


@dataclass(frozen=True)
class Extent:
    """The range of random inputs' configurations.

    Attributes:
        configurations: of random inputs, (n, dc).
        low, high: corners (dc,) of a box that contains nearly all of them; angles stay within a turn.
        small: a small length, a hundredth of the typical spread of an axis.
        width: the largest distance between two of the configurations.
    """

    configurations: Floats
    low: Floats
    high: Floats
    small: float
    width: float

    @classmethod
    def of(cls, inputs: Callable[[int, np.random.Generator], Floats], axes: Sequence[int], metric: Metric) -> Extent:
        """The extent of a task, by its `inputs`; the same at every call."""
        Y = np.asarray(inputs(INPUTS, stream(0, "extent")), dtype=np.float64)[:, list(axes)]
        first, last = np.quantile(Y, [TAIL, 1 - TAIL], axis=0)
        spread = last - first
        low, high = first - MARGIN * spread, last + MARGIN * spread
        for axis in metric.angles(Y.shape[1]):
            low[axis], high[axis] = max(low[axis], -np.pi), min(high[axis], np.pi)
        some = Y[:PAIRED]
        width = float(metric.distance(some[:, None], some[None]).max())
        if not (width > 0 and (spread > 0).any()):
            raise CaptureError(
                "random inputs of the task all have the same configuration, so the size of its space is unknown; give its "
                "strata a grid, or draw `inputs` from the whole space."
            )
        return cls(Y, low, high, SMALL * float(np.median(spread[spread > 0])), width)

    def nearest(self, configuration: Floats, metric: Metric, allowed: Bools | None = None) -> Floats:
        """The configuration (dc,) nearest to a given one (dc,), among those `allowed` (n,)."""
        Y = self.configurations if allowed is None else self.configurations[allowed]
        return np.asarray(Y[np.argmin(metric.distance(Y, configuration))])

    @property
    def middle(self) -> Floats:
        """The configuration (dc,) of the random input nearest to the centre of the box."""
        scale = np.maximum(self.high - self.low, 1e-300)
        away = (self.configurations - (self.low + self.high) / 2) / scale
        return np.asarray(self.configurations[np.argmin((away**2).sum(axis=1))])


def nowhere(Y: Floats) -> Bools:
    """The hazard (n,) of configurations Y (n, dc) when nothing is hazardous."""
    return np.zeros(len(Y), dtype=bool)
