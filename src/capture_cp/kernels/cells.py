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
from capture_cp.kernels.compiler import WithoutCopies, parallel_kernel
from capture_cp.kernels.distance import nearest_whole, squared_limit
from capture_cp.kernels.eight import (
    EIGHT,
    SIXTEEN,
    alike,
    at_most,
    chosen,
    count,
    load,
    minus,
    plus,
    root,
    spread,
    store,
    times,
)

CIRCLE = math.pi + 1e-9  # beyond this, angles wrap around
FAR = 2.0**52  # in cells: the largest distance at which integers are exact
MANY = 64  # column length above which it pays to compute which cells of an ellipsoid are within reach
_HAIR = 1e-9  # relative margin: cells are skipped only where rounding cannot matter


class Room(NamedTuple):
    """Preallocated work arrays, so that a search allocates nothing."""

    centre: Any  # (dc,)
    corners: Any  # (2, dc)
    lanes: Any  # (6, P): rows of particles, P a multiple of EIGHT: on the last two axes, distances before and aside, scratch
    terms: Any  # (2, cells of a column, P)


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


@njit(cache=True, inline="always")
def column_count(extent):
    """Number of columns of an index box of `extent` (dc,)."""
    total = 1
    for axis in range(extent.shape[0] - 1):
        total *= extent[axis]
    return total


@njit(cache=True, inline="always")
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


@njit(cache=True, inline="always")
def column_beside(column, b, first, origin, spacing, shape, centre):
    """The column after `column` of an index box, b columns from its start on the second-to-last axis: no divisions."""
    axis = first.shape[0] - 2
    index = first[axis] + b
    index = index if index < shape[axis] else index - shape[axis]
    centre[axis] = origin[axis] + index * spacing[axis]
    return column + 1 if index > 0 else column + 1 - shape[axis]


@njit(cache=True, inline="always")
def cell_at(t, first, cells):
    """Index of the t-th cell of a column from `first` on; it wraps."""
    index = first + t
    return index if index < cells else index - cells


@njit(cache=True, inline="always")
def largest(limits):
    """The largest limit, -1 if none admits anything."""
    top = -1.0
    for m in range(limits.shape[0]):
        top = max(top, limits[m])
    return top


@njit(cache=True, inline="always")
def widest_limit(limits, present, column):
    """The largest limit of the strata that a column contains, -1 if none of them admits anything."""
    widest = max(limits[present.shape[1]], -1.0)
    for m in range(present.shape[1]):
        if present[column, m] and limits[m] > widest:
            widest = limits[m]
    return widest


@njit(cache=True, inline="always")
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


@njit(cache=True, inline="always")
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


@njit(cache=True, inline="always")
def squared_aside(cloud, l, centre):
    """Contribution of all axes but the last to the squared distance between particle l of a cloud (L, dc) and a column.

    A lower bound where the last axis is an angle.
    """
    total = 0.0
    for axis in range(cloud.shape[1] - 1):
        step = cloud[l, axis] - centre[axis]
        total += step * step
    return total


@njit(cache=True, inline="always")
def along_term(rule, length, particle, value):
    """Contribution of the last axis: the factor on the other axes' part, and the additive term. See `squared_distance`."""
    if rule == EUCLIDEAN:
        return 1.0, (value - particle) * (value - particle)
    omega = particle - value
    omega -= 2.0 * math.pi * nearest_whole(omega / (2.0 * math.pi))
    half = 0.5 * omega
    stretch = half / math.sin(half) if abs(half) > 1e-4 else 1.0 + half * half / 6.0
    return stretch, (length * omega) * (length * omega)


@njit(cache=True, inline="always")
def reach_along(particle, aside, widest, length):
    """Interval on the last axis in which a cell can be within squared distance `widest` (>= `aside`) of a particle."""
    reach = math.sqrt(widest - aside) / length * (1.0 + _HAIR)
    return particle - reach, particle + reach


@njit(cache=True, inline="always")
def _kth_smallest(values, k):
    """The k-th smallest entry of an array whose length is a multiple of EIGHT; NaN counts for nothing."""
    smallest = math.inf
    for j in range(values.shape[0]):
        value, upto = values[j], 0
        for l in range(0, values.shape[0], EIGHT):
            upto += count(at_most(load(values, l), spread(value)))
        smallest = value if upto >= k and value < smallest else smallest
    return smallest


@njit(cache=True, inline="always")
def _kth_ends(places, aside, widest, k, length, starts, ends):
    """Interval on an axis in which a cell can be within squared distance `widest` of k particles.

    `places` (P,) are the particles' positions on the axis, `aside` (P,) the contribution of the axes before it. A cell
    within reach of k particles is above the k-th lowest start of their intervals and below the k-th highest end. The last
    two arguments are scratch.
    """
    never, longer = spread(math.inf), spread((1.0 + _HAIR) / length)
    for l in range(0, places.shape[0], EIGHT):
        other, place = load(aside, l), load(places, l)
        near, reach = at_most(other, spread(widest)), times(root(minus(spread(widest), other)), longer)
        store(starts, l, chosen(near, minus(place, reach), never))
        store(ends, l, chosen(near, minus(spread(0.0), plus(place, reach)), never))
    return _kth_smallest(starts, k), -_kth_smallest(ends, k)


@njit(cache=True, inline="always")
def _end_of_run(labels, column, t, stop, begin, cells):
    """One past the last cell of a column, from its t-th cell up to `stop`, that has the label of the t-th."""
    cell = cell_at(t, begin, cells)
    label, index, stop, end, same = labels[column, cell], column * cells + cell, min(stop, t + cells - cell), t, SIXTEEN
    while same == SIXTEEN and end < stop and index + SIXTEEN <= labels.size:
        same = alike(labels, index, label)
        end, index = end + same, index + SIXTEEN
    while same == SIXTEEN and end < stop and labels[column, cell + end - t] == label:
        end += 1
    return min(end, stop)


@njit(cache=True, inline="always")
def _near_at(aside, terms, particles, t, l, limit):
    """How many of eight particles, from l on, are within a squared distance of the t-th cell of a column."""
    stretch, row = load(terms, t * particles + l), terms.shape[1] + t
    apart = plus(times(times(load(aside, l), stretch), stretch), load(terms, row * particles + l))
    return count(at_most(apart, spread(limit)))


@njit(cache=True, inline="always")
def _near_run(aside, terms, particles, k, limit, first, stop, weights, column, begin, cells, total):
    """Cells of a column, from `first` to `stop`, near k particles: their number, and `total` plus their weights."""
    found = 0
    for t in range(first, stop):
        near = _near_at(aside, terms, particles, t, 0, limit)
        for l in range(EIGHT, particles, EIGHT):
            near += _near_at(aside, terms, particles, t, l, limit)
        found += near >= k
        if weights.shape[0] > 0:
            total += weights[column, cell_at(t, begin, cells)] if near >= k else 0.0
    return found, total


@njit(cache=True, inline="always")
def _place_particles(rule, length, cloud, first, extent, columns, room):
    """Write the parts of distances that are the same for all columns into `room`; NaN for no particle."""
    last, at, across, before = cloud.shape[1] - 1, room.lanes[0], room.lanes[1], room.lanes[2]
    begin, origin, pitch, cells = first[last], columns.origin[last], columns.spacing[last], columns.shape[last]
    for l in range(cloud.shape[0], at.shape[0]):
        at[l], across[l], before[l] = math.nan, math.nan, math.nan
    for l in range(cloud.shape[0]):
        at[l], across[l] = cloud[l, last], cloud[l, last - 1] if last > 0 else 0.0
    for t in range(extent[last]):
        value = origin + cell_at(t, begin, cells) * pitch
        for l in range(cloud.shape[0]):
            room.terms[0, t, l], room.terms[1, t, l] = along_term(rule, length, cloud[l, last], value)


@njit(cache=True, inline="always")
def _columns_of_row(cloud, k, top, centre, first, extent, columns, room):
    """Columns of a row, which differ on the second-to-last axis, that can be near k particles: first, one past the last.

    The squared distances on the axes before it are written to `room`.
    """
    last, across, before, near = cloud.shape[1] - 1, room.lanes[1], room.lanes[2], 0
    for l in range(cloud.shape[0]):
        before[l] = 0.0
        for axis in range(last - 1):
            step = cloud[l, axis] - centre[axis]
            before[l] += step * step
        near += before[l] <= top
    start, stop = 0, 1 if near >= k else 0
    if last > 0 and near >= k:
        low, high = _kth_ends(across, before, top, k, 1.0, room.lanes[4], room.lanes[5])
        beside, origin, spacing = last - 1, columns.origin[last - 1], columns.spacing[last - 1]
        start, stop = cells_between(
            low, high, False, first[beside], extent[beside], origin, spacing, columns.shape[beside]
        )  # fmt: skip
    return start, stop


@njit(cache=True, pipeline_class=WithoutCopies)
def _near_particles(rule, length, k, cloud, limits, first, extent, columns, room, counts):
    last, total, top, leader = cloud.shape[1] - 1, 0.0, largest(limits), 0
    labels, weights, present = columns.labels, columns.weights, columns.present
    origin, spacing, shape, centre = columns.origin, columns.spacing, columns.shape, room.centre
    begin, start_at, pitch, cells = first[last], origin[last], spacing[last], shape[last]
    across, before, aside, terms, particles = room.lanes[1], room.lanes[2], room.lanes[3], room.terms, room.terms.shape[2]
    beside = max(extent[last - 1], 1) if last > 0 else 1
    _place_particles(rule, length, cloud, first, extent, columns, room)
    for m in range(present.shape[1]):
        leader = m if limits[m] > limits[leader] else leader
    for row in range(column_count(extent) // beside):
        row_at = column_at(row * beside, first, extent, origin, spacing, shape, centre)
        begins, ends = _columns_of_row(cloud, k, top, centre, first, extent, columns, room)
        for b in range(begins, ends):
            column, place, near = row_at, 0.0, 0
            if last > 0:
                index = cell_at(b, first[last - 1], shape[last - 1])
                column, place = row_at + index - first[last - 1], origin[last - 1] + index * spacing[last - 1]
            widest = top if present[column, leader] else widest_limit(limits, present, column)
            for l in range(0, particles, EIGHT):
                step = minus(load(across, l), spread(place))
                squares = plus(load(before, l), times(step, step))
                store(aside, l, squares)
                near += count(at_most(squares, spread(widest)))
            if near < k:
                continue
            low, high = _kth_ends(room.lanes[0], aside, widest, k, length, room.lanes[4], room.lanes[5])
            t, stop = cells_between(low, high, rule == SE2, begin, extent[last], start_at, pitch, cells)
            while t < stop:
                m, end = labels[column, cell_at(t, begin, cells)], _end_of_run(labels, column, t, stop, begin, cells)
                if limits[m] >= 0.0:
                    # a number of particles that the compiler knows: without a loop over them
                    if particles == EIGHT:
                        found, total = _near_run(
                            aside, terms, EIGHT, k, limits[m], t, end, weights, column, begin, cells, total
                        )  # fmt: skip
                    else:
                        found, total = _near_run(
                            aside, terms, particles, k, limits[m], t, end, weights, column, begin, cells, total
                        )  # fmt: skip
                    counts[m] += found  # label -1 is the last entry
                t = end
    return total


# -- boxes and ellipsoids -------------------------------------------------------------------------------------------------


@njit(cache=True, inline="always")
def box_corners(cloud, axis):
    """Minimum and maximum of a cloud (L, dc) on one axis; an empty interval if any value is NaN."""
    low, high = math.inf, -math.inf
    for l in range(cloud.shape[0]):
        low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
        if math.isnan(cloud[l, axis]):
            return math.inf, -math.inf
    return low, high


@njit(cache=True, inline="always")
def outside_corners(corners, axis, value):
    """How far a value is outside two corners (2, dc) on one axis, negative inside."""
    return max(corners[0, axis] - value, value - corners[1, axis])


@njit(cache=True, inline="always")
def whitened(whiten, is_angle, mean, centre):
    """A column's position multiplied by W: squared length of all components but the last, and its part of the last one."""
    last, total, z = mean.shape[0] - 1, 0.0, 0.0
    for row in range(last + 1):
        z = 0.0
        for axis in range(min(row + 1, last)):
            step = centre[axis] - mean[axis]
            if is_angle[axis]:
                step -= 2.0 * math.pi * nearest_whole(step / (2.0 * math.pi))
            z += whiten[row, axis] * step
        if row < last:
            total += z * z
    return total, z


@njit(cache=True, inline="always")
def whitened_along(whiten, is_angle, mean, value):
    """The part of the last whitened component that a value on the last axis contributes."""
    last = mean.shape[0] - 1
    step = value - mean[last]
    if is_angle[last]:
        step -= 2.0 * math.pi * nearest_whole(step / (2.0 * math.pi))
    return whiten[last, last] * step


@njit(cache=True, inline="always")
def ellipsoid_along(whiten, mean, widest, aside, turned):
    """Interval on the last axis in which a cell of a column can be within squared distance `widest`."""
    last = mean.shape[0] - 1
    reach = math.sqrt(widest - aside) * (1.0 + _HAIR)
    low = mean[last] + (-turned - reach) / whiten[last, last]
    high = mean[last] + (-turned + reach) / whiten[last, last]
    return low, high


@njit(cache=True, pipeline_class=WithoutCopies)
def _in_box(cloud, limits, first, extent, columns, room, counts):
    last, total = cloud.shape[1] - 1, 0.0
    held, run, limit = -1, 0, limits[-1]
    labels, weights, present = columns.labels, columns.weights, columns.present
    origin, spacing, shape, weighs = columns.origin, columns.spacing, columns.shape, columns.weights.shape[0] > 0
    begin, start_at, pitch, cells = first[last], origin[last], spacing[last], shape[last]
    centre, corners = room.centre, room.corners
    for axis in range(last + 1):
        corners[0, axis], corners[1, axis] = box_corners(cloud, axis)
    column, b, beside = 0, 0, extent[last - 1] if last > 0 else 1
    for number in range(column_count(extent)):
        if b == 0:
            column = column_at(number, first, extent, origin, spacing, shape, centre)
        else:
            column = column_beside(column, b, first, origin, spacing, shape, centre)
        b = b + 1 if b + 1 < beside else 0
        widest, aside = widest_limit(limits, present, column), 0.0
        for axis in range(last):
            aside = max(aside, outside_corners(corners, axis, centre[axis]))
        if aside <= widest:
            low, high = corners[0, last] - widest, corners[1, last] + widest
            start, stop = cells_between(
                low, high, False, begin, extent[last], start_at, pitch, cells
            )  # fmt: skip
            for t in range(start, stop):
                cell = cell_at(t, begin, cells)
                m = labels[column, cell]
                if m != held:
                    counts[held] += run
                    held, run, limit = m, 0, limits[m]
                if max(aside, outside_corners(corners, last, start_at + cell * pitch)) <= limit:
                    run += 1
                    if weighs:
                        total += weights[column, cell]
    counts[held] += run
    return total


@njit(cache=True, pipeline_class=WithoutCopies)
def _in_ellipsoid(cloud, whiten, is_angle, limits, first, extent, columns, room, counts):
    last, mean, total = cloud.shape[1] - 1, cloud[0], 0.0
    held, run, limit = -1, 0, limits[-1]
    labels, weights, present = columns.labels, columns.weights, columns.present
    origin, spacing, shape, weighs = columns.origin, columns.spacing, columns.shape, columns.weights.shape[0] > 0
    begin, start_at, pitch, cells = first[last], origin[last], spacing[last], shape[last]
    centre, along, plain = room.centre, room.terms[0, :, 0], last == 2 and not (is_angle[0] or is_angle[min(last, 1)])
    top = largest(limits)
    for t in range(extent[last]):
        value = start_at + cell_at(t, begin, cells) * pitch
        along[t] = whitened_along(whiten, is_angle, mean, value)
    column, b, beside = 0, 0, extent[last - 1] if last > 0 else 1
    for number in range(column_count(extent)):
        if b == 0:
            column = column_at(number, first, extent, origin, spacing, shape, centre)
        else:
            column = column_beside(column, b, first, origin, spacing, shape, centre)
        b = b + 1 if b + 1 < beside else 0
        if plain:
            # the same sums, written out: for most columns nothing else is computed
            dx, dy = centre[0] - mean[0], centre[1] - mean[1]
            first_z, second_z = whiten[0, 0] * dx, whiten[1, 0] * dx + whiten[1, 1] * dy
            aside, turned = first_z * first_z + second_z * second_z, whiten[2, 0] * dx + whiten[2, 1] * dy
        else:
            aside, turned = whitened(whiten, is_angle, mean, centre)
        widest = widest_limit(limits, present, column) if aside <= top else -1.0
        if aside <= widest:
            start, stop = 0, extent[last]
            if stop > MANY:
                low, high = ellipsoid_along(whiten, mean, widest, aside, turned)
                start, stop = cells_between(low, high, is_angle[last], begin, extent[last], start_at, pitch, cells)
            for t in range(start, stop):
                cell, z = cell_at(t, begin, cells), turned + along[t]
                m = labels[column, cell]
                if m != held:
                    counts[held] += run
                    held, run, limit = m, 0, limits[m]
                if aside + z * z <= limit:
                    run += 1
                    if weighs:
                        total += weights[column, cell]
    counts[held] += run
    return total


# -- one region, and many -------------------------------------------------------------------------------------------------


@njit(cache=True)
def search(rule, length, k, cloud, whiten, is_angle, limits, first, extent, columns, room, counts):
    """Add the cells of one region to counts (M + 1,), infeasible ones last, and return their summed weights.

    `first` and `extent` (dc,) are an index box that contains every candidate cell.
    """
    if rule == PARTICLE_BOX:
        return _in_box(cloud, limits, first, extent, columns, room, counts)
    if rule == ELLIPSOID:
        return _in_ellipsoid(cloud, whiten, is_angle, limits, first, extent, columns, room, counts)
    return _near_particles(rule, length, k, cloud, limits, first, extent, columns, room, counts)


@njit(cache=True)
def room_for(particles, dims, cells):
    """Work arrays for a search of columns with this many cells."""
    padded = (particles + EIGHT - 1) // EIGHT * EIGHT
    return Room(np.empty(dims), np.empty((2, dims)), np.empty((6, padded)), np.empty((2, cells, padded)))


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
