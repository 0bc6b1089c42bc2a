"""Settings of the page. One definition serves twice: flags of `capture view` and controls in the browser."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.tasks.marble.maps import MAP_NAMES
from capture_cp.tasks.marble.planner import PLANNER as MARBLE_PLANNER
from capture_cp.tasks.marble.planner import MarbleWeights
from capture_cp.tasks.peg.planner import PLANNER as PEG_PLANNER
from capture_cp.tasks.peg.planner import PegWeights
from capture_cp.tasks.peg.task import PARTICLES, SystemName
from capture_cp.viewer.controls import Bounds, Choices, Control, Range, controls_of

#: In the place of a second method: none.
ALONE = "none"

_METHOD = Annotated[str, tyro.conf.arg(help=f"One of: {', '.join(METHODS)}."), Choices(METHODS)]
_BESIDE = Annotated[
    str, tyro.conf.arg(help=f"A second method, drawn beside the first, or {ALONE}."), Choices((ALONE, *METHODS))
]
_ALPHA = Annotated[float, tyro.conf.arg(help="Failure rate of the regions."), Range(0.01, 0.5, 0.01)]


@dataclass(frozen=True)
class PageSettings:
    """Where the page is, and what it opens with; not changed from the browser."""

    host: Annotated[str, tyro.conf.arg(help="Address to bind to; other machines cannot reach the default.")] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(help="Port; the next free one if it is taken.")] = 8080
    open: Annotated[bool, tyro.conf.arg(help="Also open the page in the default browser.")] = False
    replay: Annotated[tuple[Path, ...], tyro.conf.arg(help="Episodes to replay, files of capture plan --record.")] = ()

    def check(self) -> None:
        """Refuse settings that cannot be worked with."""
        if not 1 <= whole_number("port", self.port, 1) <= 65535:
            raise CaptureError(f"port is {self.port}; expected a whole number from 1 to 65535.")

    def episodes(self) -> dict[str, Episode]:
        """The episodes to replay, by the names of their files."""
        return {file.name: Episode.load(file) for file in self.replay}


@dataclass(frozen=True)
class MarbleView(PageSettings):
    """The marble labyrinth in the browser: regions of any method, planning live, replay of episodes."""

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    map: Annotated[str, tyro.conf.arg(help="Name of a map, or a .json file of your own."), Choices(MAP_NAMES)] = "center"
    method: _METHOD = "capture"
    beside: _BESIDE = ALONE
    alpha: _ALPHA = 0.1
    k: Annotated[int, tyro.conf.arg(help="Neighbour that counts, for capture and no-strata."), Range(1, 16, 1)] = 8
    particles: Annotated[int, tyro.conf.arg(help="Particles L.")] = 16
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same episodes as capture plan marble.")] = 0
    planner: Annotated[PlannerSettings, tyro.conf.arg(name="")] = MARBLE_PLANNER
    weights: Annotated[MarbleWeights, tyro.conf.arg(name="")] = field(default_factory=MarbleWeights)

    def check(self) -> None:
        super().check()
        check_common(self)

    @property
    def where(self) -> tuple[Any, ...]:
        """What the world, and the calibrations in it, are a matter of."""
        return (self.map,)

    def run(self, console: Console) -> None:
        """Serve the page until stopped."""
        from capture_cp.viewer.serve import serve

        serve(self, console)


@dataclass(frozen=True)
class PegView(PageSettings):
    """The peg insertion in the browser: contacts, regions of any method, planning live. Needs MuJoCo."""

    task: Annotated[Literal["peg"], tyro.conf.Suppress] = "peg"
    system: Annotated[SystemName, tyro.conf.arg(help="The true system: the peg on rails, or in a Panda's hand.")] = "planar"
    method: _METHOD = "capture"
    beside: _BESIDE = ALONE
    alpha: _ALPHA = 0.1
    k: Annotated[int, tyro.conf.arg(help="Neighbour that counts, for capture and no-strata."), Range(1, 8, 1)] = 4
    particles: Annotated[int, tyro.conf.arg(help="Particles L.")] = PARTICLES
    calibration: Annotated[int, tyro.conf.arg(help="Calibration transitions, simulated once and kept on disk.")] = 20_000
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same episodes as capture plan peg.")] = 0
    planner: Annotated[PlannerSettings, tyro.conf.arg(name="")] = PEG_PLANNER
    weights: Annotated[PegWeights, tyro.conf.arg(name="")] = field(default_factory=PegWeights)

    def check(self) -> None:
        super().check()
        check_common(self)
        whole_number("calibration", self.calibration, 1)

    @property
    def where(self) -> tuple[Any, ...]:
        """What the world, and the calibrations in it, are a matter of."""
        return (self.system, self.calibration)

    def run(self, console: Console) -> None:
        """Serve the page until stopped."""
        from capture_cp.viewer.serve import serve

        serve(self, console)


View = MarbleView | PegView

#: Between which values the page lets the planner's numbers be chosen; the command line takes others, too.
PLANNER_BOUNDS = {
    "planner.horizon": Bounds(1, 60),
    "planner.samples": Bounds(1, 65_536),
    "planner.temperature": Bounds(0.001, 1000),
    "planner.elites": Bounds(0, 256),
    "planner.repeats": Bounds(1, 256),
    "planner.iterations": Bounds(1, 16),
    "weights.spread": Bounds(0.01, 100),
    **{f"weights.{name}": Bounds(0, 1000) for name in ("effort", "outside", "caution", "final", "stage", "pit")},
}


def page_controls(view: View) -> dict[str, Control]:
    """What the page lets a person change, by path."""
    fixed = {entry.name for entry in fields(PageSettings)} | {"particles", "calibration", "seed", "task", "system"}
    return {control.path: control for control in controls_of(view, fixed, bounds=PLANNER_BOUNDS)}


def check_common(view: View) -> None:
    """Refuse settings that no task can work with."""
    failure_rate(view.alpha)
    known_name("method", view.method, METHODS)
    known_name("method beside", view.beside, (ALONE, *METHODS))
    for name in ("k", "particles"):
        whole_number(name, getattr(view, name), 1)
    if view.k > view.particles:
        raise CaptureError(f"k is {view.k}, of {view.particles} particles; choose k from 1 to {view.particles}.")
    for name in ("horizon", "samples"):
        whole_number(name, getattr(view.planner, name), 1)
    if not view.planner.temperature > 0:
        raise CaptureError(f"temperature is {view.planner.temperature}; expected a positive number.")
    whole_number("seed", view.seed, 0)
