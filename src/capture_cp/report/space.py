"""A configuration space as panels: a slice along two of them, by stratum, with regions and steps."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, shortened
from capture_cp.report.canvas import Canvas, Picture, Shown
from capture_cp.report.panel import Dots, Image, Line, Panel, Shape
from capture_cp.report.style import OUTSIDE, PALE, PARTICLES, PATH_COLOUR, STRONG, Mark, label
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.strata import Strata

#: Pixels along a side, margin of a window as a fraction of its size, and smallest fraction of the space in a close-up.
POINTS, MARGIN, LEAST = 180, 0.12, 0.04
#: Opacity of the region of the last step of a plan, and slices whose strata are kept.
FAINT, KEPT = 0.25, 3
#: An axis of angles that covers more than this fraction of a turn is shown as a whole turn.
NEARLY = 0.75
#: Axes have the same scale unless one is longer than this many times the other.
ALIKE = 4.0
#: Most hidden axes whose values a title lists, and longest name of an axis.
NAMED, LONGEST = 2, 24


@dataclass(frozen=True)
class Step:
    """One step, in configurations.

    Attributes:
        region: of the step, or None.
        cloud: the model's particles (L, dc), or the mean (1, dc) of a Gaussian; none without a prediction.
        start: the configuration (dc,) before the step, or None where it is unknown.
        went: the true outcome (dc,), or None.
        inside: whether the region contains it, or None.
        path: configurations so far (t, dc).
        missed: those of them that were outside their region (m, dc).
        later: clouds and regions of the steps after it, as far as they are planned.
    """

    region: Any
    cloud: Floats
    start: Floats | None
    went: Floats | None
    inside: bool | None
    path: Floats
    missed: Floats | None = None
    later: Sequence[tuple[Floats, Any]] = ()

    @property
    def middle(self) -> Floats:
        """The configuration (dc,) that a slice goes through: the true outcome, the most central particle or the start."""
        if self.went is not None:
            return self.went
        if len(self.cloud):
            return np.asarray(self.cloud[np.argmin(((self.cloud - self.cloud.mean(axis=0)) ** 2).sum(axis=1))])
        assert self.start is not None
        return self.start

    @property
    def verdict(self) -> str:
        """Whether the true outcome is in the region, in words; empty without one."""
        return "" if self.inside is None else f": outcome {'inside' if self.inside else 'outside'} the region"


@dataclass(frozen=True)
class Window:
    """A box of configurations, from `low` (dc,) to `high` (dc,); on the axes in `angles` it may lie across ±π."""

    low: Floats
    high: Floats
    angles: tuple[int, ...] = ()

    @classmethod
    def around(cls, Y: Floats, angles: tuple[int, ...], margin: float = MARGIN) -> Window:
        """The window on configurations Y (n, dc) with a margin; at most one turn of an angle."""
        Y = about(Y, {axis: direction(Y[:, axis]) for axis in angles})
        low, high = Y.min(axis=0), Y.max(axis=0)
        wide = np.where(high > low, high - low, np.maximum(1e-3, 0.1 * np.abs(high)))
        middle, half = (low + high) / 2, (0.5 + margin) * wide
        for axis in angles:
            if half[axis] > NEARLY * np.pi:
                middle[axis], half[axis] = 0.0, np.pi
        return cls(middle - half, middle + half, angles)

    @property
    def size(self) -> Floats:
        return self.high - self.low

    def placed(self, Y: Floats) -> Floats:
        """Configurations Y (n, dc) with angles within half a turn of the middle of the window."""
        return about(Y, {axis: float(self.low[axis] + self.high[axis]) / 2 for axis in self.angles})


class Space:
    """A configuration space in pictures.

    Args:
        strata: of the space.
        window: on the whole space.
        names: of its axes, (dc,).
        shown: the two axes in pictures, or the only one.
        units: factor on each axis, (dc,); `names` then have these units.
        kinds: number of the colour of each stratum; by default its own number.
        shapes, marks: things in the space, in the coordinates of pictures.
    """

    def __init__(
        self,
        strata: Strata,
        window: Window,
        names: Sequence[str],
        shown: Sequence[int] = (0, 1),
        units: Floats | None = None,
        kinds: Sequence[int] | None = None,
        shapes: tuple[Shape, ...] = (),
        marks: tuple[tuple[Mark, Floats], ...] = (),
    ) -> None:
        self.strata, self.window, self.names, self.shown = strata, window, tuple(names), tuple(shown)
        self.units = np.ones(len(names)) if units is None else np.asarray(units)
        self.kinds, self.shapes, self.marks = kinds, shapes, marks
        self._known: dict[bytes, Canvas] = {}

    def showing(self, shown: Sequence[int]) -> Space:
        """The same space on other axes."""
        other = copy(self)
        other.shown, other._known = tuple(shown), {}
        return other

    # -- windows ------------------------------------------------------------------------------------------------------

    def near(self, step: Step, half: float | None = None) -> Window:
        """The window on a step: its particles, the finite parts of its region, and the true outcome.

        With `half`, a square of twice that length around their middle.
        """
        seen = [Y for Y in (step.cloud, None if step.went is None else step.went[None]) if Y is not None and len(Y)]
        middles = {axis: direction(np.vstack(seen or [step.middle[None]])[:, axis]) for axis in self.window.angles}
        points = about(np.vstack(seen or [step.middle[None]]), middles)
        if step.region is not None:
            box = step.region.finite_box()
            points = np.vstack([points, np.where(np.isfinite(box), box, points.mean(axis=0))])
        low, high, whole = points.min(axis=0), points.max(axis=0), self.window.size
        if half is not None:
            return Window((low + high) / 2 - half, (low + high) / 2 + half, self.window.angles)
        sides = np.clip((0.5 + MARGIN) * (high - low), LEAST / 2 * whole, whole / 2)
        return self.squared(Window((low + high) / 2 - sides, (low + high) / 2 + sides, self.window.angles))

    def squared(self, window: Window) -> Window:
        """A window that is as wide as high, if both axes have the same scale."""
        if len(self.shown) < 2 or not self.alike:
            return window
        shown, middle, half = list(self.shown), (window.low + window.high) / 2, window.size / 2
        half[shown] = half[shown].max()
        return Window(middle - half, middle + half, window.angles)

    @property
    def alike(self) -> bool:
        """Whether both axes have the same scale: not an angle with a length, and neither much longer."""
        size = self.window.size[list(self.shown)]
        mixed = (self.shown[0] in self.window.angles) != (self.shown[1] in self.window.angles)
        return bool(not mixed and size.max() <= ALIKE * size.min())

    # -- panels -------------------------------------------------------------------------------------------------------

    def flat(self, Y: Floats, window: Window | None = None) -> Floats:
        """Configurations (n, dc) in a picture of a window, (n, 2)."""
        placed = (window or self.window).placed(np.atleast_2d(Y))
        return np.asarray((placed * self.units)[:, list(self.shown)])

    def panel(
        self,
        rest: Floats,
        window: Window | None = None,
        region: Shown | None = None,
        pale: float = PALE,
        strong: float = STRONG,
        later: Sequence[Any] = (),
        **contents: Any,
    ) -> Panel:
        """The slice of a window through a configuration `rest` (dc,), by stratum, with a region and other contents.

        Regions of `later` steps are under it, the paler the later.
        """
        window, shown = window or self.window, list(self.shown)
        low, high = ((corner * self.units)[shown] for corner in (window.low, window.high))
        pixels = self.raster(rest, window, [region, *later], pale, strong)
        images = () if pixels is None else (Image(pixels, low, high),)
        across, up = (self.axis_name(axis) for axis in shown)
        drawn = Panel(low, high, images, self.shapes, marks=self.marks, across=across, up=up, equal=self.alike)
        return replace(drawn, **contents)

    def raster(
        self, rest: Floats, window: Window, regions: Sequence[Any] = (), pale: float = PALE, strong: float = STRONG
    ) -> Any:
        """The pixels of a panel; None where the user's strata cannot be evaluated on the whole window."""
        fixed = np.asarray(rest, dtype=np.float64).copy()
        fixed[list(self.shown)] = 0.0
        key = b"".join(np.asarray(part).tobytes() for part in (window.low, window.high, fixed, pale))
        if key not in self._known:
            low, high = window.low[list(self.shown)], window.high[list(self.shown)]
            look: dict[str, Any] = {"angles": window.angles, "square": False, "pale": pale}
            axes = self.shown[0], self.shown[1]
            kept = list(self._known.items())[-KEPT:]
            self._known = dict(kept) | {key: Canvas(self.strata, low, high, POINTS, axes, self.kinds, **look)}
        canvas = self._known[key]
        try:
            picture = canvas.ground(fixed)[1].copy()
        except CaptureError:
            raise
        except Exception:  # the user's strata, evaluated where the robot may never be
            return None
        paint_regions(canvas, picture, regions, fixed, strong)
        return picture

    def step(self, step: Step, window: Window, dots: float = 1.0, **contents: Any) -> Panel:
        """A step in a window: strata, region, path so far, particles, start, action and true outcome."""
        contents |= {"small": (1.0, dots), "particles": self.flat(step.cloud, window) if len(step.cloud) else None}
        contents["dots"] = tuple(Dots(self.flat(cloud, window), PARTICLES.colour, 3.0, 0.6) for cloud, _ in step.later)
        if step.missed is not None and len(step.missed):
            contents["marks"] = (*self.marks, (OUTSIDE, self.flat(step.missed, window)))
        if len(step.path) > 1:
            contents["lines"] = (Line(self._broken(self.flat(step.path, window), window), PATH_COLOUR),)
        if step.start is not None:
            contents["start"] = start = self.flat(step.start, window)[0]
            turns = np.array([axis in window.angles for axis in self.shown])
            if len(step.cloud):
                apart = np.abs(contents["particles"].mean(axis=0) - start) > np.pi * self.units[list(self.shown)]
                contents["arrow"] = not (turns & apart).any()
        if step.went is not None:
            contents["outcomes"] = self.flat(step.went, window)
            contents["inside"] = None if step.inside is None else np.array([step.inside])
        return self.panel(step.middle, window, step.region, later=[region for _, region in step.later], **contents)

    def whole_and_near(self, step: Step, near: Window | None = None) -> tuple[Panel, Panel]:
        """The whole space at a step, and a close-up: by default of the window on the step."""
        near = near or self.near(step)
        shown = list(self.shown)
        frame = np.array([(corner * self.units)[shown] for corner in (near.low, near.high)])
        whole = self.step(step, self.window, 0.9, title=self.title(step), frame=frame)
        return whole, self.step(step, near, 1.2, title=f"close-up{step.verdict}")

    def title(self, step: Step) -> str:
        """Where the slice of a step lies, in words."""
        hidden = [axis for axis in range(len(self.names)) if axis not in self.shown]
        if not hidden:
            return "configuration space"
        through = "the true outcome" if step.went is not None else "the most central particle"
        if len(hidden) > NAMED:
            return f"slice of the configuration space through {through}"
        return f"slice at {self.place(step.middle, hidden)} (through {through})"

    def place(self, configuration: Floats, axes: Sequence[int]) -> str:
        """The values of some axes of a configuration (dc,), in words."""
        values = np.asarray(configuration) * self.units
        return ", ".join(f"{label(shortened(self.names[axis], 20))} = {values[axis]:.3g}" for axis in axes)

    def axis_name(self, axis: int) -> str:
        """The name of an axis in a picture; angles have their unit."""
        name = label(shortened(self.names[axis], LONGEST))
        return f"{name} (rad)" if axis in self.window.angles and self.units[axis] == 1 else name

    def _broken(self, line: Floats, window: Window) -> Floats:
        """A line (t, 2) with a gap where an angle wraps around."""
        leaps = np.zeros(len(line) - 1, dtype=bool)
        for side, axis in enumerate(self.shown):
            if axis in window.angles:
                leaps |= np.abs(np.diff(line[:, side])) > np.pi * self.units[axis]
        return np.insert(line, np.flatnonzero(leaps) + 1, np.nan, axis=0)


def paint_regions(canvas: Canvas, picture: Picture, regions: Sequence[Any], rest: Floats, strong: float = STRONG) -> None:
    """Paint the regions of consecutive steps, None where there is none, the first on top and strongest."""
    for region, strength in reversed(list(zip(regions, np.linspace(strong, FAINT, max(2, len(regions)))))):
        if region is not None:
            canvas.region(picture, region, rest, float(strength))


def direction(angles: Floats) -> float:
    """The mean direction of angles (n,)."""
    return float(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()))


def about(Y: Floats, middles: dict[int, float]) -> Floats:
    """Configurations Y (n, dc) whose angles are within half a turn of the given ones."""
    Y = np.array(Y, dtype=np.float64)
    for axis, middle in middles.items():
        Y[..., axis] = middle + wrap_angle(Y[..., axis] - middle)
    return Y


def wrapped(Y: Floats, angles: Sequence[int]) -> Floats:
    """Configurations Y (n, dc) with angles from -π to π."""
    return about(Y, dict.fromkeys(angles, 0.0))


def labels_or_none(strata: Strata, Y: Floats) -> Ints | None:
    """Strata (n,) of configurations Y (n, dc); None where the user's strata fail far from any data."""
    try:
        return np.asarray(strata.index(Y))
    except CaptureError:
        raise
    except Exception:
        return None
