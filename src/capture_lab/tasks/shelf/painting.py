"""Flat pictures of the shelf as plain arrays, fast enough to be drawn while planning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Canvas, Picture, rgb, stamp
from capture_lab.tasks.scene import GOAL_COLOUR
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import GLASS_COLOUR, JAR_COLOUR, WOOD_COLOUR, View, faces, glass_capsules, nearest_last

#: Opacity of boards and walls seen from their broad side, and width of outlines (pixels).
BROAD, RIM = 0.14, 1.2
OUTLINE, ARM = "#55585f", "#dcdde2"


class Flat(Canvas):
    """A view of the shelf with its glasses, the goal of the jar and the arm; configurations are where their jar is.

    Args:
        task: the shelf and its arm.
        view: direction of view.
        low, high: corners (2,) of the window (m).
        pixels: width of the picture.
        arm: capsules (p, 7) of the arm, of which number `jar` is the jar.

    Attributes:
        picture: (rows, columns, 3), to be copied.
    """

    def __init__(self, task: ShelfTask, view: View, low: Floats, high: Floats, pixels: int, arm: Floats, jar: int) -> None:
        self.task, self.view, self.low = task, view, np.asarray(low)
        self.pitch = float(high[0] - low[0]) / pixels
        self.shape = max(1, round(float(high[1] - low[1]) / self.pitch)), pixels
        self.picture: Picture = np.full((*self.shape, 3), 255, np.uint8)
        for face in faces(task.shelf, view):
            self._plank(face.low, face.high, WOOD_COLOUR, BROAD if face.broad else 1.0)
        for capsule in glass_capsules(task.shelf):
            self.capsule(capsule, GLASS_COLOUR, 0.75)
        self.capsule(np.concatenate([task.shelf.goal, task.shelf.goal, [task.shelf.within]]), GOAL_COLOUR, 0.2, GOAL_COLOUR)
        for number in nearest_last(arm, view):
            self.capsule(arm[number], JAR_COLOUR if number == jar else ARM, 0.75)

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

    def capsule(self, capsule: Floats, colour: str, opacity: float, outline: str = OUTLINE) -> None:
        """A capsule (7,) with its outline."""
        (a, b), radius = self.pixel_of_points(capsule[:6].reshape(2, 3)), float(capsule[6]) / self.pitch
        first = np.clip(np.floor(np.minimum(a, b) - radius - 2), 0, self.shape).astype(int)
        last = np.clip(np.ceil(np.maximum(a, b) + radius + 3), 0, self.shape).astype(int)
        patch = self.picture[first[0] : last[0], first[1] : last[1]]
        if not patch.size:
            return
        row, column = np.ogrid[first[0] : last[0], first[1] : last[1]]
        way = b - a
        share = np.clip(((row - a[0]) * way[0] + (column - a[1]) * way[1]) / max(float(way @ way), 1e-12), 0.0, 1.0)
        away = np.hypot(row - a[0] - share * way[0], column - a[1] - share * way[1]) - radius
        _mix(patch, np.clip(0.5 - away, 0.0, 1.0) * opacity, colour)
        _mix(patch, np.clip(RIM - np.abs(away), 0.0, 1.0), outline)

    def _plank(self, low: Floats, high: Floats, colour: str, opacity: float) -> None:
        rows, _ = self.shape
        left, right = (int(round((side - self.low[0]) / self.pitch)) for side in (low[0], high[0]))
        top, bottom = (int(round(rows - (side - self.low[1]) / self.pitch)) for side in (high[1], low[1]))
        patch = self.picture[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        _mix(patch, np.full(patch.shape[:2], opacity), colour)


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


def _mix(patch: Picture, share: Floats, colour: str) -> None:
    """Blend a colour into a patch (r, c, 3) in place, with an opacity at each pixel (r, c)."""
    patch[:] = (share[..., None] * rgb(colour) + (1 - share[..., None]) * patch).astype(np.uint8)
