"""`capture view CALIBRATION [LOG]`: the live page of a user's own calibration, step by step through a log or by hand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, CaptureWarning, Floats, failure_rate, printable, shortened
from capture_cp.commands.film import FIRST, save_log_film
from capture_cp.commands.log_pictures import space_of
from capture_cp.commands.replay import Replay, look_by_hand
from capture_cp.commands.robot import Robot, RobotOptions
from capture_cp.commands.runs import RATE, Runs, read_runs
from capture_cp.commands.view_frame import (
    LISTED,
    Moment,
    Pictures,
    counts_table,
    facts,
    legend_of,
    scene_of,
    status,
    thresholds_table,
)
from capture_cp.conformal.coverage import Count
from capture_cp.report.style import pyplot
from capture_cp.viewer.controls import Choices, Control, Range
from capture_cp.viewer.serve import Served
from capture_cp.viewer.session import Frame, Session, Slider

#: Letters of an episode's name in the menu, and of an input's, and episodes whose predictions are kept.
LETTERS, INPUT, KEPT = 60, 24, 16
#: Fraction of a log's inputs beyond either end of a slider, where the calibration keeps no quantiles.
TAIL = 0.05


@dataclass(frozen=True)
class View(Served, RobotOptions):
    """A live page of your calibration: its regions in the configuration space, step by step through a log.

    LOG is any log that `capture calibrate` accepts, with the same columns as the calibration's log. Choose an episode and
    step through it: the page shows the region of each step, the model's particles, the true outcome, and coverage so far.
    Without LOG, choose an input by hand. With more than two axes the page shows a slice along two; with one axis, a strip
    over time.
    """

    episode: Annotated[
        str | None, tyro.conf.arg(help="The episode that is shown first: a value of the episode column.", metavar="NAME")
    ] = None
    alpha: Annotated[
        float | None, tyro.conf.arg(help="Failure rate of the regions; by default that of the calibration, or 0.1.")
    ] = None
    rows: Annotated[
        str | None,
        tyro.conf.arg(help=f"Rows START:STOP of a video, counted from 1; without episodes by default the first {FIRST}."),
    ] = None

    @property
    def label(self) -> str:
        return f"capture view {self.calibration.name}"

    def session(self) -> LogSession:
        pyplot()  # missing matplotlib is reported now
        robot = self.robot(self.alpha)
        shown, runs = robot.shown(self.axes), read_runs(self, robot)
        if runs is None and self.episode is not None:
            raise CaptureError("--episode names an episode of a log; give the log too: capture view robot.capture log.csv.")
        return LogSession(robot, runs, shown, self.episode, self.seed)

    def film(self, file: Path, console: Console) -> None:
        save_log_film(self, file, self.alpha, self.episode, self.rows, self.film_speed, console)

    def run(self, console: Console) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # the page lists infinite thresholds
            super().run(console)


@dataclass(frozen=True)
class Chosen:
    """What people can change: the failure rate, and the axes of pictures by name ("" if there is only one)."""

    alpha: float
    across: str
    up: str = ""


class LogSession(Session):
    """A user's calibration at the steps of a log, or at inputs chosen by hand.

    Attributes:
        x: the input (dx,) chosen by hand.
        recordings: the log's parts on the page, each with its name in the log.
    """

    first = 1
    recordings: dict[str, str]

    def __init__(
        self, robot: Robot, runs: Runs | None, shown: Sequence[int], episode: str | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.robot, self.runs, self._seed = robot, runs, seed
        self.settings = chosen = Chosen(robot.alpha, *(robot.axes[axis] for axis in shown))
        controls = {"alpha": Control("alpha", chosen.alpha, Range(0.01, 0.5, 0.01), "Failure rate of the regions.")}
        if len(robot.axes) > 2:
            for side, axis in (("across", chosen.across), ("up", chosen.up)):
                controls[side] = Control(side, axis, Choices(robot.axes), "An axis of the configuration.")
        self.controls, self._bounds = controls, self._input_bounds()
        names = [shortened(printable(name), INPUT) for name in robot.inputs]
        self.sliders = [Slider.between(name, i, ends) for i, (name, ends) in enumerate(zip(names, self._bounds))]
        self.x = np.median(self._bounds, axis=1)
        self.space = space_of(robot, runs, shown)
        self._pictures = Pictures(self.space, None)
        if len(robot.axes) == 3:
            self.camera = np.array([1.5, -1.9, 1.3]), np.array([0.0, 0.0, -0.05])
        self._replays: dict[str, Replay] = {}
        first = None if runs is None else runs.names[0] if episode is None else episode
        self.recordings = self._listed(first)
        self.legend = legend_of(robot, runs is not None)
        self.facts = facts(robot, len(self.recordings), 0 if runs is None else len(runs.names))
        if first is not None:
            self.open(next(listed for listed, name in self.recordings.items() if name == first))

    @property
    def last(self) -> int:
        return 0 if self._replay is None else len(self._replay) - 1

    @property
    def rest(self) -> float:
        return 1 / (RATE if self.runs is None else self.runs.rate)

    @property
    def _replay(self) -> Replay | None:
        return None if self.name is None else self._replays[self.name]

    # -- changes by people --------------------------------------------------------------------------------------------

    def change(self, path: str, value: Any) -> None:
        """Change the failure rate or an axis; the two axes swap if they would be the same."""
        with self._lock:
            before, chosen = self.settings, replace(self.settings, **{path: value})
            failure_rate(chosen.alpha)
            if chosen.across == chosen.up:
                chosen = replace(chosen, across=before.up, up=before.across)
            if (chosen.across, chosen.up) != (before.across, before.up):
                self.space = self.space.showing([self.robot.axis(name) for name in (chosen.across, chosen.up)])
            self.settings = chosen

    def open(self, name: str) -> None:
        if self.runs is None:
            raise CaptureError("there is no log; give it to the command: capture view robot.capture log.csv.")
        rows = self.runs.named(self.recordings[name])
        with self._lock:
            if name not in self._replays:
                if len(self._replays) >= KEPT:
                    self._replays.clear()
                self._replays[name] = Replay(self.robot, self.runs.log, rows, self.runs.episodes, self._seed)
            self.name, self.time, self.playing = name, 0, False

    def close(self) -> None:
        """Leave the log, and keep the input of the current step."""
        with self._lock:
            replay = self._replay
            if replay is not None:
                self.x = replay.X[self.time].copy()
            self.name, self.playing = None, False

    def aim(self, entry: int, value: float) -> None:
        """Set one number of the input by hand, within its bounds; leaves the log."""
        with self._lock:
            self.close()
            self.x = self.x.copy()
            self.x[entry] = np.clip(value, *self._bounds[entry])  # the ends of a slider are rounded

    def play(self) -> None:
        if self.name is None:
            raise CaptureError("there is nothing to play by hand; choose an episode of a log.")
        super().play()

    # -- slow work and frames -----------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Predict the episode that is shown, if that is not done yet."""
        with self._lock:
            replay = self._replay
        if replay is None or replay.ready:
            return False
        try:
            assert replay.prediction is not None
        except CaptureError:
            self.close()  # otherwise the model would be called again and again
            raise
        return True

    def moment(self) -> Moment:
        """What is shown now, not drawn yet."""
        with self._lock:
            alpha, space, step, x = self.settings.alpha, self.space, self.time, self.x
            replay, name = self._replay, None if self.name is None else self.recordings[self.name]
        look, counts = None, list[Count]()
        if replay is None:
            look = look_by_hand(self.robot, x, alpha, self._seed)
        else:
            x = replay.X[step]
            if replay.ready:
                look, counts = replay.look(step, alpha), replay.counts(alpha, step + 1)
        return Moment(self.robot, self.runs, alpha, space, name, replay, x, look, step, counts, self.robot.sizes_at(x))

    def frame(self) -> Frame:
        moment = self.moment()
        if moment.look is None:
            return Frame(status(moment), "", None, (), moment.x, True)
        if self._pictures.subject != (moment.space, moment.replay):
            self._pictures = Pictures(moment.space, moment.replay)
        whole, near = self._pictures.draw(moment.look, moment.step)
        tables = "\n\n".join(part for part in (counts_table(moment), thresholds_table(moment)) if part)
        scene = scene_of(moment.space, moment.look, whole)
        return Frame(status(moment), tables, scene, (("", whole), ("", near)), moment.x, False)

    def _input_bounds(self) -> Floats:
        """Bounds of each input, (dx, 2): the outer quantiles that the calibration keeps."""
        try:
            values = self.robot.input_quantiles()
        except CaptureError:
            if self.runs is None:
                raise
            values = np.quantile(self.runs.log.X, [TAIL, 1 - TAIL], axis=0).T
        return values[:, [0, -1]]

    def _listed(self, first: str | None) -> dict[str, str]:
        """The first parts of the log by their names on the page, and the one that is shown first."""
        found: dict[str, str] = {}
        names = [] if self.runs is None else self.runs.names[:LISTED]
        for name in dict.fromkeys([*names, *([] if first is None else [first])]):
            shown = shortened(printable(name), LETTERS) or "(no name)"
            found[shown if shown not in found else f"{shown} ({len(found) + 1})"] = name
        return found
