"""The labyrinth in 3D: frame, tilting plate, walls, pits and marble as simple shapes, and these as polygons.

Lengths in metres, z up, origin at the centre of the plate's upper face. Shapes that tilt with the plate have `tilts=True`
and coordinates in the plate's frame; `plate_rotation` turns that frame. The polygons are seen from the front and above, so
no 3D library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.report.canvas import rgb
from capture_lab.tasks.marble.maps import MILLIMETRE, Map

PLATE_THICKNESS = 4e-3
WALL_HEIGHT = 12e-3
FRAME_WIDTH = 10e-3
FRAME_HEIGHT = 40e-3
FRAME_GAP = 6e-3

Colour = tuple[float, float, float]

_TURN, _HEIGHT = np.radians(-78), np.radians(56)  # position of the viewer: slightly to the right, in front, above
#: Unit vectors of the drawing in the world: towards the viewer, to the right, up.
VIEW: Floats = np.array([np.cos(_HEIGHT) * np.cos(_TURN), np.cos(_HEIGHT) * np.sin(_TURN), np.sin(_HEIGHT)])
RIGHT: Floats = np.array([-np.sin(_TURN), np.cos(_TURN), 0.0])
UP: Floats = np.cross(VIEW, RIGHT)
_LIGHT: Floats = np.array([-0.35, -0.45, 0.82])
_TINY = 1e-9


@dataclass(frozen=True)
class Shape:
    """One solid: a box (size x, y, z), a cylinder (radius, radius, height) or a sphere (radius thrice)."""

    name: str
    kind: Literal["box", "cylinder", "sphere"]
    centre: tuple[float, float, float]
    size: tuple[float, float, float]
    colour: str
    tilts: bool = True


def board_scene(map: Map) -> list[Shape]:
    """All fixed shapes on the plate, and the frame around it."""
    width, height = (side * MILLIMETRE for side in map.size)
    middle = np.array([width, height]) / 2
    shapes = [Shape("plate", "box", (0, 0, -PLATE_THICKNESS / 2), (width, height, PLATE_THICKNESS), "#e8d9bd")]
    for number, wall in enumerate(map.walls):
        x0, y0, x1, y1 = (value * MILLIMETRE for value in wall)
        x, y = np.array([(x0 + x1) / 2, (y0 + y1) / 2]) - middle
        size = (x1 - x0, y1 - y0, WALL_HEIGHT)
        shapes.append(Shape(f"wall {number}", "box", (float(x), float(y), WALL_HEIGHT / 2), size, "#8a6a45"))
    for number, pit in enumerate(map.pits):
        shapes.append(_disc(f"pit {number}", pit, map.pit_radius, middle, "#111111"))
    shapes.append(_disc("goal", map.goal, map.goal_radius, middle, "#009e73"))
    return shapes + _frame(width, height)


def marble_shape(map: Map, state: Floats) -> Shape:
    """The marble of a state (x, vx, y, vy, alpha, beta), resting on the plate."""
    radius = map.marble_radius * MILLIMETRE
    x, y = float(state[0]), float(state[2])
    width, height = (side * MILLIMETRE for side in map.size)
    return Shape("marble", "sphere", (x - width / 2, y - height / 2, radius), (radius, radius, radius), "#9aa5b1")


def plate_rotation(state: Floats) -> Floats:
    """Rotation (3, 3) of the plate of a state: positive alpha lowers the side of small x, positive beta that of small y.

    This matches the marble's motion: its acceleration along x is -5/7 g alpha.
    """
    a, b = float(state[4]), float(state[5])
    about_y = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return np.asarray(about_y @ about_x)


def _disc(name: str, point: tuple[float, float], radius: float, middle: Floats, colour: str) -> Shape:
    x, y = np.array(point) * MILLIMETRE - middle
    return Shape(name, "cylinder", (float(x), float(y), 2e-4), (radius * MILLIMETRE, radius * MILLIMETRE, 4e-4), colour)


def _frame(width: float, height: float) -> list[Shape]:
    x, y = width / 2 + FRAME_GAP + FRAME_WIDTH / 2, height / 2 + FRAME_GAP + FRAME_WIDTH / 2
    across, along = (2 * x + FRAME_WIDTH, FRAME_WIDTH, FRAME_HEIGHT), (FRAME_WIDTH, 2 * y - FRAME_WIDTH, FRAME_HEIGHT)
    sides = {"left": (-x, 0.0, along), "right": (x, 0.0, along), "bottom": (0.0, -y, across), "top": (0.0, y, across)}
    low = -FRAME_HEIGHT / 4
    return [
        Shape(f"frame {name}", "box", (cx, cy, low), size, "#5c4630", tilts=False) for name, (cx, cy, size) in sides.items()
    ]


# -- seen from the front and above -------------------------------------------------------------------------------------


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
    """Whether shape i lies entirely on the viewer's side of shape j, along some axis: (n, n)."""
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
    colour = _colour(shape)
    if shape.kind == "sphere":
        middle = _project(rotation @ np.array(shape.centre))
        shine = middle + 0.35 * shape.size[0] * np.array([-1.0, 1.0])
        return [Polygon(middle + ring, colour), Polygon(shine + 0.25 * ring, (1.0, 1.0, 1.0))]
    top = np.hstack([ring, np.full((len(ring), 1), shape.size[2] / 2)]) + shape.centre
    return [Polygon(_project(top @ rotation.T), colour)]


def _box(shape: Shape, rotation: Floats) -> list[Polygon]:
    """The faces of a box visible to the viewer, darker the more they turn away from the light."""
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
            red, green, blue = (light * part for part in _colour(shape))
            seen.append(Polygon(_project((corners + shape.centre) @ rotation.T), (red, green, blue)))
    return seen


def _project(points: Floats) -> Floats:
    """World points (..., 3) on the drawing: (..., 2)."""
    return np.stack([points @ RIGHT, points @ UP], axis=-1)


def _colour(shape: Shape) -> Colour:
    red, green, blue = rgb(shape.colour) / 255
    return red, green, blue
