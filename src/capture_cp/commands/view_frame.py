"""What the live page shows of a user's calibration at one time: texts, pictures, and three axes as a cube."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, printable, shortened
from capture_cp.capture.region_members import Members, members_of
from capture_cp.commands.log_pictures import LogPictures, marks_shown
from capture_cp.commands.replay import Look, Replay
from capture_cp.commands.report_figures import finite_region
from capture_cp.commands.robot import Robot
from capture_cp.commands.runs import Runs
from capture_cp.conformal.coverage import Count
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Picture, rgb
from capture_cp.report.draw import Frames
from capture_cp.report.scene import Points, Scene
from capture_cp.report.space import Space
from capture_cp.report.style import PARTICLES, PATH_COLOUR, colour_of, outcome_look
from capture_cp.viewer.texts import as_text, coverage_table, legend, table

#: Episodes that the page lists, and numbers of an input in the status.
LISTED, NUMBERS = 500, 8
#: Size of the pictures in inches of 100 pixels.
WHOLE, CLOSE = (5.6, 4.7), (5.6, 4.2)
#: Configurations that show a region in three dimensions, and sizes of points.
MEMBERS, REGION, PARTICLE, MARK = 700, 0.007, 0.014, 0.045
ONE_EPISODE = "The intervals assume independent steps. Steps of one episode are not, so these intervals are too narrow."
SAME_LOG = "**The calibration was made from this log, so these counts are no test. Use new transitions.**"
ASSUMED = "The target assumes exchangeability: the logged steps are drawn like those of the calibration."


@dataclass(frozen=True)
class Moment:
    """Everything that is shown at one time.

    Attributes:
        name: of the episode, in the log; None for an input chosen by hand.
        x: the input (dx,).
        look: the step; None until the model has predicted it.
        step: of the episode, counted from 0.
        counts: coverage up to this step, over all and by stratum.
        sizes: calibration points behind the threshold of each stratum, (M,).
    """

    robot: Robot
    runs: Runs | None
    alpha: float
    space: Space
    name: str | None
    replay: Replay | None
    x: Floats
    look: Look | None
    step: int
    counts: Sequence[Count]
    sizes: Ints


# -- pictures ------------------------------------------------------------------------------------------------------------


class Pictures:
    """The two pictures of the left panel, for one choice of axes and episode."""

    def __init__(self, space: Space, replay: Replay | None) -> None:
        self.subject = space, replay
        self._made = LogPictures(space, replay)
        self._whole, self._near = Frames(WHOLE), Frames(CLOSE)

    def draw(self, look: Look, step: int) -> tuple[Picture, Picture]:
        """The whole space, and the close-up, (h, w, 3) each."""
        whole, near = self._made.panels(look, step)
        return self._whole.draw([whole]), self._near.draw([near])


def scene_of(space: Space, look: Look, picture: Picture) -> Scene:
    """Three axes as a cube, each scaled to its side; otherwise the flat picture."""
    window, side = space.window, Scene.side
    if len(space.names) != 3:
        return Scene(picture=picture)

    def points(Y: Floats, colours: str | Floats, size: float, shape: str = "circle") -> Points:
        along = (window.placed(Y) - window.low) / (window.high - window.low) if len(Y) else Y
        seen = ((along >= 0) & (along <= 1)).all(axis=1)
        return Points(side * (along[seen] - 0.5), colours if isinstance(colours, str) else colours[seen], size, shape)  # type: ignore[arg-type]

    none, members = look.cloud[:0], _members(look)
    return Scene(
        box=tuple(
            f"{shortened(printable(name), 24)}: {window.low[axis]:.3g} to {window.high[axis]:.3g}"
            + " rad" * (axis in window.angles)
            for axis, name in enumerate(space.names)
        ),
        points={
            "region": points(members.Y, np.array([rgb(colour_of(int(m))) for m in members.labels]).reshape(-1, 3), REGION),
            "particles": points(look.cloud, PARTICLES.colour, PARTICLE),
            "path": points(look.path, PATH_COLOUR, PARTICLE),
            "before": points(none if look.start is None else look.start[None], "#999999", MARK, "diamond"),
            "outcome": points(
                none if look.went is None else look.went[None], outcome_look(look.inside).colour, MARK, "sparkle"
            ),
        },
    )


def _members(look: Look) -> Members:
    """Configurations of the region, without the parts that cover a whole stratum; may be none."""
    try:
        return members_of(finite_region(look.region), MEMBERS, 0)
    except CaptureError:
        return Members(look.cloud[:0], np.empty(0, dtype=np.int64))


def legend_of(robot: Robot, logged: bool) -> str:
    """The legend of the pictures; `logged` where they show steps of a log."""
    strata = [(name, colour_of(m)) for m, name in enumerate(robot.strata)]
    return legend([*strata, *(INFEASIBLE_LEGEND if len(strata) > 1 else ())], marks_shown(robot, logged))


# -- texts ---------------------------------------------------------------------------------------------------------------


def status(moment: Moment) -> str:
    """The current activity, in a few words, and the input: Markdown."""
    episodes = moment.runs is not None and moment.runs.episodes
    called = "episode " * episodes + as_text(moment.name or "")
    if moment.name is None:
        what = "by hand: move the sliders" + (", or choose an episode" if moment.runs is not None else "")
    elif moment.look is None or moment.replay is None:
        return f"**predicting {called} …**"
    else:
        where = "inside" if moment.look.inside else "outside"
        what = f"{called}, step {moment.step + 1} of {len(moment.replay)}: outcome {where} the region"
    named = list(zip(moment.robot.inputs, moment.x))
    shown = ", ".join(f"{as_text(name)} {value:.3g}" for name, value in named[:NUMBERS])
    return f"**{what}**  \n{shown}" + (f" and {len(named) - NUMBERS} more" if len(named) > NUMBERS else "")


def thresholds_table(moment: Moment) -> str:
    """The threshold of each stratum at the input, and its number of calibration points: Markdown."""
    if moment.look is None:
        return ""
    robot = moment.robot
    unit = "episodes" if "episodes" in robot.cap.data_ else "transitions"
    parts = [(as_text(name), q, int(n)) for name, q, n in zip(robot.strata, moment.look.region.thresholds, moment.sizes)]
    rows = [[name, "whole stratum" if math.isinf(q) else f"{q:.4g}", f"{n:,}"] for name, q, n in parts]
    empty = ", ".join(name for name, q, n in parts if math.isinf(q) and n == 0)
    few = ", ".join(name for name, q, n in parts if math.isinf(q) and n > 0)
    notes = []
    if empty:
        notes.append(f"No calibration transition from such an input ended in {empty}: the region covers all of it.")
    if few:
        needed = robot.cap.calibration_.needed(moment.alpha, robot.confidence)
        notes.append(f"Too few {unit} for {few}: {needed:,} are needed at this α, so the region covers all of it.")
    title = f"**Region of this step** (α = {moment.alpha:g})"
    return table(title, ["stratum", "threshold", f"calibration {unit}"], rows, [*notes, *_merged(robot)])


def _merged(robot: Robot) -> list[str]:
    """Which strata share a threshold, in words."""
    if len(robot.strata) > 1 and robot.cap.partition_.n_groups == 1:
        return ["All strata share one threshold: coverage is guaranteed for them together."]
    shared = {frozenset((name, *others)) for name, others in robot.cap.merged_.items()}
    groups = [", ".join(sorted(as_text(name) for name in group)) for group in shared if len(group) > 1]
    return [f"One threshold, because some are rare, with coverage guaranteed together: {group}." for group in sorted(groups)]


def counts_table(moment: Moment) -> str:
    """Coverage so far: Markdown."""
    if not moment.counts or moment.runs is None:
        return ""
    notes = [SAME_LOG if moment.runs.calibrated_on else ASSUMED] + [ONE_EPISODE] * moment.runs.episodes
    return coverage_table({"inside": moment.counts}, moment.alpha, notes)


def facts(robot: Robot, listed: int = 0, parts: int = 0) -> str:
    """Facts about the calibration: Markdown."""
    cap, rows, episodes = robot.cap, robot.cap.data_.get("rows"), robot.cap.data_.get("episodes")
    made = f"{rows:,} transitions" if isinstance(rows, int) else "transitions"
    made += f" of {episodes:,} episodes" if isinstance(episodes, int) else ""
    sure = "" if robot.confidence is None else f", confidence {robot.confidence:g}"
    score, groups = (as_text(repr(part), 300) for part in (cap.score_, cap.groups_))
    lines = [
        f"**{as_text(robot.name)}**: made from {made}, for α = {robot.alpha:g}{sure}.",
        f"Score {score}, groups {groups}, {cap.n_particles} particles, "
        f"{cap.partition_.n_groups} group{'s' * (cap.partition_.n_groups != 1)}.",
    ]
    if parts > listed:
        lines.append(f"The menu lists the first {LISTED} of {parts:,} parts of the log; --episode NAME shows another.")
    return "  \n".join(lines)
