"""Exact signed distances of balls, capsules, boxes and planes: negative where they overlap.

A solid has a frame: a row of twelve numbers, its origin and its rotation row by row. A segment is its start and the vector
to its end; a capsule is a segment with a radius, and a ball is a capsule whose vector is 0. Squared distances are convex
along a segment and piecewise quadratic, so the minimum is found exactly from the few points where pieces meet.
"""

from __future__ import annotations

import math

from numba import njit

#: Edges this close to parallel (sine of their angle) span no direction across both.
PARALLEL = 1e-9
#: Relative error at which a lower bound of a distance is accepted as the distance.
CLOSE = 1e-13


# -- frames -----------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", inline="always")
def frame_at(frames, i):
    """Row i of a table of frames, as a tuple."""
    return (
        frames[i, 0], frames[i, 1], frames[i, 2], frames[i, 3], frames[i, 4], frames[i, 5],
        frames[i, 6], frames[i, 7], frames[i, 8], frames[i, 9], frames[i, 10], frames[i, 11],
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def rotated(frame, x, y, z):
    """A direction given in a frame, in the frame's parent coordinates."""
    return (
        frame[3] * x + frame[4] * y + frame[5] * z,
        frame[6] * x + frame[7] * y + frame[8] * z,
        frame[9] * x + frame[10] * y + frame[11] * z,
    )


@njit(cache=True, error_model="numpy")
def shifted(frame, x, y, z):
    """A point given in a frame, in the frame's parent coordinates."""
    u, v, w = rotated(frame, x, y, z)
    return frame[0] + u, frame[1] + v, frame[2] + w


@njit(cache=True, error_model="numpy")
def rotated_back(frame, x, y, z):
    """A direction given in the frame's parent coordinates, in the frame."""
    return (
        frame[3] * x + frame[6] * y + frame[9] * z,
        frame[4] * x + frame[7] * y + frame[10] * z,
        frame[5] * x + frame[8] * y + frame[11] * z,
    )


@njit(cache=True, error_model="numpy")
def seen_from(frame, x, y, z):
    """A point given in the frame's parent coordinates, in the frame."""
    return rotated_back(frame, x - frame[0], y - frame[1], z - frame[2])


# -- segments ---------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _share(wx, wy, wz, vx, vy, vz, squared):
    """The parameter (0 to 1) of the point nearest to w on a segment from the origin along v."""
    if squared <= 0.0:
        return 0.0
    t = (wx * vx + wy * vy + wz * vz) / squared
    return min(max(t, 0.0), 1.0)


@njit(cache=True, error_model="numpy")
def _slope(s, wx, wy, wz, ux, uy, uz, vx, vy, vz, squared):
    """Half the slope of the squared distance of w + s u to a segment along v from the origin."""
    x, y, z = wx + s * ux, wy + s * uy, wz + s * uz
    t = _share(x, y, z, vx, vy, vz, squared)
    return (x - t * vx) * ux + (y - t * vy) * uy + (z - t * vz) * uz


@njit(cache=True, error_model="numpy")
def segment_segment(wx, wy, wz, ux, uy, uz, vx, vy, vz):
    """Distance of a segment from w along u to one from the origin along v."""
    squared, mixed = vx * vx + vy * vy + vz * vz, ux * vx + uy * vy + uz * vz
    start = wx * vx + wy * vy + wz * vz
    low, high = 0.0, 1.0
    rise = _slope(0.0, wx, wy, wz, ux, uy, uz, vx, vy, vz, squared)
    fall = _slope(1.0, wx, wy, wz, ux, uy, uz, vx, vy, vz, squared)
    if mixed != 0.0 and rise < 0.0 and fall > 0.0:
        for end in range(2):  # the nearest point is an end of v on one side, and moves along v on the other
            s = (end * squared - start) / mixed
            if low < s < high:
                slope = _slope(s, wx, wy, wz, ux, uy, uz, vx, vy, vz, squared)
                if slope < 0.0:
                    low, rise = s, slope
                else:
                    high, fall = s, slope
    s = root(low, rise, high, fall)
    x, y, z = wx + s * ux, wy + s * uy, wz + s * uz
    t = _share(x, y, z, vx, vy, vz, squared)
    x, y, z = x - t * vx, y - t * vy, z - t * vz
    return math.sqrt(x * x + y * y + z * z)


@njit(cache=True, error_model="numpy")
def root(low, rise, high, fall):
    """Where a line through (low, rise) and (high, fall) is 0: `low` if it is positive there, `high` if negative there."""
    if rise >= 0.0:
        return low
    if fall <= 0.0:
        return high
    return low - rise * (high - low) / (fall - rise)


# -- boxes, in their own frame ----------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _beyond(x, a):
    """How far x is outside -a..a, with its sign."""
    return x - a if x > a else (x + a if x < -a else 0.0)


@njit(cache=True, error_model="numpy")
def squared_outside(x, y, z, a, b, c):
    """Squared distance of a point to a box of half sizes (a, b, c); 0 inside."""
    x, y, z = _beyond(x, a), _beyond(y, b), _beyond(z, c)
    return x * x + y * y + z * z


@njit(cache=True, error_model="numpy")
def point_box(x, y, z, a, b, c):
    """Signed distance of a point to a box of half sizes (a, b, c)."""
    squared = squared_outside(x, y, z, a, b, c)
    return math.sqrt(squared) if squared > 0.0 else max(abs(x) - a, abs(y) - b, abs(z) - c)


@njit(cache=True, error_model="numpy")
def _box_slope(t, x, y, z, ux, uy, uz, a, b, c):
    """Half the slope of the squared distance of a point on a line to a box."""
    return _beyond(x + t * ux, a) * ux + _beyond(y + t * uy, b) * uy + _beyond(z + t * uz, c) * uz


@njit(cache=True, error_model="numpy")
def squared_from_box(x, y, z, ux, uy, uz, a, b, c):
    """Squared distance of a segment from (x, y, z) along u to a box of half sizes (a, b, c); 0 where they meet."""
    low, high = 0.0, 1.0
    rise, fall = _box_slope(0.0, x, y, z, ux, uy, uz, a, b, c), _box_slope(1.0, x, y, z, ux, uy, uz, a, b, c)
    if rise < 0.0 and fall > 0.0:
        for side in range(6):
            if side < 2:
                start, way, half = x, ux, a
            elif side < 4:
                start, way, half = y, uy, b
            else:
                start, way, half = z, uz, c
            if way != 0.0:
                t = ((half if side % 2 else -half) - start) / way
                if low < t < high:
                    slope = _box_slope(t, x, y, z, ux, uy, uz, a, b, c)
                    if slope < 0.0:
                        low, rise = t, slope
                    else:
                        high, fall = t, slope
    t = root(low, rise, high, fall)
    return squared_outside(x + t * ux, y + t * uy, z + t * uz, a, b, c)


@njit(cache=True, error_model="numpy")
def _across(ux, uy, x, y, a, b, least):
    """Depth along the direction across a segment's (ux, uy) in the plane of two sides of a box, or `least` if it is less."""
    length = math.sqrt(ux * ux + uy * uy)
    if length <= PARALLEL:
        return least
    return min(least, (a * abs(uy) + b * abs(ux) - abs(x * uy - y * ux)) / length)


@njit(cache=True, error_model="numpy")
def segment_box(x, y, z, ux, uy, uz, a, b, c):
    """Signed distance of a segment from (x, y, z) along u to a box of half sizes (a, b, c)."""
    squared = squared_from_box(x, y, z, ux, uy, uz, a, b, c)
    if squared > 0.0:
        return math.sqrt(squared)
    x, y, z = x + 0.5 * ux, y + 0.5 * uy, z + 0.5 * uz
    depth = min(
        a + 0.5 * abs(ux) - abs(x),
        b + 0.5 * abs(uy) - abs(y),
        c + 0.5 * abs(uz) - abs(z),
    )
    length = math.sqrt(ux * ux + uy * uy + uz * uz)
    if length > 0.0:
        ux, uy, uz = ux / length, uy / length, uz / length
        depth = _across(ux, uy, x, y, a, b, depth)
        depth = _across(uy, uz, y, z, b, c, depth)
        depth = _across(uz, ux, z, x, c, a, depth)
    return -depth
