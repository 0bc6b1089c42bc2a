"""What the page and videos of a user's robot show: its space, a close-up, three axes as a cube, coverage, texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, printable, shortened
from capture_cp.base.streams import stream
from capture_cp.capture.region_members import members_of
from capture_cp.commands.replay import Replay, Runs
from capture_cp.commands.report_figures import finite_region
from capture_cp.commands.robot import Robot
from capture_cp.conformal.coverage import Count, clopper_pearson
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
from capture_cp.viewer.texts import as_text, coverage_table, table

#: Fraction of predictions left out at either end of an axis without a log.
TAIL = 0.02
#: Configurations along a bar, height of the marks below it, colour of an interval.
LEVELS, BELOW, BAND = 1000, -0.75, "#0072B2"
#: Episodes that the page lists, and numbers of an input in the status.
LISTED, NUMBERS = 500, 8
ONE_EPISODE = "The intervals assume independent steps. Steps of one episode are not, so these intervals are too narrow."
SAME_LOG = "The calibration was made from this log, so these counts are no test. Use new transitions."
ASSUMED = "The target assumes exchangeability: the logged steps are drawn like those of the calibration."
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
        members, labels, _ = members_of(finite_region(look.region), MEMBERS, 0)
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


# -- texts ---------------------------------------------------------------------------------------------------------------


def input_line(robot: Robot, x: Floats) -> str:
    """The first numbers of an input (dx,) with their names: Markdown."""
    shown = ", ".join(f"{as_text(name)} {value:.3g}" for name, value in [*zip(robot.inputs, x)][:NUMBERS])
    return shown + (f" and {len(x) - NUMBERS} more" if len(x) > NUMBERS else "")


def thresholds_table(robot: Robot, thresholds: Floats, sizes: Ints, alpha: float) -> str:
    """The threshold of each stratum (M,) at an input, and its number of calibration points (M,): Markdown."""
    unit = "episodes" if "episodes" in robot.cap.data_ else "transitions"
    parts = [(as_text(name), q, int(n)) for name, q, n in zip(robot.strata, thresholds, sizes)]
    rows = [[name, "whole stratum" if math.isinf(q) else f"{q:.4g}", f"{n:,}"] for name, q, n in parts]
    empty = ", ".join(name for name, q, n in parts if math.isinf(q) and n == 0)
    few = ", ".join(name for name, q, n in parts if math.isinf(q) and n > 0)
    notes = []
    if empty:
        notes.append(f"No calibration transition from such an input ended in {empty}: the region covers all of it.")
    if few:
        needed = robot.cap.calibration_.needed(alpha, robot.confidence)
        notes.append(f"Too few {unit} for {few}: {needed:,} are needed at this α, so the region covers all of it.")
    title = f"**Region of this step** (α = {alpha:g})"
    return table(title, ["stratum", "threshold", f"calibration {unit}"], rows, [*notes, *_merged(robot)])


def _merged(robot: Robot) -> list[str]:
    """Which strata share a threshold, in words."""
    if len(robot.strata) > 1 and robot.cap.partition_.n_groups == 1:
        return ["All strata share one threshold: coverage is guaranteed for them together."]
    shared = {frozenset((name, *others)) for name, others in robot.cap.merged_.items()}
    groups = [", ".join(sorted(as_text(name) for name in group)) for group in shared if len(group) > 1]
    return [f"One threshold, because some are rare, with coverage guaranteed together: {group}." for group in sorted(groups)]


def counts_table(runs: Runs, counts: Sequence[Count], alpha: float) -> str:
    """Coverage so far: Markdown."""
    return coverage_table({"inside": counts}, alpha, notes_of(runs))


def facts(robot: Robot, listed: int, parts: int) -> str:
    """Facts about the calibration, and how many parts of the log the menu lists: Markdown."""
    cap, rows, episodes = robot.cap, robot.cap.data_.get("rows"), robot.cap.data_.get("episodes")
    made = f"{rows:,} transitions" if isinstance(rows, int) else "transitions"
    made += f" of {episodes:,} episodes" if isinstance(episodes, int) else ""
    sure = "" if robot.confidence is None else f", confidence {robot.confidence:g}"
    score, groups = (as_text(repr(part), 300) for part in (cap.score_, cap.groups_))
    many = cap.partition_.n_groups
    lines = [
        f"**{as_text(robot.name)}**: made from {made}, for α = {robot.alpha:g}{sure}.",
        f"Score {score}, groups {groups}, {cap.n_particles} particles, {many} group{'s' * (many != 1)}.",
    ]
    if parts > listed:
        lines.append(f"The menu lists the first {LISTED} of {parts:,} parts of the log; --episode NAME shows another.")
    return "  \n".join(lines)


def notes_of(runs: Runs) -> list[str]:
    """What counts of steps of a log leave open."""
    return [SAME_LOG if runs.calibrated_on else ASSUMED] + [ONE_EPISODE] * runs.episodes


def film_notes(robot: Robot, runs: Runs, replay: Replay) -> list[str]:
    """Notes for the viewer of a video: limits of the counts, and whole strata."""
    infinite = np.isinf(robot.cap.thresholds(replay.X, robot.alpha, robot.confidence))  # (n, M)
    whole = [name for m, name in enumerate(robot.strata) if infinite[:, m].any()]
    where = f"The regions of some steps cover all of {', '.join(whole)}: too few calibration transitions ended there "
    return [*notes_of(runs), *([f"{where}for alpha = {robot.alpha:g}."] if whole else [])]
