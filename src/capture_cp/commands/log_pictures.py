"""Pictures of a user's robot, for the page and for videos: its space, a close-up, and coverage so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, shortened
from capture_cp.base.streams import stream
from capture_cp.commands.replay import Look, Replay
from capture_cp.commands.robot import Robot
from capture_cp.commands.runs import Runs
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.canvas import rgb
from capture_cp.report.panel import Image, Line, Panel, Shape, strata_key
from capture_cp.report.space import LONGEST, Space, Window, about, direction, labels_or_none, wrapped
from capture_cp.report.style import (
    ACTION,
    INFEASIBLE_COLOUR,
    INSIDE,
    OUTSIDE,
    PALE,
    PARTICLES,
    START,
    STRONG,
    WALL_COLOUR,
    Mark,
    colour_of,
)

#: Fraction of predictions left out at either end of an axis without a log.
TAIL = 0.02
#: Levels at which the strata of a strip are evaluated, steps of its close-up, and margin as a fraction of its height.
LEVELS, RECENT, ROOM = 300, 12, 0.06
BAND = "#0072B2"


def space_of(robot: Robot, runs: Runs | None, shown: Sequence[int]) -> Space:
    """The configuration space of a robot, as far as a log or its predictions extend."""
    return Space(robot.cap.strata, Window.around(_seen(robot, runs), robot.angles), robot.axes, shown)


def _seen(robot: Robot, runs: Runs | None) -> Floats:
    """Configurations (n, dc) that span the space: those of the log, or most of the predictions."""
    if runs is not None:
        starts = [runs.log.X[:, list(robot.before)]] if robot.before is not None else []
        return np.vstack([runs.log.Y, *starts])
    Y = robot.likely(stream(0, "extent"))
    Y = about(Y, {axis: direction(Y[:, axis]) for axis in robot.angles})
    return np.asarray(np.quantile(Y, [TAIL, 1 - TAIL], axis=0))


class LogPictures:
    """Panels of one choice of axes and episode: a plane of two axes, or a strip over time of a single one."""

    def __init__(self, space: Space, replay: Replay | None) -> None:
        self.space, self.replay = space, replay
        self._strips: tuple[float, Any] | None = None
        self._shares: tuple[float, Floats] | None = None

    def panels(self, look: Look, step: int) -> tuple[Panel, Panel]:
        """The whole space at a step, counted from 0, and a close-up."""
        if len(self.space.shown) == 2:
            return self.space.whole_and_near(look)
        return self._strip(look, step)

    # -- one axis -----------------------------------------------------------------------------------------------------

    def _strip(self, look: Look, step: int) -> tuple[Panel, Panel]:
        """The regions of all steps so far side by side, and the last of them."""
        window, replay = self.space.window, self.replay
        first, steps = max(0, step - RECENT + 1) if replay is not None else 0, 1 if replay is None else len(replay)
        near = self.space.near(look)
        recent = near.placed(look.cloud if replay is None else replay.Y[first : step + 1])
        low, high = min(near.low[0], recent.min()), max(near.high[0], recent.max())
        margin = ROOM * (high - low)
        whole = self._part(look, step, 0, steps, float(window.low[0]), float(window.high[0]))
        title = "configuration space" if replay is None else "regions so far"
        last = first + (1 if replay is None else RECENT)
        return whole(title), self._part(look, step, first, last, low - margin, high + margin)(f"close-up{look.verdict}")

    def _part(self, look: Look, step: int, first: int, stop: int, low: float, high: float) -> Any:
        """The panel, by its title, of steps first .. stop - 1 between two values of the axis."""
        window, replay = self.space.window, self.replay
        images: tuple[Image, ...] = ()
        pixels, ends = self._regions(look), (float(window.low[0]), float(window.high[0]))
        if pixels is not None:
            last = step if replay is not None else 0
            corners = np.array([first + 0.5, ends[0]]), np.array([last + 1.5, ends[1]])
            images = (Image(pixels[::-1, first : last + 1], *corners),)

        def at(when: Any, Y: Floats) -> Floats:
            return np.column_stack([np.broadcast_to(when, len(Y)), window.placed(Y)[:, 0]])

        contents: dict[str, Any] = {"particles": at(step + 1.0, look.cloud), "images": images, "small": (0.75, 1.0)}
        if replay is not None:
            steps = np.arange(first, step + 1)
            contents |= {"outcomes": at(steps + 1.0, replay.Y[steps]), "inside": replay.inside(look.region.alpha)[steps]}
        elif look.start is not None:
            contents["start"] = at(1.0, look.start[None])[0]
        corners = np.array([first + 0.5, low]), np.array([stop + 0.5, high])
        across, up = "step" if replay is not None else "", self.space.axis_name(0)
        return lambda title: Panel(*corners, title=title, across=across, up=up, equal=False, **contents)

    def _regions(self, look: Look) -> Any:
        """Colours (levels, n, 3) of the regions of all steps, lowest level first; None where strata cannot be evaluated."""
        alpha, window = look.region.alpha, self.space.window
        if self._strips is not None and self._strips[0] == alpha and self.replay is not None:
            return self._strips[1]
        levels = wrapped(np.linspace(window.low[0], window.high[0], LEVELS)[:, None], window.angles)
        labels = labels_or_none(self.space.strata, levels)
        if labels is None:
            return None
        inside = look.region.within(levels, labels)[:, None] if self.replay is None else self.replay.within(levels, alpha).T
        paint = np.array([*(rgb(colour_of(m)) for m in range(len(self.space.strata.names))), rgb(INFEASIBLE_COLOUR)])
        pale = np.vstack([255 - PALE * (255 - paint[:-1]), rgb(WALL_COLOUR)])  # label -1 picks the last
        ground = np.repeat(pale[labels][:, None], inside.shape[1], axis=1)
        strong = STRONG * paint[labels][:, None] + (1 - STRONG) * ground
        self._strips = alpha, np.where(inside[..., None], strong, ground).astype(np.uint8)
        return self._strips[1]

    # -- coverage -----------------------------------------------------------------------------------------------------

    def coverage(self, alpha: float, steps: int) -> Panel:
        """Coverage of the first steps in %, its exact intervals, and a mark below for each step: inside or outside."""
        assert self.replay is not None
        inside = self.replay.inside(alpha)
        held = np.cumsum(inside)
        if self._shares is None or self._shares[0] != alpha:
            pairs = zip(held.tolist(), range(1, len(held) + 1))
            self._shares = alpha, 100 * np.array([clopper_pearson(*pair) for pair in pairs])  # once for all pictures
        when, ends, last = np.arange(1, steps + 1), self._shares[1][:steps], max(len(self.replay), 2) + 0.5
        sides = np.repeat(when, 2) + np.tile([-0.5, 0.5], steps)
        low, high = (np.column_stack([sides, np.repeat(side, 2)]) for side in ends.T)
        target = np.array([[0.5, 100 * (1 - alpha)], [last, 100 * (1 - alpha)]])
        line = np.column_stack([when, 100 * held[:steps] / when])
        ticks = tuple(
            (look._replace(shape="|", size=6.0, edge=look.colour), np.column_stack([at, np.full(len(at), -4.0)]))
            for wanted, look in ((True, INSIDE), (False, OUTSIDE))
            if len(at := when[inside[:steps] == wanted])
        )
        least, most = ends[-1]
        return Panel(
            np.array([0.5, -8.0]),
            np.array([last, 104.0]),
            shapes=(Shape(np.vstack([low, high[::-1]]), BAND, opacity=0.18),),
            lines=(Line(target, "#000000", dash="--"), Line(np.vstack([line[:1] - (0.2, 0.0), line]), BAND, 1.6)),
            marks=ticks,
            title=f"coverage so far: {held[steps - 1]} of {steps} ({least:.0f} to {most:.0f}%)",
            across="step",
            up=f"% of steps, target {100 * (1 - alpha):.3g} (dashed)",
            equal=False,
        )


# -- legends ------------------------------------------------------------------------------------------------------------


def marks_shown(robot: Robot, logged: bool) -> list[Mark]:
    """The marks in pictures; `logged` where they show steps of a log.

    The start is marked if it is known, except in a strip, which shows the step before.
    """
    start = [START, ACTION] if robot.before is not None and not (logged and len(robot.axes) == 1) else []
    return [PARTICLES, *start, *([INSIDE, OUTSIDE] if logged else [])]


def legend_of(robot: Robot, logged: bool) -> list[Any]:
    """Entries of a legend of all pictures; `logged` where they show steps of a log."""
    names = tuple(shortened(name, LONGEST) for name in robot.strata)
    return [*strata_key(names, "region: "), *marks_shown(robot, logged)]
