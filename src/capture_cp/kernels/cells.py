"""Counts of the cells of regions by stratum, with optional weights: one search for every score, on the CPU and on a GPU.

Cells are searched one column at a time; a column is all cells that differ only on the last axis. The contribution of the
other axes to a score is the same for the whole column, so most columns, and most cells of the remaining columns, are
skipped. A region is described by

- `rule`: EUCLIDEAN or SE2, cells whose k-th nearest particle is within a limit; PARTICLE_BOX, cells no farther than a limit
  outside the box of the particles; ELLIPSOID, cells within a Mahalanobis distance of the mean;
- `length` and `k` of that rule, 1 where unused; `cloud` (L, dc), its particles, or its mean with L = 1;
- `whiten` (dc, dc), lower triangular, and `is_angle` (dc,): for ellipsoids only;
- `limits` (M + 1,), one per stratum and a last one for infeasible cells: squared, except for boxes; a negative limit admits
  nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.layouts import ELLIPSOID, EUCLIDEAN, PARTICLE_BOX, SE2
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.distance import nearest_whole, squared_limit

CIRCLE = math.pi + 1e-9  # beyond this, angles wrap around
FAR = 2.0**52  # in cells: the largest distance at which integers are exact
_HAIR = 1e-9  # relative margin: cells are skipped only where rounding cannot matter


class Room(NamedTuple):
    """Preallocated work arrays, so that a search allocates nothing."""

    centre: Any  # (dc,)
    corners: Any  # (2, dc)
    along: Any  # (L,): particles on the last axis
    across: Any  # (L,): on the axis before it
    before: Any  # (L,): squared distances on the axes before those
    aside: Any  # (L,): squared distances from a column
    stretches: Any  # (L, cells of a column): see `along_term`
    terms: Any
    nears: Any  # (cells of a column,): how many particles each is near


# -- columns --------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def strata_of_columns(labels, strata):
    """Which strata each column of `labels` (columns, cells) contains: bool (columns, M)."""
    present = np.zeros((labels.shape[0], strata), dtype=np.bool_)
    for column in range(labels.shape[0]):
        for cell in range(labels.shape[1]):
            if labels[column, cell] >= 0:
                present[column, labels[column, cell]] = True
    return present


@njit(cache=True)
def column_count(extent):
    """Number of columns of an index box of `extent` (dc,)."""
    total = 1
    for axis in range(extent.shape[0] - 1):
        total *= extent[axis]
    return total


@njit(cache=True)
def column_at(number, first, extent, origin, spacing, shape, centre):
    """The `number`-th column of an index box; its position is written to `centre` (dc,). Indices wrap.

    It takes the arrays of `Columns`, not the tuple: copying the tuple would take longer than the work.
    """
    column, stride = 0, 1
    for back in range(1, extent.shape[0]):
        axis = extent.shape[0] - 1 - back
        index = (first[axis] + number % extent[axis]) % shape[axis]
        number //= extent[axis]
        centre[axis] = origin[axis] + index * spacing[axis]
        column += index * stride
        stride *= shape[axis]
    return column


@njit(cache=True)
def cell_at(t, first, cells):
    """Index of the t-th cell of a column from `first` on; it wraps."""
    index = first + t
    return index if index < cells else index - cells


@njit(cache=True)
def largest(limits):
    """The largest limit, -1 if none admits anything."""
    top = -1.0
    for m in range(limits.shape[0]):
        top = max(top, limits[m])
    return top


@njit(cache=True)
def widest_limit(limits, present, column):
    """The largest limit of the strata that a column contains, -1 if none of them admits anything."""
    widest = max(limits[present.shape[1]], -1.0)
    for m in range(present.shape[1]):
        if present[column, m] and limits[m] > widest:
            widest = limits[m]
    return widest


@njit(cache=True)
def cells_between(low, high, is_angle, first, extent, origin, spacing, cells):
    """Cells of a column between two values: first and one past the last, among the `extent` cells from `first` on.

    Returns the whole column where it wraps, or where the angles wrap. Infinite values are allowed.
    """
    end = origin + spacing * (cells - 1)
    if first + extent > cells or (is_angle and not (min(low, origin) >= -CIRCLE and max(high, end) <= CIRCLE)):
        return 0, extent
    start = int(math.floor(max(min((low - origin) / spacing, FAR), -FAR))) - first
    stop = int(math.ceil(max(min((high - origin) / spacing, FAR), -FAR))) + 1 - first
    return max(start, 0), min(stop, extent)


@njit(cache=True)
def index_box(rule, length, reach, spread, cloud, columns, first, extent):
    """First index and extent (dc,) of a box of cells that contains every cell within `reach` of `cloud` (L, dc).

    `spread` (dc,) are the standard deviations of an ellipsoid.
    """
    for axis in range(cloud.shape[1]):
        low, high = cloud[0, axis], cloud[0, axis]
        for l in range(1, cloud.shape[0]):
            low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        grow = reach / length if rule == SE2 and axis == 2 else reach
        if rule == ELLIPSOID:
            grow = reach * spread[axis]
        low, high = low - grow, high + grow
        if rule == SE2 and axis == 2 and (low < -math.pi or high > math.pi):
            low, high = -math.inf, math.inf  # the interval wraps around
        origin, spacing, size = columns.origin[axis], columns.spacing[axis], columns.shape[axis]
        begin, end = (low - origin) / spacing, (high - origin) / spacing
        begin, end = int(math.floor(max(begin, -FAR))), int(math.ceil(min(end, FAR)))  # infinity has no integer value
        if columns.periodic[axis] and end - begin + 1 < size:
            first[axis], extent[axis] = begin % size, end - begin + 1
        elif columns.periodic[axis]:
            first[axis], extent[axis] = 0, size
        else:
            begin, end = min(max(begin, 0), size), max(min(end, size - 1), -1)
            first[axis], extent[axis] = begin, max(end - begin + 1, 0)


# -- regions near k particles ---------------------------------------------------------------------------------------------


@njit(cache=True)
def along_term(rule, length, particle, value):
    """Contribution of the last axis: the factor on the other axes' part, and the additive term. See `squared_distance`."""
    if rule == EUCLIDEAN:
        return 1.0, (value - particle) * (value - particle)
    omega = particle - value
    omega -= 2.0 * math.pi * nearest_whole(omega / (2.0 * math.pi))
    half = 0.5 * omega
    stretch = half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0
    return stretch, (length * omega) * (length * omega)


@njit(cache=True)
def _place_particles(rule, length, cloud, begin, extent, origin, spacing, cells, along, across, stretches, terms):
    """Write the parts of distances that are the same for all columns."""
    last = cloud.shape[1] - 1
    for l in range(cloud.shape[0]):
        along[l], across[l] = cloud[l, last], cloud[l, last - 1] if last > 0 else 0.0
        for t in range(extent):
            value = origin[last] + cell_at(t, begin, cells) * spacing[last]
            stretches[l, t], terms[l, t] = along_term(rule, length, along[l], value)


@njit(cache=True)
def _middle(values, k):
    """The k-th lowest and the k-th highest of some numbers: what is far below or above has fewer than k of them near."""
    lowest, highest = math.inf, -math.inf
    for value in values:
        below, above = 0, 0
        for other in values:
            below += other <= value
            above += other >= value
        lowest = value if below >= k and value < lowest else lowest
        highest = value if above >= k and value > highest else highest
    return lowest, highest


@njit(cache=True)
def _distances_before(cloud, centre, before):
    """Squared distances of particles on all axes but the last two, into before (L,)."""
    for l in range(cloud.shape[0]):
        before[l] = 0.0
        for axis in range(cloud.shape[1] - 2):
            step = cloud[l, axis] - centre[axis]
            before[l] += step * step


@njit(cache=True)
def _distances_aside(across, before, place, aside):
    """Squared distances on all axes but the last, into aside (L,)."""
    for l in range(aside.shape[0]):
        step = across[l] - place
        aside[l] = before[l] + step * step


@njit(cache=True)
def _reach(squares, widest, k):
    """How far a cell within squared distance `widest` of k particles can be from them on the axes that are left; or -1.

    `squares` (L,) are the squared distances on the other axes.
    """
    near, least = 0, widest
    for l in range(squares.shape[0]):
        near += squares[l] <= widest
        least = squares[l] if squares[l] < least else least
    return math.sqrt(widest - least) * (1.0 + _HAIR) if near >= k else -1.0


@njit(cache=True)
def _near_cells(aside, stretches, terms, start, n, limit, nears):
    """How many particles each of n cells of a column is within a squared distance of, from the `start`-th cell on."""
    for i in range(n):
        nears[i] = 0
    for l in range(aside.shape[0]):
        for i in range(n):
            t = np.uint64(start) + np.uint64(i)  # unsigned: a negative index would count from the end
            nears[i] += aside[l] * stretches[l, t] * stretches[l, t] + terms[l, t] <= limit


@njit(cache=True)
def _near_particles(rule, length, k, cloud, limits, first, extent, columns, room, counts):
    # every array in a variable of its own: taken from a tuple in a loop, its references would be counted there
    labels, weights, present, origin, spacing, shape, _ = columns
    centre, _, along, across, before, aside, stretches, terms, nears = room
    last, total, top = cloud.shape[1] - 1, 0.0, largest(limits)
    second = max(last - 1, 0)
    begin, cells, beside = first[last], shape[last], max(extent[second], 1) if last > 0 else 1
    _place_particles(rule, length, cloud, begin, extent[last], origin, spacing, cells, along, across, stretches, terms)
    (lowest, highest), (leftmost, rightmost) = _middle(along, k), _middle(across, k)
    for row in range(column_count(extent) // beside):
        row_at = column_at(row * beside, first, extent, origin, spacing, shape, centre)
        _distances_before(cloud, centre, before)
        reach, begins, stops = _reach(before, top, k), 0, 1
        if reach < 0.0:
            continue
        if last > 0:
            begins, stops = cells_between(
                leftmost - reach, rightmost + reach, False, first[second], extent[second], origin[second], spacing[second],
                shape[second],
            )  # fmt: skip
        for b in range(begins, stops):
            column, place = row_at, 0.0
            if last > 0:
                index = cell_at(b, first[second], shape[second])
                column, place = row_at + index - first[second], origin[second] + index * spacing[second]
            _distances_aside(across, before, place, aside)
            reach = _reach(aside, widest_limit(limits, present, column), k) / length
            if reach < 0.0:
                continue
            start, stop = cells_between(
                lowest - reach, highest + reach, rule == SE2, begin, extent[last], origin[last], spacing[last], cells
            )  # fmt: skip
            while start < stop:
                m, end = labels[column, cell_at(start, begin, cells)], start + 1
                while end < stop and labels[column, cell_at(end, begin, cells)] == m:
                    end += 1
                if limits[m] >= 0.0:  # label -1 is the last entry
                    _near_cells(aside, stretches, terms, start, end - start, limits[m], nears)
                    for i in range(end - start):
                        counts[m] += nears[i] >= k
                        if weights.shape[0] > 0 and nears[i] >= k:
                            total += weights[column, cell_at(start + i, begin, cells)]
                start = end
    return total


# -- boxes and ellipsoids -------------------------------------------------------------------------------------------------


@njit(cache=True)
def _corners(cloud, corners):
    """Least and greatest values of a cloud (L, dc) on each axis, into corners (2, dc); an empty interval if any is NaN."""
    for axis in range(cloud.shape[1]):
        low, high = math.inf, -math.inf
        for l in range(cloud.shape[0]):
            low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        for l in range(cloud.shape[0]):
            if math.isnan(cloud[l, axis]):
                low, high = math.inf, -math.inf
        corners[0, axis], corners[1, axis] = low, high


@njit(cache=True)
def _step(from_place, to_place, is_angle):
    step = to_place - from_place
    return step - 2.0 * math.pi * nearest_whole(step / (2.0 * math.pi)) if is_angle else step


@njit(cache=True)
def _whitened(whiten, is_angle, mean, centre):
    """A column's position multiplied by W: squared length of all components but the last, and its part of the last one."""
    last, total, z = mean.shape[0] - 1, 0.0, 0.0
    for row in range(last + 1):
        z = 0.0
        for axis in range(min(row + 1, last)):
            z += whiten[row, axis] * _step(mean[axis], centre[axis], is_angle[axis])
        if row < last:
            total += z * z
    return total, z


@njit(cache=True)
def _in_shape(rule, cloud, whiten, is_angle, limits, first, extent, columns, room, counts):
    """Cells in the box of the particles, or in an ellipsoid, whose mean is the only particle."""
    labels, weights, present, origin, spacing, shape, _ = columns
    centre, corners, _, _, _, _, _, parts, _ = room
    last, total, top, scale = cloud.shape[1] - 1, 0.0, largest(limits), whiten[-1, -1]
    begin, cells, turns, rounded = first[last], shape[last], is_angle[last] and rule == ELLIPSOID, rule == ELLIPSOID
    _corners(cloud, corners)
    low, high = corners[0], corners[1]
    for t in range(extent[last]):
        value = origin[last] + cell_at(t, begin, cells) * spacing[last]
        outside = max(low[last] - value, value - high[last])
        parts[0, t] = scale * _step(cloud[0, last], value, turns) if rounded else outside
    for number in range(column_count(extent)):
        column, aside, turned = column_at(number, first, extent, origin, spacing, shape, centre), 0.0, 0.0
        if rounded:
            aside, turned = _whitened(whiten, is_angle, cloud[0], centre)
        else:
            for axis in range(last):
                aside = max(aside, max(low[axis] - centre[axis], centre[axis] - high[axis]))
        widest = widest_limit(limits, present, column) if aside <= top else -1.0
        if not aside <= widest:
            continue
        lowest, highest = low[last] - widest, high[last] + widest
        if rounded:
            reach = math.sqrt(widest - aside) * (1.0 + _HAIR)
            lowest, highest = low[last] - (turned + reach) / scale, low[last] + (reach - turned) / scale
        start, stop = cells_between(lowest, highest, turns, begin, extent[last], origin[last], spacing[last], cells)
        for t in range(start, stop):
            cell = cell_at(t, begin, cells)
            m, part = labels[column, cell], turned + parts[0, t]
            if (aside + part * part if rounded else max(aside, part)) <= limits[m]:
                counts[m] += 1
                if weights.shape[0] > 0:
                    total += weights[column, cell]
    return total


# -- one region, and many -------------------------------------------------------------------------------------------------


@njit(cache=True)
def search(rule, length, k, cloud, whiten, is_angle, limits, first, extent, columns, room, counts):
    """Add the cells of one region to counts (M + 1,), infeasible ones last, and return their summed weights.

    `first` and `extent` (dc,) are an index box that contains every candidate cell.
    """
    if rule in (PARTICLE_BOX, ELLIPSOID):
        return _in_shape(rule, cloud, whiten, is_angle, limits, first, extent, columns, room, counts)
    return _near_particles(rule, length, k, cloud, limits, first, extent, columns, room, counts)


@njit(cache=True)
def room_for(particles, dims, cells):
    """Work arrays for a search of columns with this many cells."""
    rows, tables = np.empty((4, particles)), np.empty((2, particles, cells))
    return Room(
        np.empty(dims), np.empty((2, dims)), rows[0], rows[1], rows[2], rows[3], tables[0], tables[1],
        np.empty(cells, dtype=np.int64),
    )  # fmt: skip


@parallel_kernel(cache=True)
def count_cells(regions, q, first, extent, columns):
    """Cells of every region, by stratum: (n, M + 1), infeasible cells last.

    `q` (n, M + 1) are the thresholds, negative where nothing is admitted; `first` and `extent` (n, dc) are index boxes that
    contain every candidate cell.
    """
    n, dims = first.shape
    counts = np.zeros(q.shape, dtype=np.int64)
    particles, k, along = regions.clouds.shape[1], regions.k, columns.shape[dims - 1]
    for i in prange(n):
        limits = np.empty(q.shape[1])
        for m in range(q.shape[1]):
            limits[m] = q[i, m] if regions.rule == PARTICLE_BOX else squared_limit(q[i, m])
        room = room_for(particles, dims, along)
        whiten = regions.whiten[min(np.int64(i), regions.whiten.shape[0] - 1)]
        search(
            regions.rule, regions.length, k, regions.clouds[i], whiten, regions.is_angle, limits, first[i], extent[i],
            columns, room, counts[i],
        )  # fmt: skip
    return counts
