"""Views of a configuration space of any number of axes: windows, and rasters of strata and regions."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.region import Region
from capture_cp.capture.region_search import unwrapped
from capture_cp.commands.replay import Look
from capture_cp.commands.robot import Robot
from capture_cp.commands.runs import Runs
from capture_cp.report.canvas import PALE, WALL_COLOUR, rgb
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, colour_of
from capture_lab.tasks.point_slices import finite_box

Picture = npt.NDArray[np.uint8]

#: Points along a side of a raster, opacity of a region, and margin of a window as a fraction of its size.
POINTS, STRONG, MARGIN = 180, 0.75, 0.12
#: Fraction of predictions left out at either end of an axis without a log; smallest fraction of the space in a close-up.
TAIL, LEAST = 0.02, 0.04
#: An axis of angles that covers more than this fraction of a turn is shown as a whole turn.
NEARLY = 0.75


@dataclass(frozen=True)
class Window:
    """A box of configurations, from `low` (dc,) to `high` (dc,); on the axes in `angles` it may lie across ±π."""

    low: Floats
    high: Floats
    angles: tuple[int, ...] = ()

    @classmethod
    def around(cls, Y: Floats, angles: tuple[int, ...], margin: float = MARGIN) -> Window:
        """The window on configurations Y (n, dc) with a margin; at most one turn of an angle."""
        Y = _about(Y, {axis: _direction(Y[:, axis]) for axis in angles})
        low, high = Y.min(axis=0), Y.max(axis=0)
        wide = np.where(high > low, high - low, np.maximum(1e-3, 0.1 * np.abs(high)))
        middle, half = (low + high) / 2, (0.5 + margin) * wide
        for axis in angles:
            if half[axis] > NEARLY * np.pi:
                middle[axis], half[axis] = 0.0, np.pi
        return cls(middle - half, middle + half, angles)

    def placed(self, Y: Floats) -> Floats:
        """Configurations Y (n, dc) with angles within half a turn of the middle of the window."""
        return _about(Y, {axis: float(self.low[axis] + self.high[axis]) / 2 for axis in self.angles})


class Space:
    """The configuration space of a robot, as far as a log or its predictions extend.

    Attributes:
        window: on the whole space.
        shown: the axes in pictures: two, or the only one.
    """

    def __init__(self, robot: Robot, runs: Runs | None, shown: Sequence[int]) -> None:
        self.robot, self.shown = robot, tuple(shown)
        self.window = Window.around(_seen(robot, runs), robot.angles)
        self._known: tuple[bytes, Floats, Ints | None] | None = None
        names = robot.strata
        self.paint = np.array([*(rgb(colour_of(m)) for m in range(len(names))), rgb(INFEASIBLE_COLOUR)])
        self.pale = np.vstack([255 - PALE * (255 - self.paint[:-1]), rgb(WALL_COLOUR)])  # label -1 picks the last

    def showing(self, shown: Sequence[int]) -> Space:
        """The same space on other axes."""
        other = copy(self)
        other.shown, other._known = tuple(shown), None
        return other

    def near(self, look: Look) -> Window:
        """The window on a step: its particles, the finite parts of its region, and the true outcome."""
        region, angles = look.region, self.robot.angles
        box = finite_box(region)
        points = [unwrapped(region, look.cloud), np.where(np.isfinite(box), box, unwrapped(region, look.cloud).mean(axis=0))]
        points += [unwrapped(region, went[None]) for went in (look.went,) if went is not None]
        seen = np.vstack(points)
        low, high, whole = seen.min(axis=0), seen.max(axis=0), self.window.high - self.window.low
        half = np.clip((0.5 + MARGIN) * (high - low), LEAST / 2 * whole, whole / 2)
        return Window((low + high) / 2 - half, (low + high) / 2 + half, angles)

    def raster(self, window: Window, look: Look) -> Picture | None:
        """Strata of a slice through `look.middle`, pale, and its region, strong: (POINTS, POINTS, 3), top row first.

        None where the strata cannot be evaluated on the whole window.
        """
        points, labels = self._classified(window, look.middle)
        if labels is None:
            return None
        colours = self.pale[labels]
        inside = look.region.within(points, labels)
        colours[inside] = STRONG * self.paint[labels[inside]] + (1 - STRONG) * colours[inside]
        picture = colours.reshape(POINTS, POINTS, 3).astype(np.uint8)
        return np.ascontiguousarray(picture[::-1])

    def levels(self, points: int) -> tuple[Floats, Ints | None]:
        """Configurations (points, 1) of a space of one axis, angles wrapped, and their strata."""
        at = np.linspace(self.window.low[0], self.window.high[0], points)[:, None]
        return self._asked(at)

    def _classified(self, window: Window, rest: Floats) -> tuple[Floats, Ints | None]:
        """Points (POINTS², dc) of a slice, bottom row first, and their strata; cached."""
        across, up = self.shown
        fixed = np.array(rest, dtype=np.float64)
        fixed[[across, up]] = 0.0
        key = b"".join(part.tobytes() for part in (window.low, window.high, fixed))
        if self._known is None or self._known[0] != key:
            middles = (np.arange(POINTS) + 0.5) / POINTS
            points = np.tile(fixed, (POINTS * POINTS, 1))
            sides = window.low + middles[:, None] * (window.high - window.low)  # (POINTS, dc)
            points[:, across], points[:, up] = np.tile(sides[:, across], POINTS), np.repeat(sides[:, up], POINTS)
            self._known = key, *self._asked(points)
        return self._known[1], self._known[2]

    def _asked(self, points: Floats) -> tuple[Floats, Ints | None]:
        """Points (n, dc) with angles wrapped, and their strata (n,); None where the strata fail far from any data."""
        for axis in self.robot.angles:
            points[:, axis] = wrap_angle(points[:, axis])
        try:
            return points, self.robot.cap.index(points)
        except CaptureError:
            raise
        except Exception:  # the user's strata, evaluated where the robot may never be
            return points, None


def finite_region(region: Region) -> Region:
    """The region without the parts that cover a whole stratum, which have no boundary that could be drawn."""
    thresholds = np.where(np.isinf(region.thresholds), -1.0, region.thresholds)
    parts = region.score, region.prediction, thresholds, region.strata, region.dims, region.alpha, region.ambient
    return Region(*parts)


def _seen(robot: Robot, runs: Runs | None) -> Floats:
    """Configurations (n, dc) that span the space: those of the log, or most of the predictions."""
    if runs is not None:
        starts = [runs.log.X[:, list(robot.before)]] if robot.before is not None else []
        return np.vstack([runs.log.Y, *starts])
    Y = robot.likely(stream(0, "extent"))
    Y = _about(Y, {axis: _direction(Y[:, axis]) for axis in robot.angles})
    low, high = np.quantile(Y, [TAIL, 1 - TAIL], axis=0)
    return np.vstack([low, high])


def _direction(angles: Floats) -> float:
    """The mean direction of angles (n,)."""
    return float(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()))


def _about(Y: Floats, middles: dict[int, float]) -> Floats:
    """Configurations Y (n, dc) whose angles are within half a turn of the given ones."""
    Y = np.array(Y, dtype=np.float64)
    for axis, middle in middles.items():
        Y[..., axis] = middle + wrap_angle(Y[..., axis] - middle)
    return Y
