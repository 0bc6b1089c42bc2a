"""The labyrinth in 3D: frame, tilting plate, walls, pits and marble as simple shapes, and these as bodies of a scene.

Lengths in metres, z up, origin at the centre of the plate's upper face. Shapes that tilt with the plate have `tilts=True`
and coordinates in the plate's frame; `plate_rotation` turns that frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.scene import Body
from capture_lab.tasks.marble.maps import MILLIMETRE, Map

PLATE_THICKNESS = 4e-3
WALL_HEIGHT = 12e-3
FRAME_WIDTH = 10e-3
FRAME_HEIGHT = 40e-3
FRAME_GAP = 6e-3


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


def board_bodies(map: Map, state: Floats) -> dict[str, Body]:
    """Frame, tilted plate, walls, pits, goal and marble of a state (6,), by name."""
    turn = plate_rotation(state)
    return {shape.name: body_of(shape, turn) for shape in (*board_scene(map), marble_shape(map, state))}


def body_of(shape: Shape, turn: Floats) -> Body:
    """A shape of the board whose plate is turned by `turn` (3, 3)."""
    x, y, z = shape.size
    size = np.array({"box": (x / 2, y / 2, z / 2), "cylinder": (x, z / 2, 0), "sphere": (x, 0, 0)}[shape.kind])
    turned = turn if shape.tilts else np.eye(3)
    return Body(shape.kind, size, turned @ np.array(shape.centre), shape.colour, turned)
