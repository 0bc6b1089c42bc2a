"""`capture view --task NAME`: the live page of a task. Its settings are flags, and controls in the browser."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_args, get_origin, get_type_hints

import tyro

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.viewer.controls import Choices, Control, Range
from capture_cp.viewer.serve import Served
from capture_lab.studies.study import Study
from capture_lab.tasks.task import PLANNER

if TYPE_CHECKING:
    from capture_lab.studies.live import TaskSession

T = TypeVar("T")

#: No second method.
ALONE = "none"


@dataclass(frozen=True)
class TaskView(Served, Study):
    """A live page in the browser: a task in 3D, its configuration space, regions of any method, planning and replay."""

    command = "view"

    place: Annotated[str | None, tyro.conf.arg(help="Place of the task; by default the first.")] = None
    method: Annotated[str, tyro.conf.arg(help=f"One of: {', '.join(METHODS)}."), Choices(METHODS)] = "capture"
    beside: Annotated[
        str, tyro.conf.arg(help=f"A second method, shown next to the first, or {ALONE}."), Choices((ALONE, *METHODS))
    ] = ALONE
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions."), Range(0.01, 0.5, 0.01)] = 0.1
    k: Annotated[int, tyro.conf.arg(help="Which nearest particle gives the score, for capture and no-strata.")] = 8
    from_here: Annotated[bool, tyro.conf.arg(help="Start episodes from the state shown, not from the task's start.")] = False
    particles: Annotated[int, tyro.conf.arg(help="Number of particles L.")] = 16
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Largest number of leaves of the calibration's tree.")] = 20
    calibration: Annotated[int | None, tyro.conf.arg(help="Calibration transitions; by default the task's number.")] = None
    seed: Annotated[int, tyro.conf.arg(help="The same seed gives the same episodes as capture plan.")] = 0
    planner: Annotated[PlannerSettings, tyro.conf.arg(name="", help="The planner.")] = PLANNER
    weights: Annotated[Any, tyro.conf.Suppress] = None
    replay: Annotated[tuple[Path, ...], tyro.conf.arg(help="Episodes to replay: files of capture plan --record.")] = ()

    def resolved(self) -> Self:
        """The same settings with a place, and with the task's weights where the options have none."""
        kind, place = self.task.weights, self.place or self.task.place_names[0]
        given = {} if kind is None else {entry.name: getattr(self.weights, entry.name, None) for entry in fields(kind)}
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(self, place=place, weights=None if kind is None else kind(**chosen))

    def check(self) -> None:
        """Raise an error for invalid settings."""
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

    @property
    def label(self) -> str:
        return f"capture view {self.task.name}"

    def session(self) -> TaskSession:
        from capture_lab.studies.live import TaskSession

        episodes = {file.name: Episode.load(file) for file in self.replay}
        session = TaskSession(self)
        for name, episode in episodes.items():
            session.show(name, episode)
        return session


# -- controls ------------------------------------------------------------------------------------------------------------

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


def page_controls(view: TaskView, places: Collection[str] = ()) -> dict[str, Control]:
    """The controls of the page, by path; the place has one if there are several."""
    weights = () if view.weights is None else asdict(view.weights).items()
    of_weights = {f"weights.{name}": WEIGHT_BOUNDS for name, value in weights if isinstance(value, int | float)}
    bounds = {"k": Range(1, view.particles, 1)} | PLANNER_BOUNDS | of_weights
    found = {control.path: control for control in controls_of(view, FIXED, bounds=bounds)}
    if len(places) > 1:
        found = {"place": Control("place", view.place, Choices(tuple(places)), "Place of the task.")} | found
    return found


def controls_of(
    settings: Any, skip: Collection[str] = (), prefix: str = "", bounds: Mapping[str, Range] = MappingProxyType({})
) -> Iterator[Control]:
    """The numbers, switches and choices of a dataclass, nested ones included; text without choices is left out.

    `bounds` are for numbers without bounds in their annotation, by path.
    """
    hints, described = get_type_hints(type(settings), include_extras=True), _described(type(settings))
    for entry in fields(settings):
        path, value = prefix + entry.name, getattr(settings, entry.name)
        extras = get_args(hints[entry.name])[1:] if get_origin(hints[entry.name]) is Annotated else ()
        marks = next((extra for extra in extras if isinstance(extra, Range | Choices)), bounds.get(path))
        help = next((extra.help for extra in extras if getattr(extra, "help", None)), described.get(entry.name, ""))
        if path in skip:
            continue
        if is_dataclass(value):
            yield from controls_of(value, skip, f"{path}.", bounds)
        elif marks is not None or isinstance(value, int | float):
            yield Control(path, value, marks, help)


def replaced(settings: T, path: str, value: Any) -> T:
    """A copy of a dataclass with the field at `path` changed."""
    name, _, rest = path.partition(".")
    inner = replaced(getattr(settings, name), rest, value) if rest else value
    return replace(settings, **{name: inner})  # type: ignore[type-var]


def _described(kind: type) -> dict[str, str]:
    """The first sentences of the docstring's `Attributes:`, by name."""
    _, _, section = (kind.__doc__ or "").partition("Attributes:")
    found = re.findall(r"^\s+(\w+): (.+(?:\n(?!\s+\w+: ).+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).split(". ")[0].rstrip(".") + "." for name, text in found}
