"""Sums over the cells of regions, for costs that use more of a region than its hazard cells."""

from __future__ import annotations

import math
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit

from capture_cp.base.checks import CaptureError, Floats, finite_array
from capture_cp.base.layouts import ELLIPSOID, PARTICLE_BOX
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.cells import Room, index_box, room_for, search
from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.scalar import pairwise_sum
from capture_cp.planning.hazard import columns_in
from capture_cp.planning.kernel import measured_by, place, put_input, take_cloud, threshold
from capture_cp.planning.plugin import function_of
from capture_cp.spaces.strata import GriddedStrata, columns_of, grid_of


class RegionSums(NamedTuple):
    """What a stage cost receives instead of a number of hazard cells: the regions of the first steps, and all particles.

    The third argument of `stage_cost` is then a `Seen`: mean costs of the particles after every
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


class Seen(NamedTuple):
    """What a stage cost receives about regions and particles."""

    particles: Any  # (H,): mean cost of the particles after each step
    cells: Any  # (n, M + 1): cells of the regions of the first n steps by stratum, infeasible ones last
    sums: Any  # (n,): their summed weights


# -- along a sequence -----------------------------------------------------------------------------------------------------


class _SumRoom(NamedTuple):
    """Scratch arrays to sum over regions, and what was found."""

    seen: Seen
    limits: Any  # (M + 1,)
    whole: Any  # (M,): summed weights of the strata that are contained entirely
    indices: Any  # (2, dc)
    states: Any  # (H, ds, L)
    cloud: Any  # (L, dc), or the mean of a Gaussian, (1, dc)
    still: Any  # (ds, 1): a state whose region is summed
    no_noise: Any  # (dn + 2, 1)
    search: Room


@njit(cache=True)
def _room_to_sum(horizon, ds, cal, summed):
    strata, dc, kept = cal.roots.shape[1], cal.axes.shape[0], min(summed.steps, horizon)
    in_region = 1 if cal.rule == ELLIPSOID else cal.particles
    seen = Seen(np.empty(horizon), np.empty((kept, strata + 1), dtype=np.int64), np.empty(kept))
    limits, whole, indices = np.empty(strata + 1), np.empty(strata), np.empty((2, dc), dtype=np.int64)
    cloud, still, no_noise = np.empty((in_region, dc)), np.empty((ds, 1)), np.zeros((cal.noise_dims + 3, 1))
    room, states = room_for(in_region, dc, summed.shape[dc - 1]), np.empty((horizon, ds, cal.particles))
    return _SumRoom(seen, limits, whole, indices, states, cloud, still, no_noise, room)


@njit(cache=True)
def _sum_region(h, x, states, cal, summed, room, cells):
    """Summed weights of the region of step h, from an input x (dx,) and its particles; its cells into cells (M + 1,)."""
    strata, reach, columns, limits = cal.roots.shape[1], -1.0, columns_in(summed), room.limits
    take_cloud(states, cal.axes, room.cloud)
    for m in range(strata):
        q, room.whole[m] = threshold(cal, h, m, x), 0.0
        if q == math.inf and cal.rule != ELLIPSOID:
            limits[m], room.whole[m] = -1.0, summed.totals[m]
            cells[m] += summed.sizes[m]
        else:
            limits[m] = q if cal.rule == PARTICLE_BOX else squared_limit(q)
            reach = max(reach, q)
    limits[strata] = limits[0] if summed.infeasible else -1.0
    total = pairwise_sum(room.whole)
    if reach >= 0.0:
        first, extent = room.indices
        index_box(cal.rule, cal.length, reach, summed.spread, room.cloud, columns, first, extent)
        total += search(
            cal.rule, cal.length, cal.k, room.cloud, summed.whiten, summed.is_angle, limits, first, extent, columns,
            room.search, cells,
        )  # fmt: skip
    return total


@njit
def _represented(states, called, params, cells):
    """The particles' strata, added to cells (M + 1,), and their summed costs."""
    alone = np.empty(states.shape[1])
    for l in range(states.shape[1]):
        cells[function_of(called, "particle_stratum")(states, l, params)] += 1  # -1 is the last
        alone[l] = function_of(called, "particle_cost")(states, l, params)
    return pairwise_sum(alone)


@njit
def _measure_sums(actions, rolled, cal, summed, called, params, room):
    rolled, cal, summed, params, room = borrowed((rolled, cal, summed, params, room))
    seen, particles = room.seen, cal.particles
    for h in range(actions.shape[0]):
        states = room.states[h]
        seen.particles[h] = 0.0
        for l in range(particles):
            seen.particles[h] += function_of(called, "particle_cost")(states, l, params) / particles
    for h in range(seen.sums.shape[0]):
        shown = room.states[h]
        if cal.rule == ELLIPSOID:  # centred on the step without noise
            shown = room.still
            place(rolled.means[h], shown, rolled.x)
            function_of(called, "step")(shown, actions[h], room.no_noise, params)
        put_input(rolled.x, rolled.means[h], actions[h])
        seen.cells[h] = 0
        seen.sums[h] = _sum_region(h, rolled.x, shown, cal, summed, room, seen.cells[h])
        if seen.cells[h].sum() == 0:  # a region without a cell
            seen.sums[h] = _represented(shown, called, params, seen.cells[h])


@njit(cache=True, inline="always")
def _keep_states(h, states, cal, room):
    for s in range(states.shape[0]):
        for l in range(states.shape[1]):
            room.states[h, s, l] = states[s, l]


@njit(cache=True)
def _all_seen(h, room):
    return room.seen


# -- the regions ---------------------------------------------------------------------------------------------------------


@measured_by(_room_to_sum, _keep_states, _measure_sums, _all_seen)
class Summed(NamedTuple):
    """Which regions are summed, and the sums of strata that are contained entirely."""

    steps: int  # the first steps of a plan
    infeasible: bool  # whether regions include infeasible cells, with the threshold of stratum 0
    sizes: Any  # (M,): cells of each stratum
    totals: Any  # (M,): their summed weights
    whiten: Any  # (dc, dc): of a Gaussian's ellipsoid
    is_angle: Any  # bool (dc,)
    spread: Any  # (dc,): standard deviations
    labels: Any  # of the cells, as in `Columns`, and its other fields
    weights: Any
    present: Any
    origin: Any
    spacing: Any
    shape: Any
    periodic: Any


#: Cell costs, their sums over each stratum, and labels: studies make hundreds of planners from the same few.
_TOTALS: WeakKeyDictionary[GriddedStrata, tuple[Any, Floats, Any]] = WeakKeyDictionary()


def summed_regions(cap: Fitted, sums: RegionSums) -> Summed:
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
    return Summed(steps, infeasible, strata.sizes, totals, *gaussian, *weighed)


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
