"""Settings of the live page: flags of `capture view`, and controls in the browser."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.viewer.controls import Choices, Control, Range, controls_of
from capture_cp.viewer.serve import check_port, serve
from capture_lab.studies.study import Study
from capture_lab.tasks.task import PLANNER

if TYPE_CHECKING:
    from capture_cp.viewer.page import Page

#: No second method.
ALONE = "none"


@dataclass(frozen=True)
class View(Study):
    """A live page in the browser: a task in 3D, its configuration space, regions of any method, planning and replay.

    For your own calibration: capture view robot.capture [LOG], see capture view robot.capture --help.
    """

    command = "view"

    place: Annotated[str | None, tyro.conf.arg(help="Place of the task; by default the first.")] = None
    method: Annotated[str, tyro.conf.arg(help=f"One of: {', '.join(METHODS)}."), Choices(METHODS)] = "capture"
    beside: Annotated[
        str, tyro.conf.arg(help=f"A second method, shown next to the first, or {ALONE}."), Choices((ALONE, *METHODS))
    ] = ALONE
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions."), Range(0.01, 0.5, 0.01)] = 0.1
    k: Annotated[int, tyro.conf.arg(help="Which nearest particle gives the score, for capture and no-strata.")] = 8
    particles: Annotated[int, tyro.conf.arg(help="Number of particles L.")] = 16
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Largest number of leaves of the calibration's tree.")] = 20
    calibration: Annotated[int | None, tyro.conf.arg(help="Calibration transitions; by default the task's number.")] = None
    seed: Annotated[int, tyro.conf.arg(help="The same seed gives the same episodes as capture plan.")] = 0
    planner: Annotated[PlannerSettings, tyro.conf.arg(name="", help="The planner.")] = PLANNER
    weights: Annotated[Any, tyro.conf.Suppress] = None
    host: Annotated[str, tyro.conf.arg(help="Address to bind to; other machines cannot reach the default.")] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(help="Port; the next free one if it is taken.")] = 8080
    open: Annotated[bool, tyro.conf.arg(help="Also open the page in the default browser.")] = False
    replay: Annotated[tuple[Path, ...], tyro.conf.arg(help="Episodes to replay: files of capture plan --record.")] = ()

    def resolved(self) -> Self:
        """The same settings with a place, and with the task's weights where the options have none."""
        kind, place = self.task.weights, self.place or self.task.place_names[0]
        given = {} if kind is None else {entry.name: getattr(self.weights, entry.name, None) for entry in fields(kind)}
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(self, place=place, weights=None if kind is None else kind(**chosen))

    def check(self) -> None:
        """Raise an error for invalid settings."""
        check_port(self.port)
        failure_rate(self.alpha)
        known_name("method", self.method, METHODS)
        known_name("method beside", self.beside, (ALONE, *METHODS))
        for name in ("k", "particles", "calibration"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        if self.k > self.particles:
            raise CaptureError(f"k is {self.k}, of {self.particles} particles; choose k from 1 to {self.particles}.")
        for name in ("horizon", "samples"):
            whole_number(name, getattr(self.planner, name), 1)
        if not self.planner.temperature > 0:
            raise CaptureError(f"temperature is {self.planner.temperature}; expected a positive number.")
        whole_number("seed", self.seed, 0)

    def episodes(self) -> dict[str, Episode]:
        """The episodes to replay, by the names of their files."""
        return {file.name: Episode.load(file) for file in self.replay}

    @property
    def label(self) -> str:
        return f"capture view {self.task.name}"

    def prepared(self) -> Callable[[Any], Page]:
        """The function that makes the page on a server. Bad settings raise an error now."""
        self.check()
        episodes = self.episodes()
        from capture_cp.viewer.session import Session
        from capture_cp.viewer.task_page import TaskPage

        session = Session(self)
        for episode in episodes.values():
            session.open(episode)
        return lambda server: TaskPage(server, session, episodes)

    def run(self, console: Console) -> None:
        """Serve the page until stopped."""
        serve(self, console)


#: Settings without a control on the page.
FIXED = ("task", "place", "particles", "max_leaves", "calibration", "seed", "host", "port", "open", "replay")

#: Bounds of the planner's numbers on the page; the command line accepts others.
PLANNER_BOUNDS = {
    "planner.horizon": Range(1, 60),
    "planner.samples": Range(1, 65_536),
    "planner.temperature": Range(0.001, 1000),
    "planner.elites": Range(0, 256),
    "planner.repeats": Range(1, 256),
    "planner.iterations": Range(1, 16),
}
WEIGHT_BOUNDS = Range(0, 1000)


def page_controls(view: View, places: Collection[str] = ()) -> dict[str, Control]:
    """The controls of the page, by path; the place has one if there are several."""
    weights = () if view.weights is None else asdict(view.weights).items()
    of_weights = {f"weights.{name}": WEIGHT_BOUNDS for name, value in weights if isinstance(value, int | float)}
    bounds = {"k": Range(1, view.particles, 1)} | PLANNER_BOUNDS | of_weights
    found = {control.path: control for control in controls_of(view, FIXED, bounds=bounds)}
    if len(places) > 1:
        found = {"place": Control("place", view.place, Choices(tuple(places)), "Place of the task.")} | found
    return found
