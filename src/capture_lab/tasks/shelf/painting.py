"""Flat pictures of the shelf as plain arrays, fast enough to be drawn while planning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Canvas, Picture, stamp
from capture_cp.report.solids import View, rendered
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import GOAL_COLOUR, seen_through, shelf_bodies


class Flat(Canvas):
    """A view of the shelf with its glasses, the goal of the jar and the arm; configurations are where their jar is.

    Args:
        task: the shelf and its arm.
        y: configuration (7,) of the arm.
        view: direction of view.
        low, high: corners (2,) of the window (m).
        pixels: width of the picture.

    Attributes:
        picture: (rows, columns, 3), to be copied.
    """

    def __init__(self, task: ShelfTask, y: Floats, view: View, low: Floats, high: Floats, pixels: int) -> None:
        self.task, self.view, self.low = task, view, np.asarray(low)
        self.pitch = float(high[0] - low[0]) / pixels
        bodies = [seen_through(body, view) for name, body in shelf_bodies(task, y).items() if name != "goal"]
        self.picture: Picture = rendered(bodies, view, low, high, pixels).pixels
        self.shape, self.axes, self.sides = self.picture.shape[:2], (0, 1), np.full(2, self.pitch)
        self.circle(self.picture, view.flat(task.shelf.goal), task.shelf.within, GOAL_COLOUR, inside=0.2)

    def pixel(self, Y: Floats) -> Floats:
        """Row and column of the jar at configurations Y (n, 7), not rounded: (n, 2)."""
        return self.pixel_of_points(self.task.jars(np.ascontiguousarray(Y))[:, :3])

    def pixel_of_points(self, points: Floats) -> Floats:
        """Row and column of points (n, 3) of the world, not rounded: (n, 2)."""
        along = (self.view.flat(points) - self.low) / self.pitch
        return np.stack([self.shape[0] - along[:, 1], along[:, 0]], axis=1) - 0.5

    def places(self, picture: Picture, points: Floats, colour: str) -> None:
        """Small dots at points (n, 3) of the world."""
        stamp(picture, self.pixel_of_points(points), "o", colour, 1)


def stacked(pictures: Sequence[Picture], gap: int = 10) -> Picture:
    """Pictures of one width, one above the other."""
    parts = [pictures[0]]
    for picture in pictures[1:]:
        parts += [np.full((gap, picture.shape[1], 3), 255, np.uint8), picture]
    return np.ascontiguousarray(np.concatenate(parts))


def as_high(picture: Picture, rows: int) -> Picture:
    """A picture in the middle of so many rows, white above and below."""
    above = (rows - len(picture)) // 2
    return np.pad(picture, ((above, rows - len(picture) - above), (0, 0), (0, 0)), constant_values=255)
