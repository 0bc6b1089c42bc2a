"""Thresholds of one calibration at one alpha, for a control loop."""

from __future__ import annotations

import math

import numpy as np
from numba import errors

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.conformal.partition import Partition
from capture_cp.kernels.tree import threshold_of


class ThresholdTable:
    """Thresholds of one calibration at one alpha, for a control loop: `table(x, m)` takes under a microsecond.

    `x` is a contiguous float64 array (dx,) and `m` a stratum number; anything else raises an error.
    """

    __slots__ = ("arrays", "n_inputs", "thresholds")

    def __init__(self, partition: Partition, thresholds: Floats) -> None:
        nodes = partition.nodes.copy()
        leaf = nodes["feature"] < 0
        nodes["threshold"][leaf] = thresholds[nodes["group"][leaf]]
        self.arrays = (nodes, partition.roots, partition.stratum_features)
        self.thresholds = thresholds
        self.n_inputs = partition.n_inputs

    def __call__(self, x: Floats, m: int) -> float:
        nodes, roots, features = self.arrays
        try:
            found: float = threshold_of(nodes, roots, features, self.n_inputs, x, m)
        except (TypeError, errors.NumbaError):
            found = math.nan
        if found != found:  # NaN
            given = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise CaptureError(
                f"x is {given} and m is {m!r}; expected a float64 array of shape ({self.n_inputs},) and a stratum from 0 to "
                f"{len(roots) - 1}."
            )
        return found
