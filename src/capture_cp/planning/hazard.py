"""Hazard cells inside a region of particles: the inner loop of a planner.

The search of `capture_cp.kernels.cells` visits every column within reach. Where hazards are few and regions small, as in
most steps of most sequences, it is faster to go through the runs of hazard cells, which are inside or outside as a whole.
That is done in the Euclidean metric; in others, hazard cells are labelled and searched.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from capture_cp.base.checks import Bools
from capture_cp.base.layouts import EUCLIDEAN, Columns
from capture_cp.capture.fitted import Fitted
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.cells import Room, index_box, room_for, search
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.scalar import larger, smaller
from capture_cp.planning.kernel import Measure, find_limits, take_cloud
from capture_cp.planning.plugin import Functions
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE, GridStrata, columns_of, grid_of


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


@njit(cache=True, inline="always")
def region_hazard(cloud, limits, k, cells, centre, middle, near, far):
    """Hazard cells inside the region of particles `cloud` (L, dc) with squared thresholds `limits` (M,).

    The spread of the particles around their centre decides for most cells whether they are inside. The last four arguments
    are scratch: (dc,), (dc,), (M,), (M,).
    """
    particles, squares = cloud.shape[0], 0.0
    for axis in range(cloud.shape[1]):
        middle[axis] = _total(cloud, axis) / particles
        squares += _squares(cloud, axis, middle[axis])
    inner, outer = kth_at_most(squares, k, particles)
    furthest = -1.0
    for m in range(limits.shape[0]):
        near[m], far[m] = sure_and_possible(limits[m], inner, outer)
        furthest = max(furthest, far[m])
    count = 0
    first, stop = runs_within(middle, furthest, cells)
    for run in range(first, stop):
        m = cells.stratum[run]
        low, sure_low, sure_high, high = cells_to_test(run, middle, near[m], far[m], cells)
        count += sure_high - sure_low
        for cell in range(low, high):
            if cell < sure_low or cell >= sure_high:
                for axis in range(cloud.shape[1] - 1):
                    centre[axis] = cells.place[run, axis]
                centre[-1] = cells.origin[-1] + cell * cells.spacing[-1]
                count += enough_within(EUCLIDEAN, 1.0, k, limits[m], centre, cloud)
    return count


#: In any order, so that it vectorises: the centre only decides which cells need a closer look.
_IN_ANY_ORDER = {"reassoc"}


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _total(cloud, axis):
    total = 0.0
    for l in range(cloud.shape[0]):
        total += cloud[l, axis]
    return total


@njit(cache=True, fastmath=_IN_ANY_ORDER)
def _squares(cloud, axis, middle):
    total = 0.0
    for l in range(cloud.shape[0]):
        total += (cloud[l, axis] - middle) * (cloud[l, axis] - middle)
    return total


@njit(cache=True)
def kth_at_most(squares, k, particles):
    """Upper bounds on the distances of the k-th nearest and of the k-th farthest particle from a point, without sorting.

    `squares` is the sum of all squared distances: if the k-th nearest of L were farther than r, so would be L - k others,
    and the sum more than (L - k + 1) r². The bounds are slightly enlarged against rounding.
    """
    hair = 1e-9 * (1.0 + math.sqrt(squares))
    # reciprocals, because they stay the same from step to step
    return math.sqrt(squares * (1.0 / (particles - k + 1))) + hair, math.sqrt(squares * (1.0 / k)) + hair


@njit(cache=True)
def sure_and_possible(limit, inner, outer):
    """Distances from the particles' centre within which every cell is inside, and beyond which none is (negative: none).

    A cell this near to the centre has k particles within the threshold; one outside has fewer. `inner` and `outer` bound the
    distances of the k-th nearest and of the k-th farthest particle from the centre.
    """
    q = math.sqrt(max(limit, 0.0))
    return q - inner, q + outer if limit >= 0.0 else -1.0


@njit(cache=True, inline="always")
def runs_within(middle, furthest, cells):
    """The runs that may have cells within `furthest` of the centre (dc,): first, and one after the last."""
    if furthest < 0.0:
        return 0, 0
    from_row = _up(middle[0] - furthest - cells.origin[0], cells.per_spacing[0], 0, cells.shape[0])
    to_row = _past(middle[0] + furthest - cells.origin[0], cells.per_spacing[0], from_row, cells.shape[0])
    return cells.first[from_row], cells.first[to_row]


@njit(cache=True, inline="always")
def cells_to_test(run, middle, near, far, cells):
    """Which cells of a run may be inside: from low to high, without the surely inside ones from sure_low to sure_high.

    `near` and `far` are those of the run's stratum. Returns low, sure_low, sure_high, high: indices on the last axis.
    """
    last = middle.shape[0] - 1
    aside, low = 0.0, cells.begin[run]
    sure_low = sure_high = high = low
    for axis in range(last):
        aside += (cells.place[run, axis] - middle[axis]) ** 2
    if far >= 0.0 and far * far >= aside:
        place, per_spacing = middle[last] - cells.origin[last], cells.per_spacing[last]
        reach = math.sqrt(far * far - aside)
        low = _up(place - reach, per_spacing, cells.begin[run], cells.end[run])
        high = _past(place + reach, per_spacing, low, cells.end[run])
        sure_low = sure_high = high
        if near > 0.0 and near * near > aside:
            reach = math.sqrt(near * near - aside)
            sure_low = _up(place - reach, per_spacing, low, high)
            sure_high = _past(place + reach, per_spacing, sure_low, high)
    return low, sure_low, sure_high, high


@njit(cache=True)
def _up(place, per_spacing, begin, end):
    """The first index from `begin` to `end` that is at a position or beyond; NaN and infinity are safe."""
    return int(math.ceil(smaller(larger(place * per_spacing, 1.0 * begin), 1.0 * end)))


@njit(cache=True)
def _past(place, per_spacing, begin, end):
    """One after the last index from `begin` to `end` that is not beyond a position."""
    return int(math.floor(smaller(larger(place * per_spacing, begin - 1.0), end - 1.0))) + 1


@njit(cache=True, inline="always")
def particle_hazard(cloud, cells):
    """Particles of `cloud` (L, dc) that lie on hazard cells."""
    count = 0
    for l in range(cloud.shape[0]):
        count += is_on_hazard(cloud, l, cells)
    return count


@njit(cache=True, inline="always")
def is_on_hazard(cloud, l, cells):
    """Whether particle l of `cloud` (L, dc) lies on a hazard cell: 0 or 1."""
    cell = cell_of(cloud[l], cells)
    return 1 if cell >= 0 and cells.hazard[cell] else 0


@njit(cache=True, inline="always")
def cell_of(y, cells):
    """The cell of a grid that a configuration y (dc,) lies in, -1 outside."""
    cell, inside = 0, True
    for axis in range(y.shape[0]):
        index = math.floor((y[axis] - cells.origin[axis]) / cells.spacing[axis] + 0.5)
        if cells.periodic[axis]:
            index = index % cells.shape[axis]
        inside = inside and 0 <= index < cells.shape[axis]
        cell = cell * cells.shape[axis] + int(index)
    return cell if inside else -1


# -- along a sequence -----------------------------------------------------------------------------------------------------


class CellRoom(NamedTuple):
    """Scratch arrays to count hazard cells, and the counts of every step."""

    met: Any  # (H,)
    clouds: Any  # (H, L, dc)
    limits: Any  # (M + 1,): of the strata, and -1 for infeasible cells
    near: Any  # (M + 1,)
    far: Any
    centre: Any  # (dc,)
    middle: Any


class SearchRoom(NamedTuple):
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
    limits = np.full(strata, -1.0)
    met, clouds = np.empty(horizon, dtype=np.int64), np.empty((horizon, cal.particles, dc))
    return CellRoom(met, clouds, limits, np.empty(strata), np.empty(strata), np.empty(dc), np.empty(dc))


@njit(cache=True)
def _room_to_search(horizon, ds, cal, cells):
    strata, dc = cal.roots.shape[1] + 1, cal.axes.shape[0]
    met, clouds = np.empty(horizon, dtype=np.int64), np.empty((horizon, cal.particles, dc))
    counts = np.empty(strata, dtype=np.int64)
    room = room_for(cal.particles, dc, cells.shape[dc - 1])
    return SearchRoom(met, clouds, np.full(strata, -1.0), counts, np.empty((2, dc), dtype=np.int64), room)


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


# the user's parameters are not passed on, so that these are compiled once for all of them


@njit(cache=True, inline="always")
def _measure_runs(actions, rolled, cal, runs, params, room):
    _count_runs(actions, rolled, cal, runs, room)


@njit(cache=True, inline="always")
def _measure_labelled(actions, rolled, cal, cells, params, room):
    _count_labelled(actions, rolled, cal, cells, room)


@njit(cache=True, inline="always")
def keep_cloud(h, states, cal, room):
    """Keep the configurations after step h."""
    take_cloud(states, cal.axes, room.clouds[h])


@njit(cache=True)
def cells_met(h, room):
    """The hazard in the region of step h."""
    return room.met[h]


def by_runs(functions: Functions) -> Measure:
    """Counts the runs of hazard cells in regions of the Euclidean metric, see `Runs`."""
    return Measure(_room_for_runs, keep_cloud, _measure_runs, cells_met)


def by_labels(functions: Functions) -> Measure:
    """Counts the labelled hazard cells in regions of any metric that finds cells, see `LabelledCells`."""
    return Measure(_room_to_search, keep_cloud, _measure_labelled, cells_met)
