"""Pictures of a user's robot, for the page and for videos: its space, a close-up, three axes as a cube, coverage so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, printable, shortened
from capture_cp.base.streams import stream
from capture_cp.capture.region_members import members_of
from capture_cp.commands.replay import Replay, Runs
from capture_cp.commands.report_figures import finite_region
from capture_cp.commands.robot import Robot
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.canvas import rgb
from capture_cp.report.panel import Image, Line, Panel, Shape
from capture_cp.report.scene import Points, Scene
from capture_cp.report.space import LONGEST, Space, Step, Window, about, direction, labels_or_none, wrapped
from capture_cp.report.style import (
    ACTION,
    INFEASIBLE_COLOUR,
    INSIDE,
    OUTSIDE,
    PALE,
    PARTICLES,
    PATH_COLOUR,
    START,
    STRONG,
    WALL_COLOUR,
    Mark,
    colour_of,
    outcome_look,
)

#: Fraction of predictions left out at either end of an axis without a log.
TAIL = 0.02
#: Configurations along a bar, height of the marks below it, colour of an interval.
LEVELS, BELOW, BAND = 1000, -0.75, "#0072B2"
#: Configurations that show a region in three dimensions, and sizes of points.
MEMBERS, REGION, PARTICLE, MARK = 700, 0.007, 0.014, 0.045


def space_of(robot: Robot, runs: Runs | None, shown: Sequence[int]) -> Space:
    """The configuration space of a robot, as far as a log or most of its predictions extend."""
    if runs is not None:
        starts = [] if robot.before is None else [runs.log.X[:, list(robot.before)]]
        seen = np.vstack([runs.log.Y, *starts])
    else:
        Y = robot.likely(stream(0, "extent"))
        seen = np.quantile(about(Y, {axis: direction(Y[:, axis]) for axis in robot.angles}), [TAIL, 1 - TAIL], axis=0)
    return Space(robot.cap.strata, Window.around(seen, robot.angles), robot.axes, shown)


def panels(space: Space, look: Step) -> tuple[Panel, Panel]:
    """The whole space at a step, and a close-up: two axes as a plane, a single one as a bar."""
    if len(space.shown) == 2:
        return space.whole_and_near(look)
    whole = _bar(space, look, space.window, space.title(look))
    return whole, _bar(space, look, space.near(look), f"close-up{look.verdict}")


def _bar(space: Space, look: Step, window: Window, title: str) -> Panel:
    """A part of the only axis, with strata and region as a bar, and marks below it."""
    low, high = float(window.low[0]), float(window.high[0])
    levels = wrapped(np.linspace(low, high, LEVELS)[:, None], window.angles)
    labels = labels_or_none(space.strata, levels)

    def at(Y: Floats) -> Floats:
        return np.column_stack([window.placed(Y), np.full(len(Y), BELOW)])

    contents: dict[str, Any] = {
        "particles": at(look.cloud),
        "start": None if look.start is None else at(look.start[None])[0],
    }
    if look.went is not None:
        contents |= {"outcomes": at(look.went[None]), "inside": np.array([look.inside])}
    if labels is not None:
        pixels = painted(labels, look.region.within(levels, labels))[None]
        contents["images"] = (Image(pixels, np.array([low, -0.4]), np.array([high, 0.4])),)
    ends = np.array([low, -1.2]), np.array([high, 0.6])
    return Panel(*ends, rows=("",), across=space.axis_name(0), title=title, **contents)


def coverage_panel(replay: Replay, alpha: float, steps: int) -> Panel:
    """Coverage of the first steps in %, its exact intervals, and a mark below for each step: inside or outside."""
    inside, when, last = replay.inside(alpha)[:steps], np.arange(1, steps + 1), max(len(replay), 2) + 0.5
    held, aim = np.cumsum(inside).tolist(), 100 * (1 - alpha)
    ends = 100 * np.array([_interval(*pair) for pair in zip(held, when.tolist())])
    sides = np.repeat(when, 2) + np.tile([-0.5, 0.5], steps)
    low, high = (np.column_stack([sides, np.repeat(side, 2)]) for side in ends.T)
    line = np.column_stack([when, 100 * np.array(held) / when])
    ticks = tuple(
        (look._replace(shape="|", size=6.0, edge=look.colour), np.column_stack([at, np.full(len(at), -4.0)]))
        for wanted, look in ((True, INSIDE), (False, OUTSIDE))
        if len(at := when[inside == wanted])
    )
    target = Line(np.array([[0.5, aim], [last, aim]]), "#000000", dash="--")
    return Panel(
        np.array([0.5, -8.0]),
        np.array([last, 104.0]),
        shapes=(Shape(np.vstack([low, high[::-1]]), BAND, opacity=0.18),),
        lines=(target, Line(np.vstack([line[:1] - (0.2, 0.0), line]), BAND, 1.6)),
        marks=ticks,
        title=f"coverage so far: {held[-1]} of {steps} ({ends[-1, 0]:.0f} to {ends[-1, 1]:.0f}%)",
        across="step",
        up=f"% of steps, target {aim:.3g} (dashed)",
        equal=False,
    )


#: A film asks for those of all its steps in every picture.
_interval = lru_cache(10_000)(clopper_pearson)


def painted(labels: Any, inside: Any) -> Any:
    """Colours (n, 3) of configurations with strata `labels` (n,), strong where they are `inside` (n,) a region."""
    paint = np.array([*map(rgb, map(colour_of, range(labels.max() + 1))), rgb(INFEASIBLE_COLOUR)])
    pale = np.vstack([255 - PALE * (255 - paint[:-1]), rgb(WALL_COLOUR)])[labels]  # label -1 picks the last
    return np.where(inside[:, None], STRONG * paint[labels] + (1 - STRONG) * pale, pale).astype(np.uint8)


# -- three axes ---------------------------------------------------------------------------------------------------------


def scene_of(space: Space, look: Step, picture: Any) -> Scene:
    """Three axes as a cube, each scaled to its side; otherwise the flat picture."""
    window, side = space.window, Scene.side
    if len(space.names) != 3:
        return Scene(picture=picture)

    def points(Y: Any, colours: str | Floats, size: float, shape: Any = "circle") -> Points:
        Y = np.empty((0, 3)) if Y is None else np.atleast_2d(Y)
        along = (window.placed(Y) - window.low) / window.size
        seen = ((along >= 0) & (along <= 1)).all(axis=1)
        return Points(side * (along[seen] - 0.5), colours if isinstance(colours, str) else colours[seen], size, shape)

    try:  # without the parts that cover a whole stratum
        members, labels = members_of([finite_region(look.region)], MEMBERS, 0)[0]
    except CaptureError:
        members, labels = look.cloud[:0], np.empty(0, dtype=np.int64)
    paint = np.array([rgb(colour_of(m)) for m in labels.tolist()]).reshape(-1, 3)
    box = tuple(
        f"{shortened(printable(name), LONGEST)}: {window.low[axis]:.3g} to {window.high[axis]:.3g}"
        + " rad" * (axis in window.angles)
        for axis, name in enumerate(space.names)
    )
    parts = {
        "region": points(members, paint, REGION),
        "particles": points(look.cloud, PARTICLES.colour, PARTICLE),
        "path": points(look.path, PATH_COLOUR, PARTICLE),
        "before": points(look.start, "#999999", MARK, "diamond"),
        "outcome": points(look.went, outcome_look(look.inside).colour, MARK, "sparkle"),
    }
    return Scene(box=box, points=parts)


def marks_shown(robot: Robot, logged: bool) -> list[Mark]:
    """The marks in pictures; `logged` where they show steps of a log."""
    start = [START, ACTION] if robot.before is not None else []
    return [PARTICLES, *start, *([INSIDE, OUTSIDE] if logged else [])]
