"""Hazard cells of a grid, and their number in the regions along a sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from capture_cp.base.checks import Bools, CaptureError
from capture_cp.base.layouts import Columns
from capture_cp.capture.fitted import Fitted
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.cells import Room, index_box, room_for, search
from capture_cp.planning.kernel import find_limits, measured_by, take_cloud
from capture_cp.planning.runs import particle_hazard, region_hazard
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE, GridStrata, columns_of, grid_of

# -- along a sequence: what a rollout's kernel finds in the class of its regions ------------------------------------------


class _CellRoom(NamedTuple):
    """Scratch arrays to count hazard cells, and the counts of every step."""

    met: Any  # (H,)
    clouds: Any  # (H, L, dc)
    limits: Any  # (M + 1,): of the strata, and -1 for infeasible cells
    near: Any  # (M + 1,)
    far: Any
    centre: Any  # (dc,)
    middle: Any


class _SearchRoom(NamedTuple):
    """Scratch arrays to search labelled cells, and the counts of every step."""

    met: Any  # (H,)
    clouds: Any  # (H, L, dc)
    limits: Any  # (M + 1,)
    counts: Any
    indices: Any  # (2, dc)
    search: Room


@njit(cache=True, inline="always")
def columns_in(cells):
    """The `Columns` among the fields of a tuple: threads do not take tuples within tuples."""
    whole = cells.labels, cells.weights, cells.present
    return Columns(*whole, cells.origin, cells.spacing, cells.shape, cells.periodic)


@njit(cache=True)
def _room_for_runs(horizon, ds, cal, runs):
    strata, dc = cal.roots.shape[1] + 1, cal.axes.shape[0]
    met, clouds = np.empty(horizon, dtype=np.int64), np.empty((horizon, cal.particles, dc))
    limits = np.full(strata, -1.0)
    return _CellRoom(met, clouds, limits, np.empty(strata), np.empty(strata), np.empty(dc), np.empty(dc))


@njit(cache=True)
def _room_to_search(horizon, ds, cal, cells):
    strata, dc = cal.roots.shape[1] + 1, cal.axes.shape[0]
    met, clouds = np.empty(horizon, dtype=np.int64), np.empty((horizon, cal.particles, dc))
    limits = np.full(strata, -1.0)
    counts, indices = np.empty(strata, dtype=np.int64), np.empty((2, dc), dtype=np.int64)
    return _SearchRoom(met, clouds, limits, counts, indices, room_for(cal.particles, dc, cells.shape[dc - 1]))


@njit(cache=True)
def _count_runs(actions, rolled, cal, runs, room):
    rolled, cal, runs, room = borrowed((rolled, cal, runs, room))
    for h in range(actions.shape[0]):
        cloud, count = room.clouds[h], 0
        find_limits(cal, h, rolled.means[h], actions[h], rolled.x, room.limits)
        if cal.count_cells:
            count += region_hazard(cloud, room.limits, cal.k, runs, room.centre, room.middle, room.near, room.far)
        if cal.count_particles:
            count += particle_hazard(cloud, runs)
        room.met[h] = count


@njit(cache=True)
def _count_labelled(actions, rolled, cal, cells, room):
    rolled, cal, cells, room = borrowed((rolled, cal, cells, room))
    (first, extent), search_room, columns = room.indices, room.search, columns_in(cells)
    for h in range(actions.shape[0]):
        cloud = room.clouds[h]
        reach = find_limits(cal, h, rolled.means[h], actions[h], rolled.x, room.limits)
        room.counts[:] = 0
        if cal.count_cells and reach >= 0.0:
            index_box(cal.rule, cal.length, reach, search_room.centre, cloud, columns, first, extent)
            search(
                cal.rule, cal.length, cal.k, cloud, search_room.corners, cells.periodic, room.limits, first, extent,
                columns, search_room, room.counts,
            )  # fmt: skip
        room.met[h] = room.counts.sum()
        if cal.count_particles:
            room.met[h] += particle_hazard(cloud, cells)


# the user's functions and parameters are not passed on, so that these are compiled once for all of them


@njit(inline="always")
def _measure_runs(actions, rolled, cal, runs, called, params, room):
    _count_runs(actions, rolled, cal, runs, room)


@njit(inline="always")
def _measure_labelled(actions, rolled, cal, cells, called, params, room):
    _count_labelled(actions, rolled, cal, cells, room)


@njit(cache=True, inline="always")
def keep_cloud(h, states, cal, room):
    """Keep the configurations after step h."""
    take_cloud(states, cal.axes, room.clouds[h])


@njit(cache=True)
def hazard_met(h, room):
    """The hazard in the region of step h."""
    return room.met[h]


# -- the cells -----------------------------------------------------------------------------------------------------------


@measured_by(_room_for_runs, keep_cloud, _measure_runs, hazard_met)
class Runs(NamedTuple):
    """Hazard cells of a grid as runs: neighbours along the last axis in the same stratum."""

    hazard: Any  # bool (cells,)
    first: Any  # (n0 + 1,): runs first[i] to first[i + 1] have index i on the first axis
    place: Any  # (runs, dc - 1): configuration on all axes but the last
    begin: Any  # (runs,): indices on the last axis, end excluded
    end: Any
    stratum: Any
    origin: Any
    spacing: Any
    per_spacing: Any  # one over the spacing: multiplication is faster where the last digit does not matter
    shape: Any
    periodic: Any  # bool (dc,)


@measured_by(_room_to_search, keep_cloud, _measure_labelled, hazard_met)
class LabelledCells(NamedTuple):
    """Hazard cells of a grid labelled with their strata, for regions that are not balls: a mask and `Columns`, flat."""

    hazard: Any  # bool (cells,)
    labels: Any
    weights: Any
    present: Any
    origin: Any
    spacing: Any
    shape: Any
    periodic: Any


def hazard_cells(cap: Fitted, hazard: Bools, labelled: bool) -> Runs | LabelledCells:
    """Hazard cells (cells,) as runs, for the Euclidean metric, or labelled, for the search in other metrics."""
    strata = grid_of(cap.strata)
    grid = strata.require_grid()
    # a region that ignores the strata extends into infeasible cells too, with its single threshold
    labels = np.maximum(strata.labels, 0) if cap.ambient_ else strata.labels
    if not labelled:
        return hazard_runs(grid, labels, hazard)
    columns = columns_of(GridStrata(grid, np.where(hazard, labels, INFEASIBLE), strata.names))
    return LabelledCells(hazard, *columns)


def hazard_runs(grid: Grid, labels: npt.NDArray[Any], hazard: Bools) -> Runs:
    """The cells where `hazard` holds and the label is a stratum, in the form kernels need."""
    counted = np.where(hazard & (labels >= 0), labels, -1).reshape(-1, grid.shape[-1])
    rows = len(counted)
    padded = np.hstack([np.full((rows, 1), -1), counted, np.full((rows, 1), -1)])
    edges = padded[:, 1:] != padded[:, :-1]
    if len(grid.shape) == 1:
        edges[:] = True  # rows are single cells here: a longer run could begin before the rows that are searched
    row, begin = map(np.ascontiguousarray, np.nonzero(edges[:, :-1] & (counted >= 0)))  # one type, so one compiled kernel
    end = np.nonzero(edges[:, 1:] & (counted >= 0))[1] + 1
    index = np.stack(np.unravel_index(row * grid.shape[-1] + begin, grid.shape), axis=1)
    first = np.searchsorted(index[:, 0], np.arange(grid.shape[0] + 1))
    place = np.ascontiguousarray(grid.origin[:-1] + index[:, :-1] * grid.spacing[:-1])
    shape = np.array(grid.shape, dtype=np.int64)
    stratum = counted[row, begin].astype(np.int64)
    spacing = grid.spacing, 1.0 / grid.spacing
    periodic = np.isin(np.arange(grid.dims), grid.periodic)
    return Runs(hazard, first, place, begin, end, stratum, grid.origin, *spacing, shape, periodic)


def checked_hazard(hazard: Any, cells: int) -> Bools:
    """A hazard mask as bool (cells,)."""
    mask = np.ravel(np.asarray(hazard))
    if mask.shape != (cells,) or mask.dtype != np.bool_:
        raise CaptureError(
            f"hazard is {mask.dtype} of {mask.size} cells; expected bool, one for each of the grid's {cells}."
        )
    return np.ascontiguousarray(mask)
