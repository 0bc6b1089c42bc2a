"""Hazard cells inside a region of particles: the inner loop of a planner.

The search of `capture_cp.kernels.cells` visits every column within reach. Where hazards are few and regions small, as in
most steps of most sequences, it is faster to go through the runs of hazard cells, which are inside or outside as a whole.
That is done in the Euclidean metric; in others, hazard cells are labelled and searched.
"""

from __future__ import annotations

import math

from numba import njit

from capture_cp.base.layouts import EUCLIDEAN
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.scalar import larger, smaller


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
