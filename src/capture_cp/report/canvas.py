"""Pictures of a configuration space as plain arrays: strata, regions, particles. Fast enough to draw while planning."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.report.style import ACTION, INFEASIBLE_COLOUR, PALE, START, STRATA_COLOURS, WALL_COLOUR, Mark
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.strata import Strata

#: Pixels (h, w, 3), row 0 at the top.
Picture = npt.NDArray[np.uint8]

#: Names and colours of infeasible space, outside a region and in it.
INFEASIBLE_LEGEND = (("infeasible", WALL_COLOUR), ("infeasible, in a region", INFEASIBLE_COLOUR))


class Shown(Protocol):
    """The interface of a region that is used here."""

    def bounding_box(self, stratum: str | None = None) -> tuple[Floats, Floats]:
        """Corners (dc,) of a box that contains the region."""

    def within(self, Y: Floats, labels: Ints) -> Bools:
        """Whether configurations Y (m, dc) of known strata (m,) are in the region: (m,)."""


def rgb(colour: str) -> Floats:
    """Red, green and blue of "#rrggbb", 0 to 255: (3,)."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)


class Canvas:
    """A window on two axes of a configuration space; row 0 is at the top, where the second axis is largest.

    Args:
        strata: of the space.
        low, high: corners of the window on the two axes, (2,).
        pixels: length of the longer side.
        axes: which two axes of the configuration.
        kinds: number of the colour of each stratum, (M,); by default its own number.
        angles: axes that are angles, which the window may show across ±π.
        square: whether pixels are as wide as high; otherwise the picture is square.
        pale: opacity of the strata.
    """

    def __init__(
        self,
        strata: Strata,
        low: Floats,
        high: Floats,
        pixels: int,
        axes: tuple[int, int] = (0, 1),
        kinds: Sequence[int] | None = None,
        angles: Sequence[int] = (),
        square: bool = True,
        pale: float = PALE,
    ) -> None:
        self.strata, self.axes, self.low = strata, axes, np.asarray(low, dtype=np.float64)
        self.angles, self.pale = tuple(angles), pale
        size = np.asarray(high) - self.low
        self.pitch = float(size.max()) / pixels
        columns, rows = np.maximum(1, np.rint(size / self.pitch)).astype(int) if square else (pixels, pixels)
        self.shape = int(rows), int(columns)
        self.sides = np.full(2, self.pitch) if square else size / pixels
        kinds = range(len(strata.names)) if kinds is None else kinds
        paint = [rgb(STRATA_COLOURS[kind % len(STRATA_COLOURS)]) for kind in kinds]
        self.paint = np.array([*paint, rgb(INFEASIBLE_COLOUR)])  # label -1 picks the last
        self._ground: tuple[bytes, Ints, Picture] | None = None

    # -- coordinates --------------------------------------------------------------------------------------------------

    def points(self, rows: slice, columns: slice, rest: Floats) -> Floats:
        """Configurations (n, dc) at the middles of pixels; `rest` (dc,) gives the axes that are not drawn."""
        height, width = self.shape
        x = self.low[0] + (np.arange(width)[columns] + 0.5) * self.sides[0]
        y = self.low[1] + (height - 0.5 - np.arange(height)[rows]) * self.sides[1]
        points = np.tile(np.asarray(rest, dtype=np.float64), (len(x) * len(y), 1))
        points[:, self.axes[0]], points[:, self.axes[1]] = np.tile(x, len(y)), np.repeat(y, len(x))
        for axis in self.angles:
            points[:, axis] = wrap_angle(points[:, axis])
        return points

    def pixel(self, Y: Floats) -> Floats:
        """Row and column of configurations (n, dc), not rounded: (n, 2)."""
        along = (np.asarray(Y)[:, list(self.axes)] - self.low) / self.sides
        return np.stack([self.shape[0] - along[:, 1], along[:, 0]], axis=1) - 0.5

    def finer(self, picture: Picture, times: int) -> tuple[Canvas, Picture]:
        """The same window with every pixel split into `times` by `times`, and the picture enlarged likewise."""
        fine = copy(self)
        fine.pitch, fine.sides = self.pitch / times, self.sides / times
        fine.shape = self.shape[0] * times, self.shape[1] * times
        return fine, np.repeat(np.repeat(picture, times, axis=0), times, axis=1)

    # -- layers -------------------------------------------------------------------------------------------------------

    def ground(self, rest: Floats) -> tuple[Ints, Picture]:
        """Strata at every pixel (rows, columns), and their pale picture, in the slice at `rest` (dc,) of the other axes."""
        fixed = np.asarray(rest, dtype=np.float64).copy()
        fixed[list(self.axes)] = 0.0
        if self._ground is None or self._ground[0] != fixed.tobytes():
            labels = self.strata.index(self.points(slice(None), slice(None), fixed)).reshape(self.shape)
            shades = np.vstack([255 - self.pale * (255 - self.paint[:-1]), rgb(WALL_COLOUR)])
            self._ground = fixed.tobytes(), labels, shades[labels].astype(np.uint8)
        return self._ground[1], self._ground[2]

    def region(self, picture: Picture, region: Shown, rest: Floats, strength: float) -> None:
        """Colour the pixels of a region by stratum, infeasible ones in dark grey."""
        rows, columns = self._box(region)
        height, width = (len(range(*part.indices(n))) for part, n in zip((rows, columns), self.shape))
        if height * width == 0:
            return
        labels, patch = self.ground(rest)[0][rows, columns], picture[rows, columns]
        inside = region.within(self.points(rows, columns, rest), labels.ravel()).reshape(height, width)
        patch[inside] = (strength * self.paint[labels[inside]] + (1 - strength) * patch[inside]).astype(np.uint8)

    def _box(self, region: Shown) -> tuple[slice, slice]:
        """Rows and columns that enclose the region."""
        corners = np.vstack(region.bounding_box())
        if self.angles or not np.isfinite(corners[:, list(self.axes)]).all():
            return slice(None), slice(None)
        across = self.pixel(corners)
        low, high = np.floor(across.min(axis=0)), np.ceil(across.max(axis=0)) + 1
        first, last = (np.clip(part, 0, self.shape).astype(int) for part in (low, high))
        return slice(first[0], last[0]), slice(first[1], last[1])

    def circle(
        self, picture: Picture, centre: Floats, radius: float, colour: str, line: float = 1.5, inside: float = 0.0
    ) -> None:
        """A circle on the two drawn axes, its line `line` pixels to either side, its inside shaded by `inside`."""
        row, column = self.pixel_of(centre)
        reach, rim = radius / self.pitch + line + 1, radius / self.pitch
        rows, columns = (
            slice(max(0, int(at - reach)), max(0, int(at + reach) + 2)) for at in (row, column)
        )  # the only pixels that change
        patch, paint = picture[rows, columns], rgb(colour)
        if patch.size == 0:
            return
        y, x = np.ogrid[: patch.shape[0], : patch.shape[1]]
        away = np.hypot(y + rows.start - row, x + columns.start - column)
        share = np.where(np.abs(away - rim) <= line, 1.0, np.where(away < rim, inside, 0.0))[..., None]
        patch[:] = (share * paint + (1 - share) * patch).astype(np.uint8)

    def pixel_of(self, place: Floats) -> tuple[float, float]:
        """Row and column of a place (2,) on the drawn axes."""
        along = (np.asarray(place) - self.low) / self.pitch
        return float(self.shape[0] - along[1] - 0.5), float(along[0] - 0.5)

    def dots(self, picture: Picture, Y: Floats, colour: str, radius: int = 2) -> None:
        """Round dots at configurations (n, dc)."""
        stamp(picture, self.pixel(Y), "o", colour, radius)

    def mark(self, picture: Picture, Y: Floats, look: Mark, radius: int = 5) -> None:
        """Mark configurations (n, dc)."""
        mark_pixels(picture, self.pixel(Y), look, radius)

    def action(self, picture: Picture, start: Floats, cloud: Floats) -> None:
        """An arrow from a configuration (dc,) to the mean of a cloud (n, dc)."""
        arrow(picture, self.pixel(start[None])[0], self.pixel(cloud).mean(axis=0), ACTION.colour)


# -- marks on pixels -----------------------------------------------------------------------------------------------------


def stamp(picture: Picture, at: Floats, shape: str, colour: str, radius: float) -> None:
    """Paint a shape at pixels (n, 2), rows and columns; those outside are left out. Shapes as in `Mark`."""
    reach = np.arange(-int(np.ceil(radius)), int(np.ceil(radius)) + 1)
    rows, columns = np.meshgrid(reach, reach, indexing="ij")
    far = np.maximum(np.abs(rows), np.abs(columns))
    inside = {
        "o": rows**2 + columns**2 <= radius**2 + radius / 2,
        "D": np.abs(rows) + np.abs(columns) <= radius,
        "X": (np.abs(np.abs(rows) - np.abs(columns)) <= 0.3 * radius) & (far <= radius),
        "P": (np.minimum(np.abs(rows), np.abs(columns)) <= 0.3 * radius) & (far <= radius),
    }[shape]
    spots = np.rint(at).astype(np.int64)[:, None] + np.stack([rows[inside], columns[inside]], axis=1)
    spots = spots.reshape(-1, 2)
    seen = spots[((spots >= 0) & (spots < picture.shape[:2])).all(axis=1)]
    picture[seen[:, 0], seen[:, 1]] = rgb(colour)


def mark_pixels(picture: Picture, at: Floats, look: Mark, radius: int) -> None:
    """Mark pixels (n, 2), with an edge of a pixel or two."""
    stamp(picture, at, look.shape, look.edge, radius + (2 if look is START else 1))
    stamp(picture, at, look.shape, look.colour, radius)


def arrow(picture: Picture, tail: Floats, head: Floats, colour: str) -> None:
    """An arrow between two pixels (2,); none where they almost coincide."""
    way = head - tail
    length = float(np.hypot(*way))
    if not 6.0 < length < 1e5:
        return
    turns = (np.array([[c, -s], [s, c]]) for c, s in ((np.cos(a), np.sin(a)) for a in (2.65, -2.65)))
    barbs = [head + min(9.0, 0.5 * length) * (turn @ way) / length for turn in turns]
    for a, b in ((tail, head), *((head, barb) for barb in barbs)):
        along = np.linspace(0.0, 1.0, int(np.hypot(*(b - a))) + 2)[:, None]
        stamp(picture, a + along * (b - a), "o", colour, 1)


def beside(pictures: Sequence[Picture], gap: int = 12) -> Picture:
    """Pictures of the same height, side by side."""
    parts = [pictures[0]]
    for picture in pictures[1:]:
        parts += [np.full((len(picture), gap, 3), 255, np.uint8), picture]
    return np.ascontiguousarray(np.hstack(parts))
