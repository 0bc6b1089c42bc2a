"""`capture view CALIBRATION [LOG]`: a live page of a user's own calibration, or a video of an episode of a log."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.arrays import digest, digest_of_chunks
from capture_cp.base.checks import CaptureError, CaptureWarning, Floats, Ints, failure_rate, printable, shortened
from capture_cp.base.checks import whole_number as whole
from capture_cp.commands import view_parts as shows
from capture_cp.commands.bundle import robot_facts
from capture_cp.commands.reading import Remembered, made_from
from capture_cp.commands.replay import RATE, Replay, Runs, by_hand, rows_name
from capture_cp.commands.robot import Robot
from capture_cp.data.transitions import chunks_of
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Picture
from capture_cp.report.draw import Frames
from capture_cp.report.movie import check_film, write_film
from capture_cp.report.panel import strata_key
from capture_cp.report.space import LONGEST
from capture_cp.report.style import pyplot
from capture_cp.viewer.controls import Choices, Control, Range
from capture_cp.viewer.serve import Served
from capture_cp.viewer.session import Frame, Session, Slider
from capture_cp.viewer.texts import as_text, legend

#: Default number of rows of a video of a log without episodes, and the most that one can have.
FIRST, MOST = 100, 5_000
#: Size of a video in inches of 100 pixels, widths of its panels, columns of its legend; sizes of the page's pictures.
FILM, RATIOS, COLUMNS = (12.8, 5.0), (1.0, 1.0, 0.8), 7
WHOLE, CLOSE = (5.6, 4.7), (5.6, 4.2)
#: Letters of an episode's name in the menu, and of an input's, and episodes whose predictions are kept.
LETTERS, INPUT, KEPT = 60, 24, 16
#: Fraction of a log's inputs beyond either end of a slider, where the calibration keeps no quantiles.
TAIL = 0.05


@dataclass(frozen=True)
class View(Served, Remembered):
    """A live page of your calibration: its regions in the configuration space, step by step through a log.

    LOG is any log that `capture calibrate` accepts, with the same columns as the calibration's log. Choose an episode and
    step through it: the page shows the region of each step, the model's particles, the true outcome, and coverage so far.
    Without LOG, choose an input by hand. With more than two axes the page shows a slice along two.
    """

    calibration: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration.", metavar="CALIBRATION")]
    log: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(help="A log of any kind that capture calibrate accepts.", metavar="LOG"),
    ] = None
    episode_column: Annotated[
        str | None,
        tyro.conf.arg(
            help="Column with the episode of each row; by default the one that the calibration's log had.", metavar="COLUMN"
        ),
    ] = None
    axes: Annotated[
        tuple[str, ...], tyro.conf.arg(help="The two axes of the configuration to show.", metavar="AXIS ...")
    ] = ()
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
    seed: Annotated[int, tyro.conf.arg(help="Random seed for the particles; the same seed gives the same pictures.")] = 0

    @property
    def label(self) -> str:
        return f"capture view {self.calibration.name}"

    def run(self, console: Console) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # the page lists infinite thresholds
            super().run(console)

    def opened(self) -> tuple[Robot, Runs | None]:
        """The calibration with its model and strata, and the log, by the columns that are named or remembered."""
        known = robot_facts(self.calibration)
        whole("seed", self.seed, 0)
        cap, given = self.calibrated(self.calibration, known), vars(self)
        robot = Robot.of(self.calibration, cap, known, given, self.alpha)
        if self.log is None:
            return robot, None
        log = self.logged(cap, self.calibration, known, self.log, self.episode_column).read()
        parts = [digest(log.X[rows], log.Y[rows]) for _, rows in chunks_of(len(log))]
        return robot, Runs.of(log, digest_of_chunks(parts) in made_from(known))

    def session(self) -> LogSession:
        pyplot()  # missing matplotlib is reported now
        robot, runs = self.opened()
        if runs is None and self.episode is not None:
            raise CaptureError("--episode names an episode of a log; give the log too: capture view robot.capture log.csv.")
        return LogSession(robot, runs, robot.shown(self.axes), self.episode, self.seed)

    # -- a video ------------------------------------------------------------------------------------------------------

    def film(self, file: Path, console: Console) -> None:
        """Draw every step of an episode, or of some rows, and write the video."""
        if self.log is None:
            raise CaptureError(
                "a video needs a log as well as the calibration: capture view robot.capture log.csv --save FILE."
            )
        if self.rows is not None and self.episode is not None:
            raise CaptureError("both --episode and --rows are given; give only one of them.")
        check_film(file, self.film_speed)
        robot, runs = self.opened()
        assert runs is not None
        space, (name, chosen) = shows.space_of(robot, runs, robot.shown(self.axes)), self._chosen(runs)
        replay = Replay(robot, runs.log, chosen, runs.episodes and self.rows is None, self.seed)
        strata = strata_key(tuple(shortened(one, LONGEST) for one in robot.strata), "region: ")
        frames = Frames(FILM, [*strata, *shows.marks_shown(robot, logged=True)], COLUMNS, "ABC", width_ratios=RATIOS)

        def drawn(step: int) -> Picture:
            parts = *shows.panels(space, replay.look(step, robot.alpha)), shows.coverage_panel(replay, robot.alpha, step + 1)
            return frames.draw(parts, f"{shortened(name, 40)}: step {step + 1} of {len(replay)}")

        write_film(file, drawn, len(replay), self.film_speed * (runs.rate if runs.log.time is not None else RATE))
        count = replay.counts(robot.alpha, len(replay))[0]
        summary = f"Video of {printable(name)}, {count.held} of {count.steps} steps inside their regions: {file}"
        for line in (summary, *(f"note: {note}" for note in shows.film_notes(robot, runs, replay))):
            console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _chosen(self, runs: Runs) -> tuple[str, Ints]:
        """The name of the video, and its rows (n,)."""
        if self.rows is None and (self.episode is not None or runs.episodes):
            first = next(iter(runs.rows)) if self.episode is None else self.episode
            name, rows = f"episode {first}", runs.named(first)
        else:
            rows = runs.chosen(self.rows or f":{min(FIRST, len(runs.log))}")
            name = rows_name(rows)
        if len(rows) > MOST:
            raise CaptureError(f"{name} has {len(rows):,} steps; a video has at most {MOST:,}, so give --rows START:STOP.")
        return name, rows


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
        self.space = shows.space_of(robot, runs, shown)
        self._frames = Frames(WHOLE), Frames(CLOSE)
        if len(robot.axes) == 3 or "gap" in robot.facts:
            self.camera = np.array([1.5, -1.9, 1.3]), np.array([0.0, 0.0, -0.05])
        self._replays: dict[str, Replay] = {}
        parts = [] if runs is None else [*runs.rows]
        first = episode if episode is not None or not parts else parts[0]
        self.recordings = _listed(dict.fromkeys([*parts[: shows.LISTED], *([] if first is None else [first])]))
        strata = strata_key(robot.strata)
        extra = INFEASIBLE_LEGEND if len(strata) > 1 else ()
        self.legend = legend([*strata, *extra], shows.marks_shown(robot, runs is not None))
        self.facts = shows.facts(robot, len(self.recordings), len(parts))
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
                self.space = self.space.showing(self.robot.shown((chosen.across, chosen.up)))
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
            if self._replay is not None:
                self.x = self._replay.X[self.time].copy()
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

    def frame(self) -> Frame:
        with self._lock:
            alpha, space, step, x, replay = self.settings.alpha, self.space, self.time, self.x, self._replay
            name = None if self.name is None else self.recordings[self.name]
        tables, what = [], "by hand: move the sliders" + ("" if self.runs is None else ", or choose an episode")
        if replay is None:
            look = by_hand(self.robot, x, alpha, self._seed)
        else:
            assert self.runs is not None
            x, called = replay.X[step], f"{'episode ' if self.runs.episodes else ''}{as_text(str(name), LETTERS)}"
            if not replay.ready:
                return Frame(f"**predicting {called} …**", "", None, (), x, True)
            look = replay.look(step, alpha)
            where = "inside" if look.inside else "outside"
            what = f"{called}, step {step + 1} of {len(replay)}: outcome {where} the region"
            tables.append(shows.counts_table(self.runs, replay.counts(alpha, step + 1), alpha))
        tables.append(shows.thresholds_table(self.robot, look.region.thresholds, self.robot.sizes_at(x), alpha))
        drawn = [frames.draw([panel]) for frames, panel in zip(self._frames, shows.panels(space, look))]
        status = f"**{what}**  \n{shows.input_line(self.robot, x)}"
        model: Any = self.robot.cap.model
        scene = model.scene(look) if "gap" in self.robot.facts else shows.scene_of(space, look, drawn[0])
        return Frame(status, "\n\n".join(tables), scene, [("", one) for one in drawn], x, False)

    def _input_bounds(self) -> Floats:
        """Bounds of each input, (dx, 2): the outer quantiles that the calibration keeps."""
        try:
            values = self.robot.input_quantiles()
        except CaptureError:
            if self.runs is None:
                raise
            values = np.quantile(self.runs.log.X, [TAIL, 1 - TAIL], axis=0).T
        return values[:, [0, -1]]


def _listed(names: Any) -> dict[str, str]:
    """Parts of a log by their names on the page."""
    found: dict[str, str] = {}
    for name in names:
        shown = shortened(printable(name), LETTERS) or "(no name)"
        found[shown if shown not in found else f"{shown} ({len(found) + 1})"] = name
    return found
