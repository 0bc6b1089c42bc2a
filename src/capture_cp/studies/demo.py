"""The demo: six methods on one marble map, their coverage, two of them planning, and one page that shows it all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from capture_cp.base.checks import Floats, failure_rate, known_name, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS, method
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import Tree
from capture_cp.planning.episode import Episode
from capture_cp.report.html import report_trouble
from capture_cp.report.output import coverage_table, output_folder, write_rows
from capture_cp.studies import paper
from capture_cp.studies.planning import PlanningStudy
from capture_cp.studies.planning_rows import ROWS, Calibration
from capture_cp.studies.planning_summary import summary
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.marble.task import Marble

OURS = "capture"
#: Methods without strata, the strongest first where the paper says nothing about a map.
RIVALS = ("no-strata", "pcp", "lucca", "particles")


@dataclass(frozen=True)
class Demo:
    """See what this is about: calibrate six methods on a marble labyrinth, watch two of them plan, read the report.

    A marble rolls on a tilting board between pits, and accelerates twice as hard as the model believes. Every method gets
    the same model and the same logged transitions. Fresh transitions show how often the next position is inside the
    region, in free space, along walls and in corners; closed-loop episodes show what that is worth.
    """

    map: Annotated[str, tyro.conf.arg(help="Name of a map, or a .json file of your own.")] = "top-center"
    rival: Annotated[
        str | None, tyro.conf.arg(help="Method to plan beside capture; the best of the paper's Table 2 unless told.")
    ] = None
    episodes: Annotated[int, tyro.conf.arg(help="Closed-loop runs of each of the two methods.")] = 5
    transitions: Annotated[
        int, tyro.conf.arg(help="Logged transitions to calibrate on, and as many fresh ones to test on.")
    ] = 60_000
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan.")] = 4096
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate: regions cover at least 1 - alpha.")] = 0.1
    particles: Annotated[int, tyro.conf.arg(help="Particles L from the model; CaPTURe scores the L/2-th nearest.")] = 16
    per_stratum: Annotated[
        bool, tyro.conf.arg(help="One tree a stratum: coverage by stratum is then a theorem. Off: the paper's single tree.")
    ] = True
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    out: Annotated[Path, tyro.conf.arg(help="Folder for the report and the saved calibration.")] = Path("capture-demo")
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows of both tables to this file.")] = None

    def run(self, console: Console) -> None:
        """Run the demo, print what it found and say where the report is."""
        task, rival = self._checked()
        folder = output_folder(self.out)
        report, calibration = folder / "report.html", folder / f"{Path(self.map).stem}.capture"
        check_writable(report)
        fitted, coverage = self._calibrate(task, console)
        title = f"{task.map.name}: coverage by where the marble ends up"
        console.print(coverage_table(title, coverage, OURS))
        episodes = {name: self._plan(fitted[name], task, name, console) for name in (rival, OURS)}
        study = self._study((rival, OURS))
        summaries = {name: [summary(run, task) for run in runs] for name, runs in episodes.items()}
        planning = [study.row(self.map, name, found) for name, found in summaries.items()]
        console.print(study.table(task.map.name, planning))
        rows = [row for name, found in coverage.items() for row in found.rows(task="marble", map=self.map, method=name)]
        fitted[OURS].save(calibration)
        console.print(f"Saved calibration: {calibration}", markup=False)
        if self.json is not None:
            write_rows(self.json, [*rows, *planning], self)
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"No report: {trouble}", markup=False)
            return
        self._write_report(report, task, fitted, rows, planning, episodes, console)
        console.print(f"Report: {report} (one file; open it in any browser)", markup=False)

    def _checked(self) -> tuple[Marble, str]:
        failure_rate(self.alpha)
        for name in ("transitions", "episodes", "samples", "particles"):
            whole_number(name, getattr(self, name), 1)
        whole_number("seed", self.seed, 0)
        if self.rival is not None:
            known_name("method", self.rival, METHODS)
        check_writable(self.json)
        task = Marble(load_map(self.map), absorb=True)
        return task, self.rival or best_rival(self.map)

    def _calibrate(self, task: Marble, console: Console) -> tuple[dict[str, Capture], dict[str, Coverage]]:
        fitted, results = {}, {}
        calibration, test = (self._logged(task, purpose) for purpose in ("calibration", "test"))
        with _progress(console) as progress:
            for name in progress.track(METHODS, description="Calibrating and testing six methods"):
                tree = Tree(per_stratum=self.per_stratum, max_leaves=PlanningStudy.max_leaves)
                cap = method(name, task, task.strata, n_particles=self.particles, tree=tree, seed=self.seed)
                fitted[name] = cap.fit(*calibration)
                results[name] = cap.coverage(*test, self.alpha, rng=self.seed)
        return fitted, results

    def _logged(self, task: Marble, purpose: str) -> tuple[Floats, Floats]:
        """X (n, 8) and Y (n, 2) of transitions from random feasible states and actions."""
        rng = stream(self.seed, "demo", purpose)
        logs = [task.design_transitions("random", 1, rng)]
        while sum(len(log) for log in logs) < self.transitions:
            logs.append(task.design_transitions("random", 1, rng))
        X, Y = np.concatenate([log.X for log in logs]), np.concatenate([log.Y for log in logs])
        return X[: self.transitions], Y[: self.transitions]

    def _study(self, methods: tuple[str, ...]) -> PlanningStudy:
        shared = {name: getattr(self, name) for name in ("episodes", "samples", "alpha", "particles", "seed")}
        return PlanningStudy(maps=(self.map,), methods=methods, **shared)

    def _plan(self, cap: Capture, task: Marble, name: str, console: Console) -> list[Episode]:
        study = self._study((name,))
        with _progress(console) as progress:
            numbers = progress.track(range(self.episodes), description=f"Planning with {name}")
            return [study.play(Calibration(ROWS[name], task, cap), self.map, name, episode) for episode in numbers]

    def _write_report(
        self,
        report: Path,
        task: Marble,
        fitted: dict[str, Capture],
        rows: list[dict[str, Any]],
        planning: list[dict[str, Any]],
        episodes: dict[str, list[Episode]],
        console: Console,
    ) -> None:
        from capture_cp.studies.demo_page import DemoResults, write_demo_page

        results = DemoResults(self, task, fitted, rows, planning, episodes)
        with TemporaryDirectory() as scratch, _progress(console) as progress:
            write_demo_page(report, results, Path(scratch), progress)


def best_rival(map: str) -> str:
    """The method without strata that reaches the goal most often in the paper's Table 2."""
    printed = paper.Paper.of(MarbleOptions)
    return max(RIVALS, key=lambda name: (printed.planning(map, name) or (0.0,))[0])


def _progress(console: Console) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
