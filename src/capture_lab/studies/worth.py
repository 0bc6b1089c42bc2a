"""Planning with and without regions, as the error of the model, the noise or the gaps vary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Annotated, Any, ClassVar, NamedTuple

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.base.progress import progress_bar
from capture_cp.cuda.device import Device
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_cp.report.output import output_folder, write_rows
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.planning_rows import planning_row
from capture_lab.studies.study import Calibration, FigureFolder, Jobs, RowsFile, Seed, StateFolder, Study
from capture_lab.tasks.rows import FittedRow, Row, Worth
from capture_lab.tasks.task import PLANNER, Advance, Task

Rows = list[dict[str, Any]]
ALL = "all"  # the place of rows that add up all places


class Cell(NamedTuple):
    """What one row of the results describes, apart from its place: names, and the value on the axis."""

    axis: str
    value: Any
    method: str
    planner: str


@dataclass(frozen=True)
class WorthStudy(Study):
    """Compare planning with and without regions, to see when regions help.

    One thing is varied at a time: how much of the model's error is learnt away, how large the error is, how noisy the system
    is, or how narrow the gaps are. All methods use the same planner and weights and differ only in their regions. Methods
    are recalibrated for every value. All values share the same starts and the same noise in each episode.
    """

    command: ClassVar[str] = "worth"

    axes: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(help="What to vary, by default everything that the task lists.")
    ] = None
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help="Methods of capture plan whose regions are compared.")] = (
        "particles", "pcp", "capture", "capture-horizon", "particles-oracle",
    )  # fmt: skip
    planners: Annotated[tuple[str, ...] | None, tyro.conf.arg(help="Planners, by default all that the task lists.")] = None
    episodes: Annotated[int, tyro.conf.arg(help="Closed-loop episodes per place, method, planner and value.")] = 30
    samples: Annotated[
        int | None, tyro.conf.arg(help="Sampled action sequences per plan, by default as in capture plan.")
    ] = None
    calibration: Calibration = 1.0
    device: Annotated[
        Device,
        tyro.conf.arg(help="Where plans are computed, as in capture plan; results in --state can be read without a GPU."),
    ] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    figures: FigureFolder = None

    def run(self, console: Console) -> None:
        """Play every point, print one table per axis and planner, write the requested files."""
        rows = self.rows(console)
        for axis, planner in dict.fromkeys((row["axis"], row["planner"]) for row in rows):
            console.print(self._table(axis, planner, rows))
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            from capture_lab.studies.worth_figure import draw_worth

            file = output_folder(self.figures) / f"{self.task.name}-worth.png"
            draw_worth(rows, self._worth().axes, file)
            console.print(f"Figure: {file}", markup=False)

    def rows(self, console: Console) -> Rows:
        """Rows of every axis, value, row and planner: one per place, and one of all places together."""
        points = self.points()
        tasks: dict[Any, Mapping[str, Task]] = {}
        for point in points.values():  # all are made first, so that bad settings raise an error before anything is played
            if point.task not in tasks:
                tasks[point.task] = point.tasks()
        found = self._played(points, tasks, console)
        rows: Rows = []
        for cell in points:
            by_place = {place: found[cell, place] for place in tasks[points[cell].task]}
            by_place[ALL] = [run for episodes in by_place.values() for run in episodes]
            for place, episodes in by_place.items():
                rows.append(cell._asdict() | planning_row(self.task.name, place, cell.method, episodes))
        return rows

    def points(self) -> dict[Cell, Point]:
        """The planning study of every cell, names checked."""
        worth, known = self._worth(), next(iter(self.task.places().values())).rows
        axes, planners = self._names("axes", "axis", worth.axes), self._names("planners", "planner", worth.planners)
        methods = self._names("methods", "method", known)
        cells = [
            Cell(axis, value, method, planner)
            for axis in axes
            for value in worth.axes[axis].values
            for method in methods
            for planner in planners
        ]
        return {cell: self._point(cell, worth, known[cell.method]) for cell in cells}

    def _point(self, cell: Cell, worth: Worth, row: Row) -> Point:
        """The planning study of a cell. A correction is all that changes along a corrected axis, and an oracle has none."""
        axis, planner = worth.axes[cell.axis], worth.planners[cell.planner]
        corrected = axis.corrected and cell.value != axis.as_is and not row.oracle
        same = axis.corrected and not corrected
        task = self.task if same else replace(self.task, **{axis.option: cell.value})
        shared = ("episodes", "calibration", "device", "jobs", "seed", "state", "json", "figures")
        chosen = {name: getattr(self, name) for name in shared} | {"methods": (cell.method,), "corrected": corrected}
        if self.samples is not None:
            chosen["samples"] = self.samples
        return Point.of(task, planner=planner.planner, weights=planner.weights, **chosen)

    def _worth(self) -> Worth:
        worth: Worth | None = self.task.worth
        if worth is None:
            raise CaptureError(
                f"{self.task.name} has no axes for this study; a task declares them in its attribute `worth`, "
                "as marble does."
            )
        return worth

    def _names(self, option: str, kind: str, known: Mapping[str, Any]) -> tuple[str, ...]:
        names = getattr(self, option)
        names = tuple(known) if names is None else names
        if not names:
            raise CaptureError(f"no {option} are given; name at least one, or leave --{option} out.")
        return tuple(dict.fromkeys(known_name(kind, name, known) for name in names))

    def _played(
        self, points: Mapping[Cell, Point], tasks: Mapping[Any, Mapping[str, Task]], console: Console
    ) -> dict[tuple[Cell, str], list[Any]]:
        """Summaries of the episodes of every cell and place; points that several axes share are played once.

        Places come before planners, because the planners of a place share its calibrations.
        """
        keys = {
            (cell, place): point.key(task) for cell, point in points.items() for place, task in tasks[point.task].items()
        }
        done: dict[str, list[Any]] = {}
        with progress_bar() as progress:
            bar = progress.add_task("episodes", total=len(set(keys.values())) * self.episodes)
            for (axis, value, method), some in groupby(points, key=lambda cell: cell[:3]):
                cells = list(some)
                console.print(f"[dim]{axis} = {self._worth().axes[axis].shown(value)}: {method}[/dim]")
                for place, task in tasks[points[cells[0]].task].items():
                    progress.update(bar, description=f"{task.place}: {method}")
                    for cell in cells:
                        key = keys[cell, place]
                        if key not in done:
                            done[key] = points[cell].summaries(task, place, partial(progress.advance, bar))
        return {where: done[key] for where, key in keys.items()}

    def _table(self, name: str, planner: str, rows: Rows) -> Table:
        axis, together = self._worth().axes[name], [row for row in rows if row["map"] == ALL]
        caption = "Percentages, all places together. Steps: mean over successful episodes."
        title = f"{axis.label}, planner {planner}: {together[0]['episodes']} episodes per row"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in (name, "row", "success", "95%", "fell", "timed out", "steps"):
            table.add_column(column, justify="left" if column in (name, "row") else "right", no_wrap=True)
        for value in axis.values:
            here = [row for row in together if (row["axis"], row["planner"], row["value"]) == (name, planner, value)]
            for first, row in zip([axis.shown(value)] + [""] * len(here), here):
                shares = [f"{100 * share:.1f}" for share in (row["success"], row["fell"], row["timed_out"])]
                interval = "-".join(f"{100 * end:.1f}" for end in row["success_ci95"])
                steps = "-" if row["steps_mean"] is None else f"{row['steps_mean']:.1f}"
                table.add_row(first, row["method"], shares[0], interval, *shares[1:], steps)
            table.add_section()
        return table


@dataclass(frozen=True)
class Point(PlanningStudy):
    """The planning study of one row with a planner, weights and a model that are not the row's own."""

    planner: PlannerSettings = PLANNER
    corrected: bool = False

    def planned_row(self, task: Task, name: str) -> Row:
        """The row's regions with this planner, these weights and this model."""
        planner = replace(self.planner, horizon=self.horizon, samples=self.samples)
        return replace(task.rows[name], planner=planner, weights=self.weights, corrected=self.corrected)

    def fit(self, task: Task, name: str, practising: Advance | None = None) -> FittedRow:
        """A row of the table, calibrated in this place; a calibration does not depend on planner and weights."""
        return replace(
            _calibrated(replace(self, planner=PLANNER, weights=None), task, name), row=self.planned_row(task, name)
        )

    def key(self, task: Task) -> str:
        """Everything that the episodes of this point depend on in one place."""
        return json.dumps(self._identity(task, self.methods[0]), sort_keys=True, default=str)

    def summaries(self, task: Task, place: str, advance: Callable[[int], object]) -> list[Any]:
        """The summaries of the episodes in one place."""
        return self._summaries(task, place, self.methods[0], advance)

    def _kept(self, run: Episode, task: Task, name: str, episode: int) -> dict[str, Any]:
        """Without the path, which this study does not draw: it has hundreds of points."""
        return {key: value for key, value in super()._kept(run, task, name, episode).items() if key != "path"}


@lru_cache(maxsize=1)
def _calibrated(point: Point, task: Task, name: str) -> FittedRow:
    return PlanningStudy.fit(point, task, name)
