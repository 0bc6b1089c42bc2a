"""Settings of the live page of a user's calibration: flags of `capture view robot.capture [LOG]`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.commands.robot import RobotOptions
from capture_cp.commands.runs import read_runs
from capture_cp.spaces.plotting import pyplot
from capture_cp.viewer.serve import check_port, serve

if TYPE_CHECKING:
    from capture_cp.viewer.page import Page


@dataclass(frozen=True)
class LogView(RobotOptions):
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
    host: Annotated[str, tyro.conf.arg(help="Address to bind to; other machines cannot reach the default.")] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(help="Port; the next free one if it is taken.")] = 8080
    open: Annotated[bool, tyro.conf.arg(help="Also open the page in the default browser.")] = False

    @property
    def label(self) -> str:
        return f"capture view {self.calibration.name}"

    def prepared(self) -> Callable[[Any], Page]:
        """The function that makes the page on a server. Bad settings raise an error now."""
        check_port(self.port)
        pyplot()  # missing matplotlib is reported now
        from capture_cp.viewer.log_page import LogPage
        from capture_cp.viewer.log_session import LogSession

        robot = self.robot(self.alpha)
        robot.shown(self.axes)
        runs = read_runs(self, robot)
        if runs is None and self.episode is not None:
            raise CaptureError("--episode names an episode of a log; give the log too: capture view robot.capture log.csv.")
        session = LogSession(robot, runs, robot.shown(self.axes), self.episode, self.seed)
        return lambda server: LogPage(server, session)

    def run(self, console: Console) -> None:
        """Serve the page until stopped."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # the page lists infinite thresholds
            serve(self, console)
