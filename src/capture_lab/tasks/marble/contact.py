"""Exact contact geometry of the marble's centre, compiled: gaps to walls inflated by its radius, and moving out of them.

A box inflated by a disk has round corners: its gap is the distance to the box less the radius. All lengths in metres.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from capture_cp.base.checks import Floats
from capture_cp.kernels.scalar import clip, larger, smaller
from capture_lab.tasks.marble.contact_table import ANYTHING

#: Penetration (m) that counts as none, and a gap that counts as touching: far below a grid cell, far above rounding.
TOLERANCE = 1e-9
PUSHED = 1e-12
PASSES = 12
_HALVINGS = 40


class Geometry(NamedTuple):
    """A map in the form the kernels need: its shapes, then the fields of its `ContactTable`."""

    bounds: Floats  # (4,): lowest and highest x, then y, of the centre
    walls: Floats  # (w, 4): boxes x0, y0, x1, y1 before inflation
    radius: float
    pits: Floats  # (p, 3): centre and radius
    goal: Floats  # (3,)
    contents: npt.NDArray[np.int32]
    boxes: Floats
    near: npt.NDArray[np.int32]
    nearby: npt.NDArray[np.int32]
    corner: Floats
    per_pitch: float


@njit(cache=True, inline="always")
def wall_gap(x, y, walls, w, radius):
    """Gap between the centre and inflated wall number w (negative inside), and the outward normal: gap, nx, ny."""
    dx = x - clip(x, walls[w, 0], walls[w, 2])
    dy = y - clip(y, walls[w, 1], walls[w, 3])
    if dx != 0.0 and dy != 0.0:
        d = math.sqrt(dx * dx + dy * dy)
        return d - radius, dx / d, dy / d
    if dx != 0.0:
        return abs(dx) - radius, math.copysign(1.0, dx), 0.0
    if dy != 0.0:
        return abs(dy) - radius, 0.0, math.copysign(1.0, dy)
    left, right, down, up = x - walls[w, 0], walls[w, 2] - x, y - walls[w, 1], walls[w, 3] - y
    depth = smaller(smaller(left, right), smaller(down, up))
    if depth == left:
        return -depth - radius, -1.0, 0.0
    if depth == right:
        return -depth - radius, 1.0, 0.0
    if depth == down:
        return -depth - radius, 0.0, -1.0
    return -depth - radius, 0.0, 1.0


@njit(cache=True, inline="always")
def squared_gap(x, y, walls, w):
    """Squared distance to wall number w before inflation, 0 inside it."""
    dx = larger(larger(walls[w, 0] - x, x - walls[w, 2]), 0.0)
    dy = larger(larger(walls[w, 1] - y, y - walls[w, 3]), 0.0)
    return dx * dx + dy * dy


@njit(cache=True)
def clearance(x, y, g):
    """Signed distance to the nearest obstacle or side of the board; negative in collision."""
    gap = min(min(x - g.bounds[0], g.bounds[1] - x), min(y - g.bounds[2], g.bounds[3] - y))
    for w in range(g.walls.shape[0]):
        gap = min(gap, wall_gap(x, y, g.walls, w, g.radius)[0])
    return gap


@njit(cache=True, inline="always")
def contents_at(x0, y0, x, y, g):
    """Obstacles that a move from (x0, y0) to (x, y) may have met: contents of the square of its end, see `ContactTable`."""
    u, v = (x - g.corner[0]) * g.per_pitch, (y - g.corner[1]) * g.per_pitch
    # a move longer than the radius may have passed a thin wall
    if u >= 0.0 and v >= 0.0 and abs(x - x0) <= g.radius and abs(y - y0) <= g.radius:
        i, j = np.uint32(u), np.uint32(v)
        if i < np.uint32(g.contents.shape[0]) and j < np.uint32(g.contents.shape[1]):
            return g.contents[i, j]
    return np.int32(ANYTHING)


@njit(cache=True)
def clamp(x, vx, low, high):
    """A coordinate clamped between two flat surfaces, and its speed without the component into the touched one: x, vx."""
    # branch-free: which marble touches what is unpredictable, and a mispredicted branch costs more than the arithmetic
    inwards = ((x < low + TOLERANCE) & (vx < 0.0)) | ((x > high - TOLERANCE) & (vx > 0.0))
    return clip(x, low, high), 0.0 if inwards else vx


@njit(cache=True, inline="always")
def _square(x, y, g):
    """Number of the square of a centre within bounds."""
    u, v = (x - g.corner[0]) * g.per_pitch, (y - g.corner[1]) * g.per_pitch
    return np.uint32(u) * np.uint32(g.contents.shape[1]) + np.uint32(v)


@njit(cache=True, inline="always")
def _off_sides(x, y, bounds):
    """Whether a centre is on the board and touches none of its sides."""
    across = x >= bounds[0] + TOLERANCE and x <= bounds[1] - TOLERANCE
    return across and y >= bounds[2] + TOLERANCE and y <= bounds[3] - TOLERANCE


@njit(cache=True, inline="always")
def touches(x, y, g):
    """Whether a centre touches a wall or a side of the board, or is beyond it."""
    if not _off_sides(x, y, g.bounds):
        return True
    reach = (g.radius + TOLERANCE) * (g.radius + TOLERANCE)
    square, touching = _square(x, y, g), False
    for item in range(g.near[square], g.near[square + 1]):
        touching |= squared_gap(x, y, g.walls, np.uint32(g.nearby[np.uint32(item)])) < reach
    return touching


@njit(cache=True, inline="always")
def push_out(x, y, vx, vy, g):
    """Move the centre out of all obstacles along surface normals, and remove the velocity into those that it touches.

    Each pass leaves only the deepest wall: the end of a wall that is buried in another has no meaningful normal.
    Returns x, y, vx, vy and whether it is out.
    """
    reach = (g.radius + TOLERANCE) * (g.radius + TOLERANCE)
    out, touching, left = False, 0, -1
    first_x, first_y, last_x, last_y = 0.0, 0.0, 0.0, 0.0  # normals of the first and the last wall touched
    for _ in range(PASSES):
        x = clip(x, g.bounds[0], g.bounds[1])
        y = clip(y, g.bounds[2], g.bounds[3])
        touching, deepest, nx, ny, wall = 0, 0.0, 0.0, 0.0, -1
        square = _square(x, y, g)
        for item in range(g.near[square], g.near[square + 1]):
            w = np.uint32(g.nearby[np.uint32(item)])
            if squared_gap(x, y, g.walls, w) < reach:
                touching += 1
                gap, ax, ay = wall_gap(x, y, g.walls, w, g.radius)
                wall, last_x, last_y = int(w), ax, ay
                if touching == 1:
                    first_x, first_y = ax, ay
                if gap < deepest:
                    deepest, nx, ny = gap, ax, ay
        if deepest > -PUSHED:
            out = True
            break
        x -= deepest * nx
        y -= deepest * ny
        vx, vy = _along(vx, vy, nx, ny)
        left = wall if touching == 1 else -1
        if touching == 1 and _off_sides(x, y, g.bounds):
            square = _square(x, y, g)
            if g.near[square + 1] - g.near[square] <= 1:
                return x, y, vx, vy, True  # nothing else can be touched here: another pass would find the same
    if not out:
        return x, y, vx, vy, clearance(x, y, g) >= -TOLERANCE
    surfaces = touching
    for again in range(2):  # twice with several surfaces: leaving one may lead into another
        if again == 1 and surfaces < 2:
            break
        if x < g.bounds[0] + TOLERANCE:
            vx, surfaces = larger(vx, 0.0), surfaces + 1
        if x > g.bounds[1] - TOLERANCE:
            vx, surfaces = smaller(vx, 0.0), surfaces + 1
        if y < g.bounds[2] + TOLERANCE:
            vy, surfaces = larger(vy, 0.0), surfaces + 1
        if y > g.bounds[3] - TOLERANCE:
            vy, surfaces = smaller(vy, 0.0), surfaces + 1
        if touching == 2 or (touching == 1 and (wall != left or again == 1)):
            vx, vy = _along(vx, vy, first_x, first_y)
            if touching == 2:
                vx, vy = _along(vx, vy, last_x, last_y)
        if touching > 2:
            square = _square(x, y, g)
            for item in range(g.near[square], g.near[square + 1]):
                w = np.uint32(g.nearby[np.uint32(item)])
                if squared_gap(x, y, g.walls, w) < reach:
                    gap, nx, ny = wall_gap(x, y, g.walls, w, g.radius)
                    vx, vy = _along(vx, vy, nx, ny)
    return x, y, vx, vy, True


@njit(cache=True)
def _along(vx, vy, nx, ny):
    """The velocity without its component against the normal."""
    inward = smaller(vx * nx + vy * ny, 0.0)
    return vx - inward * nx, vy - inward * ny


@njit(cache=True)
def last_free(x0, y0, x1, y1, g):
    """The farthest point found free on the way from a free point (x0, y0) to (x1, y1), by bisection."""
    free, blocked = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (free + blocked)
        if clearance(x0 + middle * (x1 - x0), y0 + middle * (y1 - y0), g) >= 0.0:
            free = middle
        else:
            blocked = middle
    return x0 + free * (x1 - x0), y0 + free * (y1 - y0)
