"""Pictures of a configuration space as plain arrays: strata, regions, particles. Fast enough to draw while planning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.report.style import INFEASIBLE_COLOUR, PALE, STRATA_COLOURS, WALL_COLOUR
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
