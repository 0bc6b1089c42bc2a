"""Flat pictures of the shelf as plain arrays, fast enough to be drawn while planning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Picture, arrow, mark_pixels, rgb, stamp
from capture_cp.spaces.marks import ACTION, Mark
from capture_lab.tasks.scene import GOAL
from capture_lab.tasks.shelf.shelves import Shelf
from capture_lab.tasks.shelf.views import GLASS_COLOUR, WOOD_COLOUR, View, faces, glass_capsules

#: Opacity of boards and walls seen from their broad side, and width of outlines (pixels).
BROAD, RIM = 0.14, 1.2
OUTLINE = "#55585f"


class Flat:
    """A view of the shelf, painted; row 0 is at the top.

    Args:
        shelf: its boards, walls, glasses and the goal of the jar are painted at once.
        view: direction of view.
        low, high: corners (2,) of the window (m).
        pixels: width of the picture.

    Attributes:
        picture: (rows, columns, 3).
    """

    def __init__(self, shelf: Shelf, view: View, low: Floats, high: Floats, pixels: int) -> None:
        self.view, self.low, self.pitch = view, np.asarray(low), float(high[0] - low[0]) / pixels
        rows = max(1, round(float(high[1] - low[1]) / self.pitch))
        self.picture: Picture = np.full((rows, pixels, 3), 255, np.uint8)
        for face in faces(shelf, view):
            self._box(face.low, face.high, WOOD_COLOUR, BROAD if face.broad else 1.0)
        for capsule in glass_capsules(shelf):
            self.capsule(capsule, GLASS_COLOUR, 0.75)
        goal = np.concatenate([shelf.goal, shelf.goal, [shelf.within]])
        self.capsule(goal, GOAL, 0.2, GOAL)

    def pixel(self, points: Floats) -> Floats:
        """Row and column of points (n, 3) of the world, not rounded: (n, 2)."""
        along = (self.view.flat(points) - self.low) / self.pitch
        return np.stack([len(self.picture) - along[:, 1], along[:, 0]], axis=1) - 0.5

    def capsule(self, capsule: Floats, colour: str, opacity: float, outline: str = OUTLINE) -> None:
        """A capsule (7,) with its outline."""
        (a, b), radius = self.pixel(capsule[:6].reshape(2, 3)), float(capsule[6]) / self.pitch
        first = np.clip(np.floor(np.minimum(a, b) - radius - 2), 0, self.picture.shape[:2]).astype(int)
        last = np.clip(np.ceil(np.maximum(a, b) + radius + 3), 0, self.picture.shape[:2]).astype(int)
        patch = self.picture[first[0] : last[0], first[1] : last[1]]
        if not patch.size:
            return
        row, column = np.ogrid[first[0] : last[0], first[1] : last[1]]
        way = b - a
        share = np.clip(((row - a[0]) * way[0] + (column - a[1]) * way[1]) / max(float(way @ way), 1e-12), 0.0, 1.0)
        away = np.hypot(row - a[0] - share * way[0], column - a[1] - share * way[1]) - radius
        _mix(patch, np.clip(0.5 - away, 0.0, 1.0) * opacity, colour)
        _mix(patch, np.clip(RIM - np.abs(away), 0.0, 1.0), outline)

    def dots(self, points: Floats, colour: str, radius: int) -> None:
        """Round dots at points (n, 3) of the world."""
        stamp(self.picture, self.pixel(points), "o", colour, radius)

    def mark(self, points: Floats, look: Mark, radius: int = 5) -> None:
        """Mark points (n, 3) of the world."""
        mark_pixels(self.picture, self.pixel(points), look, radius)

    def action(self, start: Floats, points: Floats) -> None:
        """An arrow from a point (3,) to the mean of points (n, 3)."""
        arrow(self.picture, self.pixel(start[None])[0], self.pixel(points).mean(axis=0), ACTION.colour)

    def _box(self, low: Floats, high: Floats, colour: str, opacity: float) -> None:
        rows, _ = self.picture.shape[:2]
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
