"""Panels of a configuration space of two axes or more: two of them are drawn, in a slice at the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, shortened
from capture_cp.logs.marks import TRAIL, axis_label, mark_of, verdict
from capture_cp.logs.replay import Look
from capture_cp.logs.space import Space, Window
from capture_cp.spaces.plotting import label

#: Sides of a plane are drawn in the same unit if neither is longer than so many times the other.
ALIKE = 4.0
#: Axes that are not drawn, up to which a title says where a slice is.
NAMED = 2


class Plane:
    """Draws steps in the plane of two axes."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def set_up(self, axis: Any, close: bool) -> None:
        """What stays: labels, ticks, and the window on the whole space."""
        across, up = self.space.shown
        axis.set(xlabel=axis_label(self.space, across), ylabel=axis_label(self.space, up), title=" ")
        axis.locator_params(nbins=5)
        axis.tick_params(labelsize=8)
        self._frame(axis, self.space.window)

    def draw_whole(self, axis: Any, look: Look, step: int) -> None:
        """The whole space, with the way so far."""
        window = self.space.window
        axis.set_title(self.title(look), fontsize=9)
        self._frame(axis, window)
        self._draw(axis, window, look, dots=7)

    def draw_near(self, axis: Any, look: Look, step: int) -> None:
        """The same around the step."""
        window = self._squared(self.space.near(look))
        axis.set_title(f"close-up{verdict(look)}", fontsize=9)
        self._frame(axis, window)
        self._draw(axis, window, look, dots=14)

    def title(self, look: Look) -> str:
        """Where the slice is, in words."""
        names = self.space.robot.axes
        hidden = [axis for axis in range(len(names)) if axis not in self.space.shown]
        if not hidden:
            return "configuration space"
        through = "where it went" if look.went is not None else "the particles' middle"
        if len(hidden) > NAMED:
            return f"slice of the configuration space through {through}"
        at = ", ".join(f"{label(shortened(names[axis], 20))} = {look.middle[axis]:.3g}" for axis in hidden)
        return f"slice at {at} (through {through})"

    def _frame(self, axis: Any, window: Window) -> None:
        across, up = self.space.shown
        axis.set(xlim=(window.low[across], window.high[across]), ylim=(window.low[up], window.high[up]))
        axis.set_aspect("equal" if self._alike(window) else "auto")

    def _alike(self, window: Window) -> bool:
        """Whether both axes are drawn in the same unit: as far as is known they have one, and it suits both."""
        across, up = self.space.shown
        size = window.high - window.low
        mixed = (across in window.angles) != (up in window.angles)
        return bool(not mixed and max(size[across], size[up]) <= ALIKE * min(size[across], size[up]))

    def _squared(self, window: Window) -> Window:
        """A window that is as wide as high, where both axes are drawn in the same unit."""
        if not self._alike(self.space.window):
            return window
        shown, middle, half = list(self.space.shown), (window.low + window.high) / 2, (window.high - window.low) / 2
        half[shown] = half[shown].max()
        return Window(middle - half, middle + half, window.angles)

    def _draw(self, axis: Any, window: Window, look: Look, dots: int) -> None:
        across, up = self.space.shown
        picture = self.space.raster(window, look)
        ends = window.low[across], window.high[across], window.low[up], window.high[up]
        if picture is not None:
            axis.imshow(picture, extent=ends, interpolation="nearest", aspect=axis.get_aspect(), zorder=0)

        def at(Y: Floats) -> Floats:
            return window.placed(np.atleast_2d(Y))[:, [across, up]].T

        if len(look.path) > 1:
            x, y = at(look.path)
            size, turns = window.high - window.low, (across in window.angles, up in window.angles)
            axis.plot(*broken(x, y, (size[across], size[up]), turns), color=TRAIL, lw=1.0, zorder=2)
        axis.scatter(*at(look.cloud), s=dots, color="black", zorder=4, lw=0)
        if look.start is not None:
            axis.plot(*at(look.start), "D", color="white", mec="black", ms=6, zorder=5)
        if look.went is not None:
            colour, shape = mark_of(look.inside)
            axis.plot(*at(look.went), shape, color=colour, mec="white", ms=10, mew=1.0, zorder=6)
        axis.set(xlim=ends[:2], ylim=ends[2:])


def broken(x: Floats, y: Floats, sizes: tuple[float, float], angles: tuple[bool, bool]) -> tuple[Floats, Floats]:
    """A line through points x (n,), y (n,), with a gap where an angle leaves the picture at one end for the other."""
    leaps = np.zeros(len(x) - 1, dtype=bool)
    for along, size, is_angle in zip((x, y), sizes, angles):
        leaps |= is_angle & (np.abs(np.diff(along)) > size / 2)
    at = np.flatnonzero(leaps) + 1
    return np.insert(x, at, np.nan), np.insert(y, at, np.nan)
