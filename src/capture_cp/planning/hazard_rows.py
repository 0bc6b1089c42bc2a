"""Hazard cells of many regions at once, in the Euclidean metric: the fused planner's fast path, for any model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from capture_cp.base.layouts import EUCLIDEAN
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.scores import NearestParticles
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import squared_limit
from capture_cp.planning.hazard import hazard_cells, region_hazard
from capture_cp.planning.hazard_count import HazardCount
from capture_cp.planning.regions import checked_hazard
from capture_cp.spaces.strata import grid_of


class HazardRows:
    """Cells of a mask inside every region, as counted by `HazardCount`, but through the runs of hazard cells.

    Args:
        cap: calibrated predictor whose regions are tested, with nearest-particle scores in the Euclidean metric.
        hazard: grid cells, bool (cells,).
    """

    def __init__(self, cap: Fitted, hazard: Any) -> None:
        assert isinstance(cap.score_, NearestParticles)
        mask = checked_hazard(hazard, grid_of(cap.strata).require_grid().size)
        self._k = int(cap.score_.k)
        self._runs, _ = hazard_cells(cap, mask, np.arange(cap.n_outputs_), as_runs=True)

    def __call__(self, clouds: Any, q: Any) -> Any:
        """Hazard cells of regions with particles (n, L, dc) and thresholds q (n, M): int64 (n,)."""
        return count_rows(clouds, np.ascontiguousarray(q), self._k, self._runs)


def hazard_counter(cap: Fitted, hazard: Any, points: int, farthest: float | None) -> HazardRows | HazardCount:
    """The fastest counter of the hazard inside regions of a calibration; arguments as for `HazardCount`."""
    score = cap.score_
    kernel = score.metric_.kernel(cap.n_outputs_) if type(score) is NearestParticles else None
    if callable(hazard) or kernel is None or kernel[0] != EUCLIDEAN:
        return HazardCount(cap, hazard, points, farthest)
    return HazardRows(cap, hazard)


@parallel_kernel(cache=True)
def count_rows(clouds, q, k, runs):
    """Hazard cells inside the regions of particles (n, L, dc) with thresholds q (n, M): (n,)."""
    n, dims, strata = clouds.shape[0], clouds.shape[2], q.shape[1]
    found = np.empty(n, dtype=np.int64)
    for i in prange(n):
        limits, near, far = np.empty(strata), np.empty(strata), np.empty(strata)
        centre, middle = np.empty(dims), np.empty(dims)
        for m in range(strata):
            limits[m] = squared_limit(q[i, m])
        found[i] = region_hazard(clouds[i], limits, k, runs, centre, middle, near, far)
    return found
