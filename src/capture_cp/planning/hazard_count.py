"""How much of a region lies on a hazard, in Python: for the cost of rollouts and for the braking filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.scores import ParticleBox
from capture_cp.planning.point_test import PointTest
from capture_cp.planning.probes import POINTS
from capture_cp.planning.regions import checked_hazard
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
