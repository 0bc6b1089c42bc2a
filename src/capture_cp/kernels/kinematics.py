"""Rigid-body kinematics: the link frames of a robot at one configuration, for CPUs and GPUs.

A frame is a row of twelve numbers: its origin, then its rotation, row by row. A link is one joint, or a part rigidly
attached to its parent. A body with several joints is several links, and a fixed body is none. The frame of a hinge has its
axis along z, so that a rotation mixes two columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from capture_cp.kernels.trig import cosine_sine

#: Kinds of joints; BALL to FREE rotate by a quaternion.
HINGE, SLIDE, BALL, FREE, FIXED = range(5)


class Links(NamedTuple):
    """Links, ordered so that parents come first."""

    parent: Any  #: (k,) number of the parent; -1 for the world
    kind: Any  #: (k,) HINGE, SLIDE, BALL, FREE or FIXED
    first: Any  #: (k,) first entry of the joint in qpos
    zero: Any  #: (k,) qpos at which a hinge or a slide is in the model's reference position
    fixed: Any  #: (k, 12) frame relative to the parent's, at that qpos
    axis: Any  #: (k, 3) direction of a slide, in its parent's frame
    column: Any  #: (nq,) index of each entry of qpos in a configuration; -1 if it is not part of it
    held: Any  #: (nq,) value of each entry that is not part of a configuration


@njit(cache=True, error_model="numpy", inline="always")
def entry_of(column, held, y, number):
    """An entry of qpos at a configuration y (dc,)."""
    return y[column[number]] if column[number] >= 0 else held[number]


@njit(cache=True, error_model="numpy", inline="always")
def _carry(p, fixed, k, sx, sy, sz, cosine, sine, frames):
    """Frame k from its parent's frame p, moved by (sx, sy, sz) in the parent's frame and rotated about its own z."""
    fx, fy, fz = fixed[k, 0] + sx, fixed[k, 1] + sy, fixed[k, 2] + sz
    # in local variables: numba cannot know that writing to frames does not change them
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
    """A row (a, b, c) of a rotation, rotated by a quaternion of any length; unchanged if it is 0, as in MuJoCo."""
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
def place_links(links, y, frames):
    """Write the frame of every link at a configuration y (dc,) into `frames` (k, 12). Allocates nothing.

    `links` are `Links`, or any tuple with the same fields.
    """
    column, held = links.column, links.held
    for k in range(links.parent.shape[0]):
        kind, first = links.kind[k], links.first[k]
        sx, sy, sz, cosine, sine = 0.0, 0.0, 0.0, 1.0, 0.0
        if kind == HINGE:
            cosine, sine = cosine_sine(entry_of(column, held, y, first) - links.zero[k])
        elif kind == SLIDE:
            way = entry_of(column, held, y, first) - links.zero[k]
            sx, sy, sz = way * links.axis[k, 0], way * links.axis[k, 1], way * links.axis[k, 2]
        elif kind == FREE:
            sx, sy = entry_of(column, held, y, first), entry_of(column, held, y, first + 1)
            sz = entry_of(column, held, y, first + 2)
            first += 3
        _carry(links.parent[k], links.fixed, k, sx, sy, sz, cosine, sine, frames)
        if BALL <= kind <= FREE:
            w, i = entry_of(column, held, y, first), entry_of(column, held, y, first + 1)
            j, l = entry_of(column, held, y, first + 2), entry_of(column, held, y, first + 3)
            for start in range(3, 12, 3):
                a, b, c = frames[k, start], frames[k, start + 1], frames[k, start + 2]
                frames[k, start], frames[k, start + 1], frames[k, start + 2] = turned_row(a, b, c, w, i, j, l)
