"""`capture video`: a recorded episode as a video, the robot next to its configuration space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_writable
from capture_cp.base.progress import progress_bar
from capture_cp.planning.episode import Episode
from capture_cp.report.movie import ENDINGS, Picture, check_ending, write_movie
from capture_cp.spaces.plotting import pyplot
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.registry import find_task, register_task


@dataclass(frozen=True)
class Video:
    """Turn a recorded episode into a video.

    Record episodes with `capture plan TASK --record FOLDER`. The video shows the workspace, if the task draws one, and the
    configuration space with the model's particles, the region of every step by stratum, and where the robot really went.
    The regions are those recorded in the episode.

    To make a video of an episode in your own log: capture video robot.capture LOG, see capture video robot.capture --help.
    """

    episode: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Recorded episode, .npz.", metavar="EPISODE.npz")]
    out: Annotated[
        Path | None, tyro.conf.arg(help=f"The video, {' or '.join(ENDINGS)}; by default an .mp4 file next to the episode.")
    ] = None
    speed: Annotated[float, tyro.conf.arg(help="1 is real time, 0.5 half as fast.")] = 1.0
    task: Annotated[
        str | None,
        tyro.conf.arg(help="The episode's task, module:object, if it is your own."),
    ] = None

    def run(self, console: Console) -> None:
        """Draw every step and write the video."""
        out = self.out if self.out is not None else self.episode.with_suffix(".mp4")
        if not 0.01 <= self.speed <= 10:
            raise CaptureError(f"speed is {self.speed}; expected a number from 0.01 to 10, 1 for real time.")
        pyplot()  # missing matplotlib is reported now
        check_ending(out)
        check_writable(out)
        if self.task is not None:
            register_task(find_task(self.task))
        episode = Episode.load(self.episode)
        board = recorded_task(episode).drawing().storyboard(episode)

        def pictures() -> Iterator[Picture]:
            with progress_bar() as progress:
                for step in progress.track(range(episode.steps + 1), description="drawing"):
                    yield board.draw(step)

        write_movie(out, pictures(), self.speed * board.rate)
        console.print(f"Video of {episode.steps} steps, {episode.outcome}: {out}", soft_wrap=True, markup=False)
        if not len(episode.particles):
            console.print("The episode was recorded without regions: the video shows states and actions only.")
