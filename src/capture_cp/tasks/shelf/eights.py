"""Clearances and strata of eight configurations at once: their frames in vectors, exact distances one by one.

The results are those of `model.hazard` and `model.stratum` for each configuration.
"""

from __future__ import annotations

from numba import njit

from capture_cp.kernels.compiler import WithoutCopies
from capture_cp.kernels.eight import EIGHT, at_most, chosen, count, load, root, spread, store, whole_below
from capture_cp.kernels.scratch import scratch
from capture_cp.kernels.swept import rotated, shifted
from capture_cp.kernels.trig import within_eighth
from capture_cp.tasks.shelf.geometry import (
    FAR,
    capsule_glass,
    carried,
    contact_bit,
    stratum_of_contacts,
)

_JOINTS = 7


@njit(cache=True, error_model="numpy", inline="always")
def _cosines_sines(angle):
    """`cosine_sine` of eight angles."""
    quarters, c, s = within_eighth(angle)
    half = whole_below(0.5 * quarters)
    even = at_most(quarters - 2.0 * half, spread(0.0))
    sign = 1.0 - 2.0 * (half - 2.0 * whole_below(0.5 * half))
    return sign * chosen(even, c, 0.0 - s), sign * chosen(even, s, c)


@njit(cache=True, error_model="numpy", inline="always")
def _world():
    zero, one = spread(0.0), spread(1.0)
    return zero, zero, zero, one, zero, zero, zero, one, zero, zero, zero, one


@njit(cache=True, error_model="numpy", inline="always")
def _between(value, low, high):
    """Eight values, those outside an interval moved to its end."""
    value = chosen(at_most(value, spread(low)), spread(low), value)
    return chosen(at_most(value, spread(high)), value, spread(high))


@njit(cache=True, error_model="numpy", inline="always")
def _lane(frames, l):
    """One of eight frames (12, 8)."""
    return (
        frames[0, l], frames[1, l], frames[2, l], frames[3, l], frames[4, l], frames[5, l],
        frames[6, l], frames[7, l], frames[8, l], frames[9, l], frames[10, l], frames[11, l],
    )  # fmt: skip


@njit(cache=True, error_model="numpy", inline="always")
def _approach(frame, capsules, balls, glasses, c, margin, frames, bounds, least):
    """Lower the clearances least (1, 8) to those of capsule c, on a link with these eight frames; the rest is scratch."""
    for number in range(12):
        store(frames, number * EIGHT, frame[number])
    x, y, z = shifted(frame, balls[c, 0], balls[c, 1], balls[c, 2])
    for g in range(glasses.shape[0]):
        i, j, k = x - glasses[g, 0], y - glasses[g, 1], z - glasses[g, 2]
        k = k - _between(k, 0.0, glasses[g, 5])
        store(bounds, 0, root(i * i + j * j + k * k) - balls[c, 3] - glasses[g, 6])
        for l in range(EIGHT):
            if bounds[0, l] >= min(least[0, l], margin):
                least[0, l] = min(least[0, l], bounds[0, l])
            else:
                least[0, l] = min(least[0, l], capsule_glass(capsules, c, glasses, g, _lane(frames, l)))


@njit(cache=True, error_model="numpy", pipeline_class=WithoutCopies)
def _eight_clearances(fixed, capsules, balls, glasses, margin, angles, least):
    """Clearances least (1, 8) of eight configurations, angles (7, 8)."""
    frames, bounds, frame, c = scratch(12, 8), scratch(1, 8), _world(), 0
    store(least, 0, spread(FAR))
    for k in range(_JOINTS):
        cosine, sine = _cosines_sines(load(angles, k * EIGHT))
        frame = carried(frame, fixed, k, cosine, sine)
        while c < capsules.shape[0] and int(capsules[c, 0]) == k:
            _approach(frame, capsules, balls, glasses, c, margin, frames, bounds, least)
            c += 1


@njit(cache=True, error_model="numpy", inline="always")
def _farther(a, b):
    return chosen(at_most(a, b), b, a)


@njit(cache=True, error_model="numpy", inline="always")
def _beyond(start, way, middle, half):
    """Distances of eight segments from an interval along one axis; negative where they overlap."""
    end = start + way
    first, last = chosen(at_most(start, end), start, end), chosen(at_most(start, end), end, start)
    return _farther((first - middle) - half, -half - (last - middle))


@njit(cache=True, error_model="numpy", inline="always")
def _touch(frame, capsules, boxes, c, tolerance, depth, segments, gaps, first, stop, contacts):
    """Add the contacts of capsule c, on a link with these eight frames, to those from `first` to `stop`."""
    x, y, z = shifted(frame, capsules[c, 1], capsules[c, 2], capsules[c, 3])
    u, v, w = rotated(frame, capsules[c, 4], capsules[c, 5], capsules[c, 6])
    far, stored = tolerance + capsules[c, 7], False
    for b in range(boxes.shape[0]):
        gap = _farther(_beyond(x, u, boxes[b, 0], boxes[b, 3]), _beyond(y, v, boxes[b, 1], boxes[b, 4]))
        gap = _farther(gap, _beyond(z, w, boxes[b, 2], boxes[b, 5]))
        if count(at_most(gap, spread(far))) > 0:
            if not stored:
                for number, part in enumerate((x, y, z, u, v, w)):
                    store(segments, number * EIGHT, part)
                stored = True
            store(gaps, 0, gap)
            for l in range(stop - first):
                if gaps[0, l] <= far and contacts[first + l] >= 0:
                    contacts[first + l] |= contact_bit(
                        capsules, boxes, c, b, segments[0, l], segments[1, l], segments[2, l], segments[3, l],
                        segments[4, l], segments[5, l], tolerance, depth,
                    )  # fmt: skip


@njit(cache=True, error_model="numpy", pipeline_class=WithoutCopies)
def _eight_strata(fixed, capsules, boxes, tolerance, depth, angles, first, stop, found):
    """Strata of up to eight configurations, angles (7, 8), into found (n,) from `first` to `stop`."""
    segments, gaps, frame, c = scratch(6, 8), scratch(1, 8), _world(), 0
    for i in range(first, stop):
        found[i] = 0
    for k in range(_JOINTS):
        cosine, sine = _cosines_sines(load(angles, k * EIGHT))
        frame = carried(frame, fixed, k, cosine, sine)
        while c < capsules.shape[0] and int(capsules[c, 0]) == k:
            _touch(frame, capsules, boxes, c, tolerance, depth, segments, gaps, first, stop, found)
            c += 1
    for i in range(first, stop):
        found[i] = stratum_of_contacts(found[i])


@njit(cache=True, error_model="numpy", inline="always")
def _take_angles(Y, first, stop, angles):
    """Eight rows of Y (n, 7) from `first` on, into angles (7, 8); the last one before `stop` again where there are fewer."""
    for l in range(EIGHT):
        for k in range(_JOINTS):
            angles[k, l] = Y[min(first + l, stop - 1), k]


@njit(cache=True, error_model="numpy")
def hazards(Y, first, stop, params, out):
    """`model.hazard` of configurations Y (n, 7) from `first` to `stop`, into out (n,)."""
    fixed, capsules, balls, glasses, margin = params.fixed, params.capsules, params.balls, params.glasses, params.margin
    angles, least = scratch(7, 8), scratch(1, 8)
    for start in range(first, stop, EIGHT):
        _take_angles(Y, start, stop, angles)
        _eight_clearances(fixed, capsules, balls, glasses, margin, angles, least)
        for l in range(min(EIGHT, stop - start)):
            out[start + l] = least[0, l] - margin


@njit(cache=True, error_model="numpy")
def strata(Y, first, stop, params, out):
    """`model.stratum` of configurations Y (n, 7) from `first` to `stop`, into out (n,)."""
    fixed, capsules, boxes, angles = params.fixed, params.capsules, params.boxes, scratch(7, 8)
    for start in range(first, stop, EIGHT):
        _take_angles(Y, start, stop, angles)
        end = min(start + EIGHT, stop)
        _eight_strata(fixed, capsules, boxes, params.tolerance, params.depth, angles, start, end, out)
