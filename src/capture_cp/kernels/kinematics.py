"""Where the links of a robot are: rigid-body kinematics of one configuration, for processors and GPUs.

A frame is a row of twelve numbers: its origin, then its rotation, row by row. A link is one joint, or a part that is rigidly
on its parent; bodies with several joints are several links, and fixed bodies are none. The frame of a hinge has its axis
along z, so that a turn mixes two columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from capture_cp.kernels.trig import cosine_sine

#: Kinds of joints; those that turn by a quaternion are BALL to FREE.
HINGE, SLIDE, BALL, FREE, FIXED = range(5)


class Links(NamedTuple):
    """Links in an order in which parents come first."""

    parent: Any  #: (k,) number of the parent; -1 for the world
    kind: Any  #: (k,) HINGE, SLIDE, BALL, FREE or FIXED
    first: Any  #: (k,) first entry of the joint in qpos
    zero: Any  #: (k,) qpos at which a hinge or a slide is as in the model
    fixed: Any  #: (k, 12) frame in the parent's, at that qpos
    axis: Any  #: (k, 3) direction of a slide, whose frame is turned as its parent's
    column: Any  #: (nq,) where a configuration holds an entry of qpos; -1 where it does not
    held: Any  #: (nq,) value of an entry that configurations do not hold


@njit(cache=True, error_model="numpy", inline="always")
def entry_of(column, held, y, number):
    """An entry of qpos at a configuration y (dc,)."""
    return y[column[number]] if column[number] >= 0 else held[number]


@njit(cache=True, error_model="numpy", inline="always")
def _carry(p, fixed, k, sx, sy, sz, cosine, sine, frames):
    """Frame k, carried by that of its parent p, moved by (sx, sy, sz) in that and turned about its own z."""
    fx, fy, fz = fixed[k, 0] + sx, fixed[k, 1] + sy, fixed[k, 2] + sz
    # in variables: numba cannot know that writing to frames leaves them as they are
    xx, xy, xz, yx, yy = fixed[k, 3], fixed[k, 4], fixed[k, 5], fixed[k, 6], fixed[k, 7]
    yz, zx, zy, zz = fixed[k, 8], fixed[k, 9], fixed[k, 10], fixed[k, 11]
    for row in range(3):
        start = 3 + 3 * row
        if p < 0:
            o, a, b, c = 0.0, 1.0 * (row == 0), 1.0 * (row == 1), 1.0 * (row == 2)
        else:
            o, a, b, c = frames[p, row], frames[p, start], frames[p, start + 1], frames[p, start + 2]
        frames[k, row] = o + a * fx + b * fy + c * fz
        x, y = a * xx + b * yx + c * zx, a * xy + b * yy + c * zy
        frames[k, start] = cosine * x + sine * y
        frames[k, start + 1] = cosine * y - sine * x
        frames[k, start + 2] = a * xz + b * yz + c * zz


@njit(cache=True, error_model="numpy")
def turned_row(a, b, c, w, x, y, z):
    """A row (a, b, c) of a rotation, turned by a quaternion of any length; by none at all if it is 0, as MuJoCo does."""
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if length < 1e-15:
        return a, b, c
    w, x, y, z = w / length, x / length, y / length, z / length
    return (
        a * (1.0 - 2.0 * (y * y + z * z)) + b * 2.0 * (x * y + w * z) + c * 2.0 * (x * z - w * y),
        a * 2.0 * (x * y - w * z) + b * (1.0 - 2.0 * (x * x + z * z)) + c * 2.0 * (y * z + w * x),
        a * 2.0 * (x * z + w * y) + b * 2.0 * (y * z - w * x) + c * (1.0 - 2.0 * (x * x + y * y)),
    )


@njit(cache=True, error_model="numpy", inline="always")
def place_each(parent, kinds, firsts, zero, fixed, axis, column, held, y, frames):
    """As `place_links`, with the fields of `Links` one by one."""
    for k in range(parent.shape[0]):
        kind, first = kinds[k], firsts[k]
        sx, sy, sz, cosine, sine = 0.0, 0.0, 0.0, 1.0, 0.0
        if kind == HINGE:
            angle = entry_of(column, held, y, first) - zero[k]
            cosine, sine = cosine_sine(angle)
        elif kind == SLIDE:
            way = entry_of(column, held, y, first) - zero[k]
            sx, sy, sz = way * axis[k, 0], way * axis[k, 1], way * axis[k, 2]
        elif kind == FREE:
            sx, sy = entry_of(column, held, y, first), entry_of(column, held, y, first + 1)
            sz = entry_of(column, held, y, first + 2)
            first += 3
        _carry(parent[k], fixed, k, sx, sy, sz, cosine, sine, frames)
        if BALL <= kind <= FREE:
            w, i = entry_of(column, held, y, first), entry_of(column, held, y, first + 1)
            j, l = entry_of(column, held, y, first + 2), entry_of(column, held, y, first + 3)
            for start in range(3, 12, 3):
                a, b, c = frames[k, start], frames[k, start + 1], frames[k, start + 2]
                frames[k, start], frames[k, start + 1], frames[k, start + 2] = turned_row(a, b, c, w, i, j, l)


@njit(cache=True, error_model="numpy", inline="always")
def place_links(links, y, frames):
    """Write the frame of every link at a configuration y (dc,) into `frames` (k, 12). Allocates nothing."""
    # one by one: a tuple that is handed on costs a count of references for each of its arrays, at every call
    place_each(
        links.parent, links.kind, links.first, links.zero, links.fixed, links.axis, links.column, links.held, y, frames
    )
