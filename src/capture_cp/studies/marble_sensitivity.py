"""How much planning with the marble hangs on the settings of regions and planner, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_cp.studies.planning import PlanningStudy
from capture_cp.studies.planning_rows import ROWS
from capture_cp.studies.study import Jobs, RowsFile, Seed, StateFolder
from capture_cp.tasks.marble.task import Marble


@dataclass(frozen=True)
class Setting:
    """A setting of `PlanningStudy` that is varied while the others stay as they are.

    Attributes:
        field: its name in `PlanningStudy`.
        label: its name for people.
        values: what it is set to; the study's own value among them.
        own: the study's own value, with which nothing is changed.
    """

    field: str
    label: str
    values: tuple[float | None, ...]
    own: float


#: The temperature is a multiple of each row's own; everything else is the value itself.
SETTINGS: dict[str, Setting] = {
    "k": Setting("k", "neighbour k, of 16 particles", (1, 2, 4, 8, 12), 8),
    "particles": Setting("particles", "particles L, with k = L/2", (4, 8, 16, 32), 16),
    "leaves": Setting("max_leaves", "most leaves a tree", (5, 20, 80, None), 20),
    "calibration": Setting("calibration", "share of the calibration data", (1 / 64, 1 / 16, 1 / 4, 1), 1),
    "alpha": Setting("alpha", "alpha", (0.02, 0.1, 0.3, 0.5), 0.1),
    "horizon": Setting("horizon", "steps of the horizon", (4, 6, 8, 10), 6),
    "temperature": Setting("temperature", "times the row's own temperature", (0.25, 1, 4), 1),
}

Rows = list[dict[str, Any]]
Results = dict[tuple[str, str], list[Any]]


@dataclass(frozen=True)
class MarbleSensitivity:
    """Success and on-policy coverage on the marble when one setting differs from the planning study's.

    The rows are calibrated anew for every value. Every value meets the same noise in the same episode.
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    settings: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(SETTINGS)}.")] = tuple(SETTINGS)
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = (
        "bottom-left",
        "center",
        "top-center",
    )
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(ROWS)}.")] = (
        "capture",
        "capture-horizon-residual",
    )
    episodes: Annotated[int, tyro.conf.arg(help="Runs a map, method and value.")] = 10
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan.")] = 4096
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, made for choosing settings.")] = False
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for a figure with a panel for every setting.")] = None

    def run(self, console: Console) -> None:
        """Run every value of every setting, and print a table a setting."""
        study = self._study()
        tasks = study.checked_tasks()
        rows: Rows = []
        done: dict[PlanningStudy, Results] = {}  # every setting has the study's own values among its own
        for name in self.settings:
            found = self._vary(name, study, tasks, done, console)
            console.print(self._table(name, found))
            rows += found
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            from capture_cp.studies.sensitivity_figure import draw_sensitivity

            file = output_folder(self.figures) / "marble-sensitivity.png"
            draw_sensitivity(rows, file)
            console.print(f"Figure: {file}", markup=False)

    def _study(self) -> PlanningStudy:
        if not self.settings:
            raise CaptureError("no settings are given; name at least one, or leave --settings out.")
        for name in self.settings:
            known_name("setting", name, SETTINGS)
        return PlanningStudy(
            maps=self.maps, methods=self.methods, episodes=self.episodes, samples=self.samples, variant=self.variant,
            jobs=self.jobs, seed=self.seed, state=self.state, json=self.json, figures=self.figures,
        )  # fmt: skip

    def _vary(
        self,
        name: str,
        study: PlanningStudy,
        tasks: dict[str, Marble],
        done: dict[PlanningStudy, Results],
        console: Console,
    ) -> Rows:
        """Rows of every value and method: one a map, and one of all maps together."""
        rows: Rows = []
        for value in SETTINGS[name].values:
            for method in self.methods:
                console.print(f"[dim]{name} = {shown(value)}: {method}[/dim]")
                point = changed(study, name, value, method)
                if point not in done:
                    done[point] = point.results(tasks, console)
                by_map = {map_name: episodes for (map_name, _), episodes in done[point].items()}
                by_map["all"] = [run for episodes in by_map.values() for run in episodes]
                here = {"setting": name, "value": value}
                rows += [study.row(map_name, method, episodes) | here for map_name, episodes in by_map.items()]
        return rows

    def _table(self, name: str, rows: Rows) -> Table:
        caption = (
            "Per cent, exact 95 % intervals, all maps together.\n"
            "Coverage: executed steps inside their first-step region;\n"
            "nothing is promised for states that a planner chooses."
        )
        title = f"{SETTINGS[name].label}: {self.episodes} episodes on each of {', '.join(self.maps)}"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in (name, "method", "success", "coverage"):
            table.add_column(column, justify="right" if column in ("success", "coverage") else "left")
        for row in rows:
            if row["map"] == "all":
                cells = [share_with_interval(*count) for count in (successes(row), covered(row))]
                table.add_row(shown(row["value"]), row["method"], *cells)
        return table


def changed(study: PlanningStudy, name: str, value: float | None, method: str) -> PlanningStudy:
    """The study of one method with one setting changed; the same as ever where the value is its own."""
    setting, study = SETTINGS[name], replace(study, methods=(method,))
    if value == setting.own:
        return study
    if value is not None and name == "temperature":
        value *= ROWS[method].planner.temperature
    change: dict[str, Any] = {setting.field: value}
    return replace(study, **change)


def successes(row: dict[str, Any]) -> tuple[int, int]:
    """Episodes of a row that reached the goal, of all."""
    return round(row["success"] * row["episodes"]), row["episodes"]


def covered(row: dict[str, Any]) -> tuple[int, int]:
    """Executed steps of a row that ended inside their first-step region, of all."""
    return sum(row["held"]), sum(row["landed"])


def shown(value: float | None) -> str:
    """A value as text."""
    return "no limit" if value is None else f"{value:.3g}"
