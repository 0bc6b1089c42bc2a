"""`capture video robot.capture LOG`: a video of an episode of a log, with the regions of a calibration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, CaptureWarning, Ints, failure_rate, printable, shortened
from capture_cp.base.files import check_writable
from capture_cp.base.progress import progress_bar
from capture_cp.commands.marks import legend_handles
from capture_cp.commands.panels import CoveragePanel, panels_of
from capture_cp.commands.replay import Replay
from capture_cp.commands.robot import Robot, RobotOptions
from capture_cp.commands.runs import RATE, Runs, chosen_rows, read_runs, rows_name
from capture_cp.commands.space import Space
from capture_cp.report.movie import ENDINGS, MovingFigure, Picture, check_ending, write_movie
from capture_cp.spaces.plotting import pyplot

#: Default number of rows for a log without episodes, and the most that a video can have.
FIRST, MOST = 100, 5_000
INCHES, RATIOS, COLUMNS = (12.8, 5.0), [1.0, 1.0, 0.8], 7


@dataclass(frozen=True)
class LogVideo(RobotOptions):
    """A video of an episode of your log, with the regions of your calibration.

    It shows the configuration space by stratum, the region of every step, the model's particles, the true outcome (inside
    the region or outside) and coverage so far. LOG is any log that `capture calibrate` accepts, with the same columns as
    the calibration's log. With more than two axes the video shows a slice along two, see --axes; with one axis, a strip
    over time.

    For a recorded episode of a task: capture video EPISODE.npz.
    """

    episode: Annotated[
        str | None, tyro.conf.arg(help="Value of the episode column; by default the first episode.", metavar="NAME")
    ] = None
    rows: Annotated[
        str | None,
        tyro.conf.arg(help=f"Rows START:STOP, counted from 1; for a log without episodes by default the first {FIRST}."),
    ] = None
    alpha: Annotated[
        float | None, tyro.conf.arg(help="Failure rate of the regions; by default that of the calibration, or 0.1.")
    ] = None
    out: Annotated[
        Path | None, tyro.conf.arg(help=f"The video file, {' or '.join(ENDINGS)}; by default an .mp4 next to the log.")
    ] = None
    speed: Annotated[float, tyro.conf.arg(help="1 is real time, or four steps per second without a time column.")] = 1.0

    def run(self, console: Console) -> None:
        """Draw every step and write the video."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # infinite thresholds are reported below, in words
            self._run(console)

    def _run(self, console: Console) -> None:
        self._check_settings()
        robot = self.robot(self.alpha)
        shown = robot.shown(self.axes)
        runs = read_runs(self, robot)
        assert runs is not None
        name, rows = self._chosen(runs)
        replay = Replay(robot, runs.log, rows, runs.episodes and self.rows is None, self.seed)
        film = Film(robot, Space(robot, runs, shown), replay, name)

        def pictures() -> Iterator[Picture]:
            with progress_bar() as progress:
                for step in progress.track(range(len(replay)), description="drawing"):
                    yield film.draw(step)

        write_movie(self._file, pictures(), self.speed * (runs.rate if runs.log.time is not None else RATE))
        count = replay.counts(robot.alpha, len(replay))[0]
        summary = f"Video of {printable(name)}, {count.held} of {count.steps} steps inside their regions: {self._file}"
        console.print(summary, soft_wrap=True, markup=False)
        for note in notes(robot, runs, replay):
            console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)

    def _chosen(self, runs: Runs) -> tuple[str, Ints]:
        """The name of the video, and its rows (n,)."""
        if self.rows is not None:
            rows = chosen_rows(self.rows, runs.log)
            name = rows_name(int(rows[0]), int(rows[-1]) + 1)
        elif self.episode is not None:
            rows, name = runs.named(self.episode), f"episode {self.episode}"
        elif runs.episodes:
            name, rows = f"episode {runs.names[0]}", runs.rows[runs.names[0]]
        else:
            rows = np.arange(min(FIRST, len(runs.log)))
            name = rows_name(0, len(rows))
        if len(rows) > MOST:
            raise CaptureError(f"{name} has {len(rows):,} steps; a video has at most {MOST:,}, so give --rows START:STOP.")
        return name, rows

    @property
    def _file(self) -> Path:
        assert self.log is not None
        return self.out if self.out is not None else self.log.with_suffix(".mp4")

    def _check_settings(self) -> None:
        if self.log is None:
            raise CaptureError("capture video needs a log as well as the calibration: capture video robot.capture log.csv.")
        if self.rows is not None and self.episode is not None:
            raise CaptureError("both --episode and --rows are given; give only one of them.")
        if not 0.01 <= self.speed <= 10:
            raise CaptureError(f"speed is {self.speed}; expected a number from 0.01 to 10, 1 for real time.")
        if self.alpha is not None:
            failure_rate(self.alpha)
        pyplot()  # missing matplotlib is reported now
        check_ending(self._file)
        check_writable(self._file)


class Film:
    """Draws steps of a log: the configuration space, a close-up, and coverage so far."""

    def __init__(self, robot: Robot, space: Space, replay: Replay, name: str) -> None:
        self.robot, self.replay, self.name = robot, replay, shortened(name, 40)
        self.panels = panels_of(space, replay)
        self.figure = MovingFigure(INCHES, RATIOS)
        self.whole, self.near, coverage = self.figure.axes
        self.figure.keep_apart(0.06)  # tick labels of close-ups grow and shrink
        self.panels.set_up(self.whole, close=False)
        self.panels.set_up(self.near, close=True)
        self.coverage = CoveragePanel(coverage, replay, robot.alpha)
        handles = legend_handles(robot, logged=True)
        rows = -(-len(handles) // COLUMNS)
        columns = -(-len(handles) // rows)
        self.figure.figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        self.figure.freeze()

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step, counted from 0."""
        self.figure.clear()
        self._draw(step)
        return self.figure.picture(f"{self.name}: step {step + 1} of {len(self.replay)}")

    def _draw(self, step: int) -> None:
        look = self.replay.look(step, self.robot.alpha)
        self.panels.draw_whole(self.whole, look, step)
        self.panels.draw_near(self.near, look, step)
        self.coverage.draw(step + 1)


def notes(robot: Robot, runs: Runs, replay: Replay | None) -> list[str]:
    """Notes for the viewer: whole strata, and limits of the counts."""
    found = []
    if runs.calibrated_on:
        found.append("this is the log that the calibration was made from, so these counts are no test; use new transitions.")
    if replay is not None:
        infinite = np.isinf(robot.cap.thresholds(replay.X, robot.alpha, robot.confidence))  # (n, M)
        whole = [name for m, name in enumerate(robot.strata) if infinite[:, m].any()]
        if whole:
            found.append(
                f"the regions of some steps cover all of {', '.join(whole)}: too few calibration transitions ended there "
                f"for alpha = {robot.alpha:g}."
            )
    if runs.episodes:
        found.append(
            "the intervals assume independent steps; those of one episode are not, so the intervals are too narrow."
        )
    return found
