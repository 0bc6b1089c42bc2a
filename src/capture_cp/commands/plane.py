"""Panels of a configuration space of two or more axes: a slice along two of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, shortened
from capture_cp.commands.marks import axis_label, verdict
from capture_cp.commands.replay import Look
from capture_cp.commands.space import Space, Window
from capture_cp.spaces.marks import PARTICLES, PATH_COLOUR, START, draw_action, mark, outcome_look
from capture_cp.spaces.plotting import label

#: Both sides of a plane have the same scale unless one is longer than this many times the other.
ALIKE = 4.0
#: Most axes outside the picture whose values a title lists.
NAMED = 2


class Plane:
    """Draws steps in the plane of two axes."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def set_up(self, axis: Any, close: bool) -> None:
        """Draw what stays: labels, ticks, and the window on the whole space."""
        across, up = self.space.shown
        axis.set(xlabel=axis_label(self.space, across), ylabel=axis_label(self.space, up), title=" ")
        axis.locator_params(nbins=5)
        axis.tick_params(labelsize=8)
        self._frame(axis, self.space.window)

    def draw_whole(self, axis: Any, look: Look, step: int) -> None:
        """The whole space, with the path so far."""
        window = self.space.window
        axis.set_title(self.title(look), fontsize=9)
        self._frame(axis, window)
        self._draw(axis, window, look, dots=0.9)

    def draw_near(self, axis: Any, look: Look, step: int) -> None:
        """The same around the step."""
        window = self._squared(self.space.near(look))
        axis.set_title(f"close-up{verdict(look)}", fontsize=9)
        self._frame(axis, window)
        self._draw(axis, window, look, dots=1.2)

    def title(self, look: Look) -> str:
        """Where the slice lies, in words."""
        names = self.space.robot.axes
        hidden = [axis for axis in range(len(names)) if axis not in self.space.shown]
        if not hidden:
            return "configuration space"
        through = "the true outcome" if look.went is not None else "the most central particle"
        if len(hidden) > NAMED:
            return f"slice of the configuration space through {through}"
        at = ", ".join(f"{label(shortened(names[axis], 20))} = {look.middle[axis]:.3g}" for axis in hidden)
        return f"slice at {at} (through {through})"

    def _frame(self, axis: Any, window: Window) -> None:
        across, up = self.space.shown
        axis.set(xlim=(window.low[across], window.high[across]), ylim=(window.low[up], window.high[up]))
        axis.set_aspect("equal" if self._alike(window) else "auto")

    def _alike(self, window: Window) -> bool:
        """Whether both axes have the same scale: not an angle with a length, and neither much longer."""
        across, up = self.space.shown
        size = window.high - window.low
        mixed = (across in window.angles) != (up in window.angles)
        return bool(not mixed and max(size[across], size[up]) <= ALIKE * min(size[across], size[up]))

    def _squared(self, window: Window) -> Window:
        """A window that is as wide as high, if both axes have the same scale."""
        if not self._alike(self.space.window):
            return window
        shown, middle, half = list(self.space.shown), (window.low + window.high) / 2, (window.high - window.low) / 2
        half[shown] = half[shown].max()
        return Window(middle - half, middle + half, window.angles)

    def _apart(self, window: Window, start: Floats, particles: Floats) -> bool:
        """Whether an arrow from the start (2,) to the particles (n, 2) is one line: no angle wraps around between them."""
        size = (window.high - window.low)[list(self.space.shown)]
        turns = np.array([axis in window.angles for axis in self.space.shown])
        return not bool((turns & (np.abs(particles.mean(axis=0) - start) > size / 2)).any())

    def _draw(self, axis: Any, window: Window, look: Look, dots: float) -> None:
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
            axis.plot(*broken(x, y, (size[across], size[up]), turns), color=PATH_COLOUR, lw=1.0, zorder=2)
        mark(axis, PARTICLES, at(look.cloud).T, dots, zorder=4)
        if look.start is not None:
            start, particles = at(look.start).T[0], at(look.cloud).T
            if self._apart(window, start, particles):
                draw_action(axis, start, particles)
            mark(axis, START, start, zorder=5)
        if look.went is not None:
            mark(axis, outcome_look(look.inside), at(look.went).T, zorder=6)
        axis.set(xlim=ends[:2], ylim=ends[2:])


def broken(x: Floats, y: Floats, sizes: tuple[float, float], angles: tuple[bool, bool]) -> tuple[Floats, Floats]:
    """A line through points x (n,), y (n,), with a gap where an angle wraps around."""
    leaps = np.zeros(len(x) - 1, dtype=bool)
    for along, size, is_angle in zip((x, y), sizes, angles):
        leaps |= is_angle & (np.abs(np.diff(along)) > size / 2)
    at = np.flatnonzero(leaps) + 1
    return np.insert(x, at, np.nan), np.insert(y, at, np.nan)
