"""Pictures of a configuration space with a grid: its cells by stratum, the cells of regions, and captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.region import Region
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, grid_of
from capture_lab.tasks.task import Task

#: Colour of infeasible space, and opacity of strata and of a region's cells.
WALL_COLOUR, PALE, STRONG = "#cccccc", 0.12, 0.75
#: Margin in cells around a region, and number of slices across the third axis.
MARGIN, SLICES = 4, 5
OUTSIDE = INFEASIBLE - 1  # of a region

#: Position of a slice: cell numbers on the hidden axes, or without a grid a configuration.
Layer = tuple[Any, ...]


class Slices:
    """Draws the first two axes of a configuration space at one position on the others; a plane is its own slice.

    Without a grid, see `PointSlices`.

    Args:
        task: the task whose space is drawn.
        colours: one per stratum, by default the standard ones in order.
        unit: factor on lengths.
    """

    #: The drawn axes, and what represents a region.
    shown: Sequence[int] = (0, 1)
    parts = "cells by stratum"

    def __init__(self, task: Task, colours: Sequence[str] | None = None, unit: float = 1.0) -> None:
        self.strata: Any = grid_of(task.strata)
        self.grid, self.unit = self.strata.require_grid(), unit
        self.colours = colours or usual_colours(task)

    def layer(self, configuration: Floats) -> Layer:
        """Numbers of the cells nearest to a configuration (dc,) on the hidden axes."""
        cells = np.rint((np.asarray(configuration) - self.grid.origin) / self.grid.spacing).astype(int)
        return tuple(int(cell) for cell in np.clip(cells, 0, np.array(self.grid.shape) - 1)[2:])

    def middle_layers(self) -> list[Layer]:
        """A few slices across the third axis, through the centre of the others; a single one for a plane."""
        rest = self.grid.shape[2:]
        if not rest:
            return [()]
        middle = tuple(size // 2 for size in rest[1:])
        return [(int(at), *middle) for at in np.linspace(0, rest[0] - 1, SLICES + 2)[1:-1]]

    def workspace_layer(self) -> Layer:
        """The slice behind paths."""
        return self.middle_layers()[0]

    def name(self, layer: Layer, axis_name: Callable[[int], str]) -> str:
        """The position of a slice as text."""
        origin, spacing = self.grid.origin, self.grid.spacing
        at = (f"{axis_name(2 + i)} = {origin[2 + i] + n * spacing[2 + i]:.3g}" for i, n in enumerate(layer))
        return ", ".join(at) or "configuration space"

    def size(self, region: Region) -> str:
        """The size of a region as text."""
        return f"{len(region.cells()):,} cells"

    def corners(self) -> tuple[Floats, Floats]:
        """Corners (2,) of the space on the drawn axes, times the unit."""
        low = self.grid.origin[:2] * self.unit
        return low, low + (self.grid.spacing * np.array(self.grid.shape))[:2] * self.unit

    def around(self, Y: Floats, regions: Sequence[Region]) -> tuple[Floats, Floats]:
        """Corners (2,) of a window on configurations Y (n, dc) and regions, with some surroundings."""
        centres = [self.grid.centre(region.cells()) for region in regions]
        shown, margin = np.vstack([Y, *centres])[:, :2], MARGIN * self.grid.spacing[:2]
        return shown.min(axis=0) - margin, shown.max(axis=0) + margin

    def draw(self, axis: Any, layer: Layer, opacity: float = PALE) -> None:
        """Draw the strata of a slice, infeasible space in grey."""
        whole: tuple[Any, ...] = (slice(None), slice(None))
        labels = self.strata.labels.reshape(self.grid.shape)[(*whole, *layer)]
        self._show(axis, labels, opacity, WALL_COLOUR, 1.0)

    def draw_region(
        self, axis: Any, region: Region, layer: Layer, opacity: float = STRONG, infeasible: float = STRONG
    ) -> None:
        """Draw the cells of a region in a slice by stratum; `infeasible` is the opacity of infeasible cells."""
        cells = np.stack(np.unravel_index(region.cells(), self.grid.shape), axis=1)
        here = (cells[:, 2:] == np.array(layer, dtype=int)).all(axis=1)
        labels: Ints = np.full(self.grid.shape[:2], OUTSIDE)
        labels[tuple(cells[here, :2].T)] = self.strata.labels[region.cells()[here]]
        self._show(axis, labels, opacity, INFEASIBLE_COLOUR, infeasible)

    def draw_shape(self, axis: Any, region: Region, middle: Floats, half: float, points: int = 240) -> None:
        """Draw a region of a plane within a square around `middle` (2,), `half` being half its side, point by point: the
        region may be smaller than a cell."""
        side = np.linspace(-half, half, points)
        at = middle + np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        labels = np.where(region.contains(at), self.strata.index(at), OUTSIDE).reshape(points, points)
        (left, bottom), (right, top) = (middle - half) * self.unit, (middle + half) * self.unit
        self._show(axis, labels, STRONG, INFEASIBLE_COLOUR, STRONG, (left, right, bottom, top))

    def _show(self, axis: Any, labels: Any, opacity: float, wall: str, infeasible: float, extent: Any = None) -> None:
        from matplotlib.colors import to_rgba

        picture = np.zeros((*labels.shape, 4))
        picture[labels == INFEASIBLE] = to_rgba(wall, infeasible)
        for m, colour in enumerate(self.colours):
            picture[labels == m] = to_rgba(colour, opacity)
        if extent is None:
            low = (self.grid.origin - self.grid.spacing / 2)[:2] * self.unit
            high = low + self.grid.spacing[:2] * np.array(labels.shape) * self.unit
            extent = (low[0], high[0], low[1], high[1])
        axis.imshow(picture.swapaxes(0, 1), origin="lower", extent=extent, interpolation="nearest", aspect="equal")


def usual_colours(task: Task) -> list[str]:
    """The standard colours of strata, in order."""
    return [STRATA_COLOURS[m % len(STRATA_COLOURS)] for m in range(len(task.strata.names))]
