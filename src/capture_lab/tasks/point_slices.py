"""Pictures of a configuration space without a grid: a slice through a configuration, classified point by point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import part_volumes
from capture_cp.capture.region_search import unwrapped
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR
from capture_lab.tasks.slices import OUTSIDE, PALE, SLICES, STRONG, WALL_COLOUR, Layer, Slices, usual_colours
from capture_lab.tasks.task import Task

#: Points along a side of a picture, and the fraction of its size by which a window on regions is widened.
POINTS, MARGIN = 160, 0.1
#: Random members that estimate the extent of a region whose score does not give it.
MEMBERS = 512


class PointSlices(Slices):
    """Draws two axes of a configuration space of any number of axes, in a slice through a configuration.

    A picture shows the part of the slice within its axis limits, or the whole space if no limits are set.

    Args:
        task: the task whose space is drawn; random inputs estimate its size.
        colours: one per stratum, by default the standard ones in order.
        unit: factor on lengths.
        shown: the two axes.
    """

    parts = "by stratum, in a slice"

    def __init__(
        self, task: Task, colours: Sequence[str] | None = None, unit: float = 1.0, shown: tuple[int, int] = (0, 1)
    ) -> None:
        self.strata, self.extent, self.unit = task.strata, task.extent, unit
        self.colours, self.shown = colours or usual_colours(task), checked_shown(shown, len(task.axes))
        self._seen: tuple[Any, Floats, Ints] | None = None

    def layer(self, configuration: Floats) -> Layer:
        """The configuration (dc,) that the slice goes through."""
        return tuple(float(value) for value in configuration)

    def middle_layers(self) -> list[Layer]:
        """A few slices across the first hidden axis, through the centre of the others; a single one for a plane."""
        middle, hidden = self.extent.middle, self._hidden
        if not hidden:
            return [self.layer(middle)]
        layers = np.tile(middle, (SLICES, 1))
        layers[:, hidden[0]] = np.linspace(self.extent.low[hidden[0]], self.extent.high[hidden[0]], SLICES + 2)[1:-1]
        return [self.layer(layer) for layer in layers]

    def workspace_layer(self) -> Layer:
        """The slice behind paths: through the centre."""
        return self.layer(self.extent.middle)

    def name(self, layer: Layer, axis_name: Callable[[int], str]) -> str:
        """The position of a slice as text; with many axes, on the first hidden one."""
        hidden = self._hidden
        named = hidden if len(hidden) <= 2 else hidden[:1]
        at = ", ".join(f"{axis_name(axis)} = {layer[axis]:.3g}" for axis in named)
        return (at + ", others in the middle" * (len(named) < len(hidden))) or "configuration space"

    def size(self, region: Region) -> str:
        """The size of a region as text."""
        volume = part_volumes(region, stream(0, "picture")).sum()
        return f"volume {volume:.3g}" if np.isfinite(volume) else "whole strata"

    def corners(self) -> tuple[Floats, Floats]:
        """Corners (2,) of the space on the drawn axes, times the unit."""
        shown = list(self.shown)
        return self.extent.low[shown] * self.unit, self.extent.high[shown] * self.unit

    def around(self, Y: Floats, regions: Sequence[Region]) -> tuple[Floats, Floats]:
        """Corners (2,) of a window on configurations Y (n, dc) and regions, with some surroundings."""
        boxes = [np.clip(finite_box(region), self.extent.low, self.extent.high) for region in regions]
        seen = np.vstack([Y, *boxes])[:, list(self.shown)]
        low, high = seen.min(axis=0), seen.max(axis=0)
        margin = MARGIN * (high - low).max()
        return low - margin, high + margin

    def draw(self, axis: Any, layer: Layer, opacity: float = PALE) -> None:
        """Draw the strata of a slice, infeasible space in grey."""
        window = self._window(axis)
        self._show(axis, self._classified(window, layer)[1], opacity, WALL_COLOUR, 1.0, window)

    def draw_region(
        self, axis: Any, region: Region, layer: Layer, opacity: float = STRONG, infeasible: float = STRONG
    ) -> None:
        """Draw a region's part of a slice, by stratum; `infeasible` is the opacity of infeasible parts."""
        window = self._window(axis)
        points, labels = self._classified(window, layer)
        inside = region.within(points, labels.ravel()).reshape(labels.shape)
        self._show(axis, np.where(inside, labels, OUTSIDE), opacity, INFEASIBLE_COLOUR, infeasible, window)

    @property
    def _hidden(self) -> list[int]:
        return [axis for axis in range(len(self.extent.low)) if axis not in self.shown]

    def _window(self, axis: Any) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of the drawn part, times the unit."""
        if axis.get_autoscale_on():
            (left, bottom), (right, top) = self.corners()
            return float(left), float(right), float(bottom), float(top)
        return *axis.get_xlim(), *axis.get_ylim()

    def _classified(self, window: tuple[float, ...], layer: Layer) -> tuple[Floats, Ints]:
        """Points (n, dc) of a window of a slice, and their strata (POINTS, POINTS); cached for the next call."""
        if self._seen is None or self._seen[0] != (window, layer):
            left, right, bottom, top = np.array(window) / self.unit
            middles = (np.arange(POINTS) + 0.5) / POINTS
            points = np.tile(np.array(layer, dtype=np.float64), (POINTS * POINTS, 1))
            points[:, self.shown[0]] = np.repeat(left + (right - left) * middles, POINTS)
            points[:, self.shown[1]] = np.tile(bottom + (top - bottom) * middles, POINTS)
            labels = np.asarray(self.strata.index(points)).reshape(POINTS, POINTS)
            self._seen = (window, layer), points, labels
        return self._seen[1], self._seen[2]


def finite_box(region: Region) -> Floats:
    """Corners (2, dc) of a box around a region's parts in strata that it does not contain entirely.

    Where the score's box spans the whole circle on an angle, the box is that of random members.
    """
    finite = region.thresholds[np.isfinite(region.thresholds)]
    limit = max(float(finite.max()), 0.0) if len(finite) else 0.0
    box = np.vstack(region.score.box(region.prediction, np.array([limit]), region.dims))
    if np.isfinite(box).all():
        return box
    drawn = region.score.propose(region.prediction, limit, MEMBERS, region.dims, stream(0, "picture"))
    near = unwrapped(region, drawn.Y[drawn.weights > 0])
    return np.where(np.isfinite(box), box, [near.min(axis=0), near.max(axis=0)]) if len(near) else box


def checked_shown(shown: tuple[int, int], dims: int) -> tuple[int, int]:
    """The two axes that pictures show, checked to be different axes of the configuration's `dims`."""
    if len(shown) != 2 or len(set(shown)) != 2 or not all(0 <= axis < dims for axis in shown):
        raise CaptureError(f"shown is {tuple(shown)}; expected two different axes of the configuration, 0 to {dims - 1}.")
    return shown
