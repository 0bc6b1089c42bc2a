"""`capture view --task NAME`: the live page of a task. Its settings are flags, and controls in the browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_args, get_type_hints

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.base.progress import stage
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.report.movie import check_film, write_film
from capture_cp.viewer.controls import Choices, Control, Range
from capture_cp.viewer.serve import Served
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.study import Study
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.registry import register_task, task_names
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
    method: Annotated[str, tyro.conf.arg(help=f"One of: {', '.join(METHODS)}.")] = "capture"
    beside: Annotated[str, tyro.conf.arg(help=f"A second method, shown next to the first, or {ALONE}.")] = ALONE
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    k: Annotated[int, tyro.conf.arg(help="Which nearest particle gives the score, for capture and no-strata.")] = 8
    from_state_shown: Annotated[
        bool, tyro.conf.arg(help="Start episodes from the state shown, not from the task's start.")
    ] = False
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

    def film(self, file: Path, console: Console) -> None:
        """Draw every step of the first episode to replay, or of a new one, and write the video."""
        self.check()
        check_film(file, self.film_speed)
        if self.task.name not in task_names():
            register_task(type(self.task))
        episode = next(iter(self.episodes().values()), None) or self._played()
        film = recorded_task(episode).drawing().film(episode)
        write_film(file, film.draw, episode.steps + 1, self.film_speed * film.rate)
        console.print(f"Video of {episode.steps} steps, {episode.outcome}: {file}", soft_wrap=True, markup=False)
        if not len(episode.particles):
            console.print("The episode was recorded without regions: the video shows states and actions only.")

    def _played(self) -> Episode:
        """An episode of the planner, as `capture plan` records it."""
        view = self.resolved()
        settings = {name: getattr(view.planner, name) for name in ("horizon", "samples", "temperature")}
        settings |= {name: getattr(view, name) for name in ("alpha", "seed", "k", "weights", "particles", "max_leaves")}
        study = PlanningStudy.of(view.task, episodes=1, methods=(view.method,), **settings)
        task, place = view.task.at(view.place), str(view.place)
        with stage(f"calibrating {view.method}"):
            fitted = study.fit(task, view.method)
        with stage("playing an episode"):
            return next(study.play(fitted, place, view.method, [0]))

    def episodes(self) -> dict[str, Episode]:
        """The episodes to replay, by the names of their files."""
        return {file.name: Episode.load(file) for file in self.replay}

    def session(self) -> TaskSession:
        from capture_lab.studies.live import TaskSession

        episodes = self.episodes()
        session = TaskSession(self)
        for name, episode in episodes.items():
            session.show(name, episode)
        return session


# -- controls ------------------------------------------------------------------------------------------------------------

#: Settings with a control on the page, and bounds of their numbers; the command line accepts others.
MARKS: dict[str, Range | Choices | None] = {
    "method": Choices(METHODS),
    "beside": Choices((ALONE, *METHODS)),
    "alpha": Range(0.01, 0.5, 0.01),
    "k": None,
    "from_state_shown": None,
    "planner.horizon": Range(1, 60),
    "planner.samples": Range(1, 65_536),
    "planner.temperature": Range(0.001, 1000),
    "planner.elites": Range(0, 256),
    "planner.repeats": Range(1, 256),
    "planner.iterations": Range(1, 16),
}
WEIGHT = Range(0, 1000)


def page_controls(view: TaskView, places: Sequence[str] = ()) -> dict[str, Control]:
    """The controls of the page, by path: those of `MARKS`, the weights' numbers, and the place if there are several."""
    weights = {} if view.weights is None else asdict(view.weights)
    marks = MARKS | {"k": Range(1, view.particles, 1)}
    marks |= {f"weights.{name}": WEIGHT for name, value in weights.items() if isinstance(value, int | float)}
    helps = _helps(TaskView) | {
        f"{part}.{name}": text for part in ("planner", "weights") for name, text in _described(getattr(view, part)).items()
    }
    found = {"place": Control("place", view.place, Choices(tuple(places)), helps["place"])} if len(places) > 1 else {}
    return found | {path: Control(path, _value(view, path), mark, helps.get(path, "")) for path, mark in marks.items()}


def replaced(settings: T, path: str, value: Any) -> T:
    """A copy of a dataclass with the field at `path` changed."""
    name, _, rest = path.partition(".")
    inner = replaced(getattr(settings, name), rest, value) if rest else value
    return replace(settings, **{name: inner})  # type: ignore[type-var]


def _value(settings: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), settings)


def _helps(kind: type) -> dict[str, str]:
    """Help of a command's options, by name."""
    hints = get_type_hints(kind, include_extras=True).items()
    return {name: extra.help for name, hint in hints for extra in get_args(hint)[1:] if getattr(extra, "help", None)}


def _described(settings: Any) -> dict[str, str]:
    """The first sentences of a docstring's `Attributes:`, by name."""
    _, _, section = (type(settings).__doc__ or "").partition("Attributes:")
    found = re.findall(r"^\s+(\w+): (.+(?:\n(?!\s+\w+: ).+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).split(". ")[0].rstrip(".") + "." for name, text in found}
