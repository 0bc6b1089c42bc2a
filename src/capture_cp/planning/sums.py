"""Sums over the cells of regions, for costs that use more of a region than its hazard cells."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array
from capture_cp.base.layouts import Columns
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.records import Summed
from capture_cp.spaces.strata import GriddedStrata, columns_of, grid_of


class RegionSums(NamedTuple):
    """What a stage cost receives instead of a number of hazard cells: the regions of the first steps, and all particles.

    The third argument of `stage_cost` is then a `capture_cp.planning.records.Seen`: mean costs of the particles after every
    step and, for the regions of the first n steps, their cells by stratum and the sum of `cell_costs` over them. n is 1, or
    the number of steps a `HorizonCapture` was calibrated for. A region without a cell is represented by its particles. The
    cost is called after the whole sequence is rolled out: the cost of step h may use all steps.

    Args:
        cell_costs: cost of every cell of the grid, summed over regions, (cells,); float32 halves the memory traffic.
        particle_cost, particle_stratum: numba functions as in `capture_cp.planning.plugin`.
        infeasible: whether a region that ignores strata, such as an ellipsoid, includes infeasible cells.
        covariance: for Mahalanobis only, of the configuration after the first step, (dc, dc).
    """

    cell_costs: Any
    particle_cost: Any
    particle_stratum: Any
    infeasible: bool = True
    covariance: Any = None


#: Cell costs, their sums over each stratum, and labels: studies make hundreds of planners from the same few.
_TOTALS: WeakKeyDictionary[GriddedStrata, tuple[Any, Floats, Any]] = WeakKeyDictionary()


def summed_regions(cap: Fitted, sums: RegionSums) -> tuple[Summed, Columns]:
    """The data that a kernel needs to sum over the regions of a calibration."""
    strata = grid_of(cap.strata)
    grid, columns = strata.require_grid(), columns_of(strata)
    weights = np.ascontiguousarray(np.ravel(sums.cell_costs))
    if weights.shape != (grid.size,) or weights.dtype.kind != "f":
        raise CaptureError(
            f"cell_costs are {weights.dtype} of {weights.size} cells; expected floats, one for each of the grid's "
            f"{grid.size}."
        )
    if _TOTALS.get(strata, (None,))[0] is not sums.cell_costs:
        each = [weights[strata.labels == m].sum(dtype=np.float64) for m in range(len(strata.names))]
        narrow = np.int8 if len(strata.names) <= 128 else np.int32  # most of a search waits for memory
        _TOTALS[strata] = sums.cell_costs, np.array(each), columns.labels.astype(narrow)
    _, totals, labels = _TOTALS[strata]
    steps = len(cap.steps_)
    infeasible = sums.infeasible and cap.ambient_
    gaussian = _gaussian(cap.score_, sums.covariance, grid.dims)
    weighed = columns._replace(labels=labels, weights=weights.reshape(labels.shape))
    return Summed(steps, infeasible, strata.sizes, totals, *gaussian), weighed


def _gaussian(score: Any, covariance: Any, dims: int) -> tuple[Floats, Any, Floats]:
    """Whitening (dc, dc), which axes are angles, and standard deviations (dc,) of a Gaussian; empty for particles."""
    if type(score) is not Mahalanobis:
        return np.zeros((dims, dims)), np.zeros(dims, dtype=bool), np.zeros(dims)
    if covariance is None:
        raise CaptureError("sums over the regions of Mahalanobis need their covariance after the first step, (dc, dc).")
    cov = finite_array("covariance", covariance, (dims, dims), "(dc, dc): of the configuration after the first step")
    try:
        whiten = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(cov)))
    except np.linalg.LinAlgError:
        raise CaptureError("the covariance is not positive definite; add a small variance to its diagonal.") from None
    return whiten, np.isin(np.arange(dims), list(score.angles)), np.sqrt(np.diagonal(cov))
