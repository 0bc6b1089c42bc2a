"""Position and contacts of the arm, for compiled code: plain numbers in and out, no allocation.

Rollouts, hazards and strata share these functions, on the CPU and in GPU kernels. A frame is twelve numbers: its
origin, then its rotation row by row. A configuration is a tuple of seven angles.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.kernels.solids import rotated, segment_box, segment_segment, shifted
from capture_cp.kernels.swept import Swept
from capture_cp.kernels.trig import cosine_sine
from capture_cp.spaces.swept_strata import SweptStrata
from capture_lab.tasks.shelf.mjcf import FIXTURES, PARTS
from capture_lab.tasks.shelf.shelves import Shelf

_WORLD = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
#: Bisection steps that find the point on a capsule's axis nearest to a box.
_HALVINGS = 24
FAR = 1e9
#: Strata by contact; forearm contacts and several contacts at once are rare, and form one stratum.
STRATA = ("free", "jar on board", "jar on wall", "hand on board", "hand on wall", "other contact")
_JAR, _FOREARM = PARTS.index("jar"), PARTS.index("forearm")


class Solids(NamedTuple):
    """The arm and its shelf, as used by the functions of this file; parameters of a planner have these fields too."""

    fixed: Any  #: (7, 12) frame of each joint in its parent's, at angle 0
    capsules: Any  #: (c, 8) link, start, vector to the end, radius: in the frame of the link
    balls: Any  #: (c, 4) a ball that contains the capsule: centre, radius
    boxes: Any  #: (b, 7) centre, half sizes, and kind of fixture
    glasses: Any  #: (g, 7) upright capsules: start, vector to the end, radius
    tool: Any  #: (3,) the centre of the jar, in the frame of the last link
    tolerance: float
    depth: float


def solids_of(shelf: Shelf, strata: SweptStrata) -> Solids:
    """The solids that the strata measure, and the glasses of their shelf."""
    swept: Swept = strata.params
    links = np.asarray(swept.frame)[:, None]
    capsules = np.hstack([links, swept.segments])  # one segment per cover
    boxes = {}
    for (_, _, frame, pair), size in zip(swept.items, swept.size):
        boxes[int(frame)] = (*swept.still[-1 - frame, :3], *size, pair % len(FIXTURES))
    jar = swept.segments[PARTS.index("jar")]
    glasses = np.array([glass.segment for glass in shelf.glasses.values()])
    arm = np.ascontiguousarray(swept.fixed), capsules, np.ascontiguousarray(swept.ball)
    middle = jar[:3] + jar[3:6] / 2
    return Solids(*arm, np.array(list(boxes.values())), glasses, middle, strata.tolerance, strata.depth)


# -- kinematics -------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", inline="always")
def _turned(frame, fixed, k, angle):
    """Frame of joint k, carried by its parent's and turned about its z axis."""
    cosine, sine = cosine_sine(angle)
    x, y, z, a, b, c, d, e, f, g, h, i = frame
    u, v, w = fixed[k, 0], fixed[k, 1], fixed[k, 2]
    xx, xy, xz, yx, yy = fixed[k, 3], fixed[k, 4], fixed[k, 5], fixed[k, 6], fixed[k, 7]
    yz, zx, zy, zz = fixed[k, 8], fixed[k, 9], fixed[k, 10], fixed[k, 11]
    p, q = a * xx + b * yx + c * zx, a * xy + b * yy + c * zy
    r, s = d * xx + e * yx + f * zx, d * xy + e * yy + f * zy
    t, o = g * xx + h * yx + i * zx, g * xy + h * yy + i * zy
    return (
        x + a * u + b * v + c * w, y + d * u + e * v + f * w, z + g * u + h * v + i * w,
        cosine * p + sine * q, cosine * q - sine * p, a * xz + b * yz + c * zz,
        cosine * r + sine * s, cosine * s - sine * r, d * xz + e * yz + f * zz,
        cosine * t + sine * o, cosine * o - sine * t, g * xz + h * yz + i * zz,
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def link_frames(fixed, q):
    """Frames of the seven links at angles q (7)."""
    first = _turned(_WORLD, fixed, 0, q[0])
    second = _turned(first, fixed, 1, q[1])
    third = _turned(second, fixed, 2, q[2])
    fourth = _turned(third, fixed, 3, q[3])
    fifth = _turned(fourth, fixed, 4, q[4])
    sixth = _turned(fifth, fixed, 5, q[5])
    return first, second, third, fourth, fifth, sixth, _turned(sixth, fixed, 6, q[6])


@njit(cache=True, error_model="numpy", inline="always")
def angles_of(y):
    """A configuration y (7,) as a tuple."""
    return y[0], y[1], y[2], y[3], y[4], y[5], y[6]


@njit(cache=True, error_model="numpy")
def jar_at(fixed, tool, q):
    """The centre of the jar at angles q (7), and how upright it is: 1 if it stands, 0 if it lies."""
    frame = link_frames(fixed, q)[6]
    x, y, z = shifted(frame, tool[0], tool[1], tool[2])
    # the jar's axis is across the fingers, halfway between the x and the y of the last link
    return x, y, z, abs(frame[9] - frame[10]) * math.sqrt(0.5)


# -- distances --------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", inline="always")
def _beyond(start, way, middle, half):
    """Distance of a segment from an interval along one axis; negative where they overlap."""
    first, last = min(start, start + way) - middle, max(start, start + way) - middle
    return max(first - half, -half - last)


@njit(cache=True, error_model="numpy")
def nearest_box(capsules, boxes, frames, within):
    """The smallest signed distance of the arm to a box, with the capsule and the box; FAR if none is within `within`."""
    least, capsule, box = within, -1, -1
    for c in range(capsules.shape[0]):
        frame = frames[int(capsules[c, 0])]
        x, y, z = shifted(frame, capsules[c, 1], capsules[c, 2], capsules[c, 3])
        u, v, w = rotated(frame, capsules[c, 4], capsules[c, 5], capsules[c, 6])
        for b in range(boxes.shape[0]):
            far = least + capsules[c, 7]
            if (
                _beyond(x, u, boxes[b, 0], boxes[b, 3]) < far
                and _beyond(y, v, boxes[b, 1], boxes[b, 4]) < far
                and _beyond(z, w, boxes[b, 2], boxes[b, 5]) < far
            ):
                apart = _segment_box(x, y, z, u, v, w, boxes, b) - capsules[c, 7]
                if apart < least:
                    least, capsule, box = apart, c, b
    return (least if capsule >= 0 else FAR), capsule, box


@njit(cache=True, error_model="numpy", inline="always")
def _segment_box(x, y, z, u, v, w, boxes, b):
    """Signed distance of a segment to box b."""
    x, y, z = x - boxes[b, 0], y - boxes[b, 1], z - boxes[b, 2]
    return segment_box(x, y, z, u, v, w, boxes[b, 3], boxes[b, 4], boxes[b, 5])


@njit(cache=True, error_model="numpy")
def glass_clearance(capsules, balls, glasses, frames, within):
    """The smallest signed distance of the arm to a glass: exact up to `within`, a lower bound above it."""
    least = FAR
    for c in range(capsules.shape[0]):
        frame = frames[int(capsules[c, 0])]
        x, y, z = shifted(frame, balls[c, 0], balls[c, 1], balls[c, 2])
        for g in range(glasses.shape[0]):
            rise = min(max(z - glasses[g, 2], 0.0), glasses[g, 5])
            i, j, k = x - glasses[g, 0], y - glasses[g, 1], z - glasses[g, 2] - rise
            bound = math.sqrt(i * i + j * j + k * k) - balls[c, 3] - glasses[g, 6]
            if bound >= min(least, within):
                least = min(least, bound)
                continue
            a, b, d = shifted(frame, capsules[c, 1], capsules[c, 2], capsules[c, 3])
            u, v, w = rotated(frame, capsules[c, 4], capsules[c, 5], capsules[c, 6])
            a, b, d = a - glasses[g, 0], b - glasses[g, 1], d - glasses[g, 2]
            apart = segment_segment(a, b, d, u, v, w, glasses[g, 3], glasses[g, 4], glasses[g, 5])
            least = min(least, apart - capsules[c, 7] - glasses[g, 6])
    return least


@njit(cache=True, error_model="numpy")
def contact_stratum(capsules, boxes, frames, tolerance, depth):
    """Index in `STRATA` of the contact, -1 if any part is too deep inside a box."""
    contacts = 0  # one bit each for: jar and hand on a board, on a wall; forearm on either
    for c in range(capsules.shape[0]):
        frame, far = frames[int(capsules[c, 0])], tolerance + capsules[c, 7]
        x, y, z = shifted(frame, capsules[c, 1], capsules[c, 2], capsules[c, 3])
        u, v, w = rotated(frame, capsules[c, 4], capsules[c, 5], capsules[c, 6])
        for b in range(boxes.shape[0]):
            if (
                _beyond(x, u, boxes[b, 0], boxes[b, 3]) <= far
                and _beyond(y, v, boxes[b, 1], boxes[b, 4]) <= far
                and _beyond(z, w, boxes[b, 2], boxes[b, 5]) <= far
            ):
                apart, wall = _segment_box(x, y, z, u, v, w, boxes, b) - capsules[c, 7], int(boxes[b, 6])
                if apart < -depth:
                    return -1
                if apart <= tolerance:
                    contacts |= (1 << wall) if c == _JAR else 16 if c == _FOREARM else (4 << wall)
    if contacts <= 2:
        return contacts
    if contacts == 4:
        return 3
    return 4 if contacts == 8 else 5


# -- contact ----------------------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", inline="always")
def _slope(t, x, y, z, u, v, w, a, b, c):
    """Half the slope of the squared distance of a point on a line to a box of half sizes (a, b, c)."""
    i, j, k = x + t * u, y + t * v, z + t * w
    i, j, k = i - min(max(i, -a), a), j - min(max(j, -b), b), k - min(max(k, -c), c)
    return i * u + j * v + k * w


@njit(cache=True, error_model="numpy")
def touch(capsules, c, boxes, b, frame):
    """Where capsule c and box b are nearest: a point on the capsule's axis (3), and the direction (3) away from the box."""
    x, y, z = shifted(frame, capsules[c, 1], capsules[c, 2], capsules[c, 3])
    u, v, w = rotated(frame, capsules[c, 4], capsules[c, 5], capsules[c, 6])
    x, y, z = x - boxes[b, 0], y - boxes[b, 1], z - boxes[b, 2]
    p, q, r = boxes[b, 3], boxes[b, 4], boxes[b, 5]
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _slope(middle, x, y, z, u, v, w, p, q, r) < 0.0:
            low = middle
        else:
            high = middle
    t = 0.5 * (low + high)
    x, y, z = x + t * u, y + t * v, z + t * w
    i, j, k = x - min(max(x, -p), p), y - min(max(y, -q), q), z - min(max(z, -r), r)
    length = math.sqrt(i * i + j * j + k * k)
    if length > 1e-12:
        i, j, k = i / length, j / length, k / length
    else:  # the axis is inside: out through the nearest side
        i, j, k = 0.0, 0.0, 0.0
        if p - abs(x) <= min(q - abs(y), r - abs(z)):
            i = math.copysign(1.0, x)
        elif q - abs(y) <= r - abs(z):
            j = math.copysign(1.0, y)
        else:
            k = math.copysign(1.0, z)
    return x + boxes[b, 0], y + boxes[b, 1], z + boxes[b, 2], i, j, k


@njit(cache=True, error_model="numpy", inline="always")
def _lever(frame, x, y, z, i, j, k):
    """Speed of a point along a direction (i, j, k) per unit rotation of the joint of a frame."""
    x, y, z = x - frame[0], y - frame[1], z - frame[2]
    u, v, w = frame[5], frame[8], frame[11]
    return i * (v * z - w * y) + j * (w * x - u * z) + k * (u * y - v * x)


@njit(cache=True, error_model="numpy")
def gradient(frames, link, x, y, z, i, j, k):
    """Derivative of the distance along (i, j, k) of a point on a link with respect to each angle: (7)."""
    zero = 0.0
    return (
        _lever(frames[0], x, y, z, i, j, k),
        _lever(frames[1], x, y, z, i, j, k),
        _lever(frames[2], x, y, z, i, j, k),
        _lever(frames[3], x, y, z, i, j, k),
        _lever(frames[4], x, y, z, i, j, k),
        _lever(frames[5], x, y, z, i, j, k) if link >= 5 else zero,
        _lever(frames[6], x, y, z, i, j, k) if link >= 6 else zero,
    )


@njit(cache=True, error_model="numpy")
def pushed_out(fixed, capsules, boxes, q, rounds):
    """Angles q (7), moved off all boxes along the joint-space gradient of the deepest contact, up to `rounds` times.

    Also returns whether they had to be moved.
    """
    pushed = False
    for _ in range(rounds):
        frames = link_frames(fixed, q)
        apart, c, b = nearest_box(capsules, boxes, frames, 0.0)
        if c < 0:
            break
        pushed = True
        link = int(capsules[c, 0])
        x, y, z, i, j, k = touch(capsules, c, boxes, b, frames[link])
        g = gradient(frames, link, x, y, z, i, j, k)
        squared = 0.0
        for n in range(7):
            squared += g[n] * g[n]
        share = (1e-4 - apart) / max(squared, 1e-3)  # slightly more than needed, so that the loop ends
        q = (
            q[0] + share * g[0], q[1] + share * g[1], q[2] + share * g[2], q[3] + share * g[3],
            q[4] + share * g[4], q[5] + share * g[5], q[6] + share * g[6],
        )  # fmt: skip
    return q, pushed
