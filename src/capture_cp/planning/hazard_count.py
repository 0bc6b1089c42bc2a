"""How much of each of many regions lies on a hazard: for the cost of other planners and for the braking filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import prange

from capture_cp.base.checks import Floats
from capture_cp.base.layouts import EUCLIDEAN
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import squared_limit
from capture_cp.planning.hazard import checked_hazard, hazard_cells
from capture_cp.planning.point_test import PointTest
from capture_cp.planning.probes import POINTS
from capture_cp.planning.runs import region_hazard
from capture_cp.spaces.strata import GridStrata, grid_of


class HazardCount:
    """Hazard inside every region: cells of a mask, or the estimate of `PointTest` for a function.

    Args:
        cap: calibrated predictor whose regions are tested, with a particle score.
        hazard: grid cells, bool (cells,), or a function of configurations (n, dc) that returns whether they are on the
            hazard, bool (n,), or their signed distances from it.
        points: number of points around the particles of a region at which a function is evaluated.
        farthest: distance up to which an unbounded region is searched with a function, see `PointTest`.
    """

    def __init__(self, cap: Fitted, hazard: Any, points: int = POINTS, farthest: float | None = None) -> None:
        self._score = cap.score_
        self._points = PointTest(cap, hazard, points, farthest) if callable(hazard) else None
        if self._points is None:
            strata = grid_of(cap.strata)
            mask = checked_hazard(hazard, strata.require_grid().size)
            self._hazards = GridStrata(strata.require_grid(), np.where(mask, strata.labels, -1), strata.names)

    def __call__(self, clouds: Floats, q: Floats) -> npt.NDArray[Any]:
        """Hazard of regions with particles (n, L, dc) and thresholds q (n, M): (n,)."""
        if self._points is not None:
            return self._points(clouds, q)
        if type(self._score) is ParticleBox:
            cells = self._hazards.index(clouds.reshape(-1, clouds.shape[-1])).reshape(clouds.shape[:2])
            return np.asarray((cells >= 0).sum(axis=1))
        columns = np.hstack([q, np.full((len(q), 1), -1.0)])  # exclude infeasible cells
        found = self._score.count_cells(clouds, finite_columns(columns), self._hazards)
        return np.asarray(with_whole_strata(columns, found, self._hazards).sum(axis=1))


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
        self._runs = hazard_cells(cap, mask, labelled=False)

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
