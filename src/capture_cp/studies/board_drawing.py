"""The labyrinth of `tasks.marble.scene` as flat polygons, seen from the front and above: no 3D library needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.tasks.marble.maps import Map
from capture_cp.tasks.marble.scene import Shape, board_scene, marble_shape, plate_rotation

Colour = tuple[float, float, float]

_TURN, _HEIGHT = np.radians(-78), np.radians(56)  # where the viewer stands: a little to the right, in front, above
#: Unit vectors of the drawing in the world: towards the viewer, to the right, up.
VIEW: Floats = np.array([np.cos(_HEIGHT) * np.cos(_TURN), np.cos(_HEIGHT) * np.sin(_TURN), np.sin(_HEIGHT)])
RIGHT: Floats = np.array([-np.sin(_TURN), np.cos(_TURN), 0.0])
UP: Floats = np.cross(VIEW, RIGHT)
_LIGHT: Floats = np.array([-0.35, -0.45, 0.82])
_TINY = 1e-9


class Polygon(NamedTuple):
    """Corners (k, 2) in metres on the drawing, and a fill colour."""

    corners: Floats
    colour: Colour


def board_polygons(map: Map, state: Floats) -> list[Polygon]:
    """Frame, tilted plate, walls, pits, goal and marble of a state (6,), the farthest first."""
    turn = plate_rotation(state)
    shapes = [*board_scene(map), marble_shape(map, state)]
    frame = sorted((shape for shape in shapes if not shape.tilts), key=lambda shape: float(np.dot(shape.centre, VIEW)))
    plate = back_to_front([shape for shape in shapes if shape.tilts], turn.T @ VIEW)
    half = len(frame) // 2
    drawn: list[Polygon] = []
    for shape, rotation in (
        *((shape, np.eye(3)) for shape in frame[:half]),
        *((shape, turn) for shape in plate),
        *((shape, np.eye(3)) for shape in frame[half:]),
    ):
        drawn += _polygons(shape, rotation)
    return drawn


def back_to_front(shapes: list[Shape], view: Floats) -> list[Shape]:
    """Shapes that are boxes along the axes, or fit in one, in an order in which each hides only earlier ones.

    If a plane across an axis separates two of them, the one on the viewer's side cannot be hidden by the other.
    """
    nearer = _separated(shapes, view)
    hides = nearer & ~nearer.T
    left, order = list(range(len(shapes))), []
    while left:
        # a cycle is possible in principle; the farthest then goes first
        free = [i for i in left if not hides[i, left].any()] or left
        farthest = min(free, key=lambda i: float(np.dot(shapes[i].centre, view)))
        left.remove(farthest)
        order.append(shapes[farthest])
    return order


def _separated(shapes: list[Shape], view: Floats) -> Bools:
    """Whether shape i lies wholly on the viewer's side of shape j, along some axis: (n, n)."""
    centre = np.array([shape.centre for shape in shapes])
    half = np.array([_half_size(shape) for shape in shapes])
    low, high = centre - half, centre + half
    above = low[:, None] >= high[None] - _TINY
    below = high[:, None] <= low[None] + _TINY
    return np.asarray(np.where(view > 0, above, below).any(axis=2))


def _half_size(shape: Shape) -> Floats:
    x, y, z = shape.size
    return np.array({"box": (x / 2, y / 2, z / 2), "cylinder": (x, y, z / 2), "sphere": (x, y, z)}[shape.kind])


def _polygons(shape: Shape, rotation: Floats) -> list[Polygon]:
    if shape.kind == "box":
        return _box(shape, rotation)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = shape.size[0] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    colour = _rgb(shape.colour)
    if shape.kind == "sphere":
        middle = _project(rotation @ np.array(shape.centre))
        shine = middle + 0.35 * shape.size[0] * np.array([-1.0, 1.0])
        return [Polygon(middle + ring, colour), Polygon(shine + 0.25 * ring, (1.0, 1.0, 1.0))]
    top = np.hstack([ring, np.full((len(ring), 1), shape.size[2] / 2)]) + shape.centre
    return [Polygon(_project(top @ rotation.T), colour)]


def _box(shape: Shape, rotation: Floats) -> list[Polygon]:
    """The faces of a box that the viewer sees, darker the more they turn away from the light."""
    half, seen = np.array(shape.size) / 2, []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal = sign * rotation[:, axis]
            if normal @ VIEW <= 0:
                continue
            u, v = (other for other in range(3) if other != axis)
            corners = np.full((4, 3), sign * half[axis])
            corners[:, u], corners[:, v] = half[u] * np.array([-1, 1, 1, -1]), half[v] * np.array([-1, -1, 1, 1])
            light = 0.55 + 0.45 * max(float(normal @ _LIGHT), 0.0)
            red, green, blue = (light * part for part in _rgb(shape.colour))
            seen.append(Polygon(_project((corners + shape.centre) @ rotation.T), (red, green, blue)))
    return seen


def _project(points: Floats) -> Floats:
    """World points (..., 3) on the drawing: (..., 2)."""
    return np.stack([points @ RIGHT, points @ UP], axis=-1)


def _rgb(colour: str) -> Colour:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
