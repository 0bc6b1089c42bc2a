"""The sensitivity study: how much planning depends on the settings of regions, planner and task, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.cuda.device import Device
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.planning_rows import covered, successes
from capture_lab.studies.study import Calibration, FigureFolder, Jobs, RowsFile, Seed, StateFolder, Study
from capture_lab.tasks.rows import Setting, weight_options
from capture_lab.tasks.task import Task

Rows = list[dict[str, Any]]
ALL = "all"  # the place of rows that add up all places


@dataclass(frozen=True)
class SensitivityStudy(Study):
    """Plan again with one setting changed at a time: success rate, and coverage on the executed steps.

    Methods are recalibrated for every value. All values share the same starts and the same noise in each episode.
    """

    command: ClassVar[str] = "sensitivity"

    settings: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(help="Settings to vary, by default all that the task lists.")
    ] = None
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help="Methods of capture plan.")] = ("capture",)
    episodes: Annotated[int, tyro.conf.arg(help="Closed-loop episodes per place, method and value.")] = 10
    samples: Annotated[
        int | None, tyro.conf.arg(help="Sampled action sequences per plan, by default as in capture plan.")
    ] = None
    calibration: Calibration = 1.0
    device: Annotated[Device, tyro.conf.arg(help="Where plans are computed, as in capture plan.")] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    figures: FigureFolder = None

    def run(self, console: Console) -> None:
        """Run every value of every setting, and print one table per setting."""
        study = self._study()
        names = self._names()
        runs = _Runs(study, console)
        rows: Rows = []
        for name in names:
            found = self._vary(name, runs, console)
            console.print(self._table(name, found))
            rows += found
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            from capture_lab.studies.sensitivity_figure import draw_sensitivity

            file = output_folder(self.figures) / f"{self.task.name}-sensitivity.png"
            draw_sensitivity(rows, self.task.varied, study.alpha, file)
            console.print(f"Figure: {file}", markup=False)

    def _names(self) -> tuple[str, ...]:
        names = tuple(self.task.varied) if self.settings is None else self.settings
        if not names:
            raise CaptureError("no settings are given; name at least one, or leave --settings out.")
        for name in names:
            known_name("setting", name, self.task.varied)
        return names

    def _study(self) -> PlanningStudy:
        shared = ("methods", "episodes", "calibration", "device", "jobs", "seed", "state", "json", "figures")
        chosen = {name: getattr(self, name) for name in shared}
        if self.samples is not None:
            chosen["samples"] = self.samples
        weights = None if self.task.weights is None else weight_options(self.task.weights)()
        return PlanningStudy.of(self.task, weights=weights, **chosen)

    def _vary(self, name: str, runs: _Runs, console: Console) -> Rows:
        """Rows of every value and method: one per place, and one of all places together."""
        rows: Rows = []
        setting = self.task.varied[name]
        for value in setting.values:
            for method in self.methods:
                console.print(f"[dim]{name} = {setting.shown(value)}: {method}[/dim]")
                by_place = runs.of(setting, value, method)
                by_place = by_place | {ALL: [run for episodes in by_place.values() for run in episodes]}
                here = {"setting": name, "value": value}
                rows += [runs.study.row(place, method, episodes) | here for place, episodes in by_place.items()]
        return rows

    def _table(self, name: str, rows: Rows) -> Table:
        caption = (
            "Percentages with exact 95% intervals, all places together.\n"
            "Coverage: executed steps inside their first-step region;\n"
            "no guarantee applies to states that a planner chooses."
        )
        setting, together = self.task.varied[name], [row for row in rows if row["map"] == ALL]
        title = f"{setting.label}: {together[0]['episodes']} episodes per method"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in (name, "method", "success", "coverage"):
            table.add_column(column, justify="right" if column in ("success", "coverage") else "left")
        for row in together:
            cells = [share_with_interval(*count) for count in (successes(row), covered(row))]
            table.add_row(setting.shown(row["value"]), row["method"], *cells)
        return table


class _Runs:
    """Episodes of a study and of the same with one setting changed; none is played twice."""

    def __init__(self, study: PlanningStudy, console: Console) -> None:
        self.study, self._console = study, console
        self._done: dict[PlanningStudy, dict[str, list[Any]]] = {}
        self._tasks: dict[Any, Mapping[str, Task]] = {study.task: study.tasks()}

    def of(self, setting: Setting, value: Any, method: str) -> dict[str, list[Any]]:
        """Summaries of the episodes of a method with one value, by place."""
        row = next(iter(self._tasks[self.study.task].values())).rows[method]
        point = changed(self.study, setting, value * getattr(row.planner, setting.option) if setting.relative else value)
        point = replace(self.study if value == setting.own else point, methods=(method,))
        if point not in self._done:
            if point.task not in self._tasks:
                self._tasks[point.task] = point.tasks()
            found = point.results(self._tasks[point.task], self._console)
            self._done[point] = {place: episodes for (place, _), episodes in found.items()}
        return self._done[point]


def changed(study: PlanningStudy, setting: Setting, value: Any) -> PlanningStudy:
    """The study with another value of a setting, which is an option of it, of its task or of its weights."""
    change: dict[str, Any] = {setting.option: value}
    for part in ("task", "weights"):
        holder = getattr(study, part)
        if holder is not None and setting.option in {entry.name for entry in fields(holder)}:
            return replace(study, **{part: replace(holder, **change)})
    return replace(study, **change)
