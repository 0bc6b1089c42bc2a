"""`capture view robot.capture LOG --save FILE`: a video of an episode of a log, with the regions of a calibration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from capture_cp.base.checks import CaptureError, Ints, failure_rate, printable, shortened
from capture_cp.base.files import check_writable
from capture_cp.base.progress import progress_bar
from capture_cp.commands.log_pictures import LogPictures, legend_of, space_of
from capture_cp.commands.replay import Replay
from capture_cp.commands.robot import Robot, RobotOptions
from capture_cp.commands.runs import RATE, Runs, chosen_rows, read_runs, rows_name
from capture_cp.report.canvas import Picture
from capture_cp.report.draw import Frames
from capture_cp.report.movie import check_ending, write_movie
from capture_cp.report.style import pyplot

#: Default number of rows for a log without episodes, and the most that a video can have.
FIRST, MOST = 100, 5_000
INCHES, RATIOS, COLUMNS = (12.8, 5.0), (1.0, 1.0, 0.8), 7


def save_log_film(
    command: RobotOptions,
    file: Path,
    alpha: float | None,
    episode: str | None,
    rows: str | None,
    speed: float,
    console: Console,
) -> None:
    """Draw every step of an episode, or of some rows, and write the video."""
    if command.log is None:
        raise CaptureError("a video needs a log as well as the calibration: capture view robot.capture log.csv --save FILE.")
    if rows is not None and episode is not None:
        raise CaptureError("both --episode and --rows are given; give only one of them.")
    if alpha is not None:
        failure_rate(alpha)
    check_film(file, speed)
    robot = command.robot(alpha)
    shown = robot.shown(command.axes)
    runs = read_runs(command, robot)
    assert runs is not None
    name, chosen = _chosen(runs, episode, rows)
    replay = Replay(robot, runs.log, chosen, runs.episodes and rows is None, command.seed)
    pictures, called = LogPictures(space_of(robot, runs, shown), replay), shortened(name, 40)
    frames = Frames(INCHES, legend_of(robot, logged=True), COLUMNS, "ABC", width_ratios=RATIOS)

    def drawn(step: int) -> Picture:
        panels = pictures.panels(replay.look(step, robot.alpha), step)
        heading = f"{called}: step {step + 1} of {len(replay)}"
        return frames.draw([*panels, pictures.coverage(robot.alpha, step + 1)], heading)

    write_film(file, drawn, len(replay), speed * (runs.rate if runs.log.time is not None else RATE))
    count = replay.counts(robot.alpha, len(replay))[0]
    summary = f"Video of {printable(name)}, {count.held} of {count.steps} steps inside their regions: {file}"
    console.print(summary, soft_wrap=True, markup=False)
    for note in notes(robot, runs, replay):
        console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)


def check_film(file: Path, speed: float) -> None:
    """Reject a video that could not be written, before any work is done."""
    if not 0.01 <= speed <= 10:
        raise CaptureError(f"speed is {speed}; expected a number from 0.01 to 10, 1 for real time.")
    pyplot()  # missing matplotlib is reported now
    check_ending(file)
    check_writable(file)


def write_film(file: Path, drawn: Callable[[int], Picture], steps: int, fps: float) -> None:
    """Write a picture of every step, counted from 0."""
    with progress_bar() as progress:
        write_movie(file, (drawn(step) for step in progress.track(range(steps), description="drawing")), fps)


def _chosen(runs: Runs, episode: str | None, given: str | None) -> tuple[str, Ints]:
    """The name of the video, and its rows (n,)."""
    if given is not None:
        rows = chosen_rows(given, runs.log)
        name = rows_name(int(rows[0]), int(rows[-1]) + 1)
    elif episode is not None:
        rows, name = runs.named(episode), f"episode {episode}"
    elif runs.episodes:
        name, rows = f"episode {runs.names[0]}", runs.rows[runs.names[0]]
    else:
        rows = np.arange(min(FIRST, len(runs.log)))
        name = rows_name(0, len(rows))
    if len(rows) > MOST:
        raise CaptureError(f"{name} has {len(rows):,} steps; a video has at most {MOST:,}, so give --rows START:STOP.")
    return name, rows


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
