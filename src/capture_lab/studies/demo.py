"""The demo: six methods on one task, their coverage, two of them planning, and one page that shows it all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import Progress

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.base.files import check_writable
from capture_cp.base.progress import progress_bar, stage
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.planning.episode import Episode
from capture_cp.report.html import report_trouble, settings_of, write_page
from capture_cp.report.output import output_folder
from capture_cp.report.tables import coverage_page_table, draw_coverage, planning_page_table
from capture_cp.spaces.strata import has_grid
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.paper import Paper
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.planning_rows import summary
from capture_lab.studies.study import Alpha, Particles, Rows, RowsFile, Seed, Study, check_settings, write_results
from capture_lab.tasks.rows import ready_promise
from capture_lab.tasks.task import CALIBRATION, TEST, Task, TestSet

OURS = "capture"
#: Methods without strata, the strongest first where the paper has no figures.
RIVALS = ("no-strata", "pcp", "lucca", "particles")
#: Test inputs whose regions have their volumes estimated where there is no grid.
VOLUMES = 500


@dataclass(frozen=True)
class Results:
    """What the demo found in one place: fitted methods, rows of both tables, and the episodes of the two that plan."""

    place: str
    task: Task
    fitted: Mapping[str, Capture]
    coverage: Rows
    planning: Rows
    episodes: Mapping[str, Sequence[Episode]]


@dataclass(frozen=True)
class Demo(Study):
    """Calibrate six methods on an example robot, plan with two of them, and write a report.

    All methods use the same inaccurate model and the same logged transitions. Fresh transitions show how often the next
    configuration is inside the region, stratum by stratum. Closed-loop episodes show the effect on planning.
    """

    command = "demo"

    rival: Annotated[
        str | None,
        tyro.conf.arg(help="Method to compare with in planning, by default the paper's best method without strata."),
    ] = None
    episodes: Annotated[int, tyro.conf.arg(help="Closed-loop episodes of each of the two methods.")] = 5
    transitions: Annotated[
        int, tyro.conf.arg(help="Logged transitions to calibrate on, and as many fresh ones to test on.")
    ] = 60_000
    samples: Annotated[int, tyro.conf.arg(help="Sampled action sequences per plan.")] = 4096
    alpha: Alpha = 0.1
    particles: Particles = 16
    per_stratum: Annotated[
        bool, tyro.conf.arg(help="One tree per stratum, with guaranteed coverage; otherwise the paper's single tree.")
    ] = True
    seed: Seed = 0
    out: Annotated[Path, tyro.conf.arg(help="Folder for the report and the saved calibration.")] = Path("capture-demo")
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Run the demo, print what it found and where the report is."""
        place, task = self._checked_place()
        folder = output_folder(self.out)
        check_writable(folder / "report.html")
        results = self._results(place, task, console)
        results.fitted[OURS].save(folder / f"{Path(place).stem}.capture")
        console.print(f"Saved calibration: {folder / Path(place).stem}.capture", markup=False)
        write_results(self, [*results.coverage, *results.planning], console)
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"No report: {trouble}", markup=False)
            return
        with TemporaryDirectory() as scratch, progress_bar() as progress:
            write_report(folder / "report.html", self, results, Path(scratch), progress)
        console.print(f"Report: {folder / 'report.html'} (one file; open it in any browser)", markup=False)

    def _checked_place(self) -> tuple[str, Task]:
        """The name of the place and its task, all settings checked."""
        check_settings(self, ("transitions", "episodes", "samples", "particles"))
        if self.rival is not None:
            known_name("method", self.rival, METHODS)
        places = self.task.places()
        if len(places) != 1:
            raise CaptureError(f"the demo runs in one place; {len(places)} are given: {', '.join(places)}.")
        ((place, task),) = places.items()
        return place, task

    def _results(self, place: str, task: Task, console: Console) -> Results:
        shared = {name: getattr(self, name) for name in ("alpha", "particles", "seed")}
        fitted, coverage = self._covered(place, task, shared, console)
        methods = (self.rival or best_rival(Paper.of(self.task), place), OURS)
        study = PlanningStudy.of(self.task, methods=methods, episodes=self.episodes, samples=self.samples, **shared)
        episodes = {name: self._plan(study, task, place, name) for name in study.methods}
        planning = [study.row(place, name, [summary(run, task) for run in runs]) for name, runs in episodes.items()]
        console.print(study.table(task.place, planning))
        return Results(place, task, fitted, coverage, planning, episodes)

    def _covered(
        self, place: str, task: Task, shared: Mapping[str, Any], console: Console
    ) -> tuple[Mapping[str, Capture], Rows]:
        """The methods, calibrated on random transitions, and the rows of their coverage on as many new ones."""
        volume = None if has_grid(task.strata) else VOLUMES
        study = CoverageStudy(self.task, methods=METHODS, mc=1, volume=volume, **shared)
        with stage("Simulating transitions"):
            log, fresh = (
                task.transitions(self.transitions, stream(self.seed, "demo", name)) for name in (CALIBRATION, TEST)
            )
        with stage("Calibrating and testing six methods"):
            tree, test = Tree(per_stratum=self.per_stratum), TestSet(fresh.X, Y=fresh.Y)
            fitted = {name: task.method(name, self.particles, tree, self.seed).fit(log.X, log.Y) for name in METHODS}
            (counts,) = study.count(fitted, task, test, [slice(0, len(fresh))])
        no_figures = Paper()  # the paper's are of other transitions
        console.print(study.table(place, {place: task}, {place: test}, counts, no_figures))
        return fitted, study.rows({place: counts}, {place: task}, no_figures)

    def _plan(self, study: PlanningStudy, task: Task, place: str, name: str) -> list[Episode]:
        """Episodes of a row of the planning study; executed steps have the regions after practice, where there are any."""
        with stage(f"Calibrating {name} for planning"):
            fitted = study.fit(task, name)
            fitted = replace(fitted, promise=ready_promise(fitted, task, self.seed))
        with progress_bar() as progress:
            runs = study.play(fitted, place, name, range(self.episodes))
            return list(progress.track(runs, self.episodes, description=f"Planning with {name}"))


def best_rival(paper: Paper, place: str) -> str:
    """The method without strata that succeeds most often in the paper's planning table."""
    return max(RIVALS, key=lambda name: (paper.planning(place, name) or (0.0,))[0])


def write_report(report: Path, demo: Demo, results: Results, scratch: Path, progress: Progress) -> None:
    """Draw the figures into `scratch` and write the page."""
    task, place, paper = results.task, results.place, Paper.of(demo.task)
    drawing: Any = task.drawing()
    paths = {(place, name): [summary(run, task) for run in runs] for name, runs in results.episodes.items()}
    drawings: dict[str, Callable[[Path], None]] = {
        "spaces.svg": drawing.draw_spaces,
        "coverage.svg": lambda file: draw_coverage(results.coverage, file),
        "regions.png": lambda file: drawing.draw_regions(results.fitted, demo.alpha, file),
        "paths.png": lambda file: drawing.draw_trajectories({place: task}, paths, file),
    }
    figures = {}
    for name, draw in progress.track(drawings.items(), description="Drawing the report"):
        draw(scratch / name)
        figures[Path(name).stem] = scratch / name
    runs = f"{demo.episodes} closed-loop runs of each method"
    write_page(
        report, "demo.html",
        folder=Path(inspect.getfile(type(task))).parent,  # where a task keeps the script that plays its episodes
        about=inspect.cleandoc(demo.task.__doc__ or "").split("\n\n")[0],
        place=task.place, strata=task.strata.names, gridded=has_grid(task.strata),
        alpha=demo.alpha, transitions=demo.transitions,
        ours=OURS, rival=next(iter(results.episodes)),
        chosen=demo.rival is None and paper.planning(place, OURS) is not None,
        coverage=coverage_page_table("Next configurations inside their region, %", results.coverage),
        worst=_worst(results.coverage),
        planning=planning_page_table(runs, results.planning, paper.planning_columns),
        figures=figures, player=drawing.player_data(results.fitted, results.episodes),
        settings=settings_of(demo.task) | settings_of(demo, ("task", "out", "json")),
    )  # fmt: skip


def _worst(rows: Rows) -> dict[str, dict[str, Any]]:
    """The least covered stratum of each method: its row."""
    strata = [row for row in rows if row["stratum"] != "all" and row["n"]]
    methods = dict.fromkeys(row["method"] for row in strata)
    return {name: min((row for row in strata if row["method"] == name), key=lambda row: row["coverage"]) for name in methods}
