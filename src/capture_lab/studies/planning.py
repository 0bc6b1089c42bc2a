"""The planning study: how often each method's planner succeeds on the true system, and the coverage of its regions there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.capture.methods import METHODS
from capture_cp.certificates.certificate import Certificate
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import chosen_device
from capture_cp.planning.episode import Episode, episode_seeds
from capture_lab.studies import study
from capture_lab.studies.paper import Paper
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.planning_rows import mean_table, on_policy_table, planning_row, planning_table, summary
from capture_lab.studies.study import write_results
from capture_lab.tasks.candidates import CandidateRow, fingerprints
from capture_lab.tasks.recorded import recorded_info
from capture_lab.tasks.rows import FittedRow, Row, fit_row, part_of, practised
from capture_lab.tasks.task import PLANNER, Advance, Task

#: Summaries of episodes by place and row.
Results = Mapping[tuple[str, str], list[Any]]


@dataclass(frozen=True)
class PlanningStudy(study.Study):
    """Plan in closed loop on a task: MPPI with the regions of each method, on the true system.

    Each step plans with the approximate model, builds regions for the sampled steps, adds a cost for hazards that they
    touch, and executes the first action on the true system. The paper's figures are printed next to ours where there are
    any.
    """

    command: ClassVar[str] = "plan"
    unimportant = study.Study.unimportant | {"methods", "episodes", "certificate", "vary"}

    methods: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help="Methods to compare; also capture-horizon, capture-online, and capture-...-residual for a corrected model."
        ),
    ] = METHODS
    episodes: Annotated[int, tyro.conf.arg(help="Closed-loop episodes per place and method.")] = 30
    samples: Annotated[int, tyro.conf.arg(help="Sampled action sequences per plan.")] = PLANNER.samples
    horizon: Annotated[int, tyro.conf.arg(help="Number of steps of a plan.")] = PLANNER.horizon
    temperature: Annotated[float | None, tyro.conf.arg(help="Temperature of MPPI, by default each method's own.")] = None
    weights: Annotated[Any, tyro.conf.Suppress] = None
    max_leaves: study.MaxLeaves = 20
    min_leaf: Annotated[int | None, tyro.conf.arg(help="Fewest transitions per leaf, by default the task's setting.")] = None
    max_depth: Annotated[int | None, tyro.conf.arg(help="Largest depth of a tree, by default the task's setting.")] = None
    particles: study.Particles = 16
    k: Annotated[
        int | None, tyro.conf.arg(help="The score is the distance to the k-th nearest particle, by default L/2.")
    ] = None
    calibration: study.Calibration = 1.0
    alpha: study.Alpha = 0.1
    vary: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME=V1,V2", help="Plan again for each of these values of an option of this page."),
    ] = None
    certificate: Annotated[Path | None, tyro.conf.arg(help="Only run the planner that this certificate was issued for.")] = (
        None
    )
    device: study.OnDevice = "cpu"
    jobs: study.Jobs = 1
    seed: study.Seed = 0
    state: study.StateFolder = None
    json: study.RowsFile = None
    record: study.RecordFolder = None
    figures: study.FigureFolder = None

    def run(self, console: Console) -> None:
        """Play the episodes and print their tables."""
        if self.vary is not None:
            from capture_lab.studies.varied import run_varied

            run_varied(self, console)
            return
        tasks = self.tasks()
        results = self.results(tasks, console)
        rows = [self.row(place, name, found) for (place, name), found in results.items()]
        for place, task in tasks.items():
            console.print(self.table(task.place, [row for row in rows if row["map"] == place]))
        if len(tasks) > 1:
            console.print(mean_table(rows))
        console.print(on_policy_table(rows))
        drawing = next(iter(tasks.values())).drawing
        write_results(self, rows, console, lambda folder: drawing().planning_figures(self, tasks, results, folder))

    def tasks(self) -> dict[str, Task]:
        """The tasks by the names of their places, all settings checked."""
        finished = self.device == "cuda" and self.state is not None  # may be read without a GPU, see `_missing`
        chosen_device("auto" if finished else self.device)
        tasks = dict(self.task.places())
        one = next(iter(tasks.values()))
        counts = ("episodes", "samples", "horizon", "jobs", "particles", "min_leaf", "max_leaves", "max_depth")
        study.check_settings(self, counts, one.rows)
        if self.k is not None and whole_number("k", self.k, 1) > self.particles:
            raise CaptureError(f"k is {self.k}; expected a number from 1 to the {self.particles} particles.")
        part_of(one.calibration_size, self.calibration)
        if self.certificate is not None:
            self._check_certificate(one)
        return tasks

    def _check_certificate(self, task: Task) -> None:
        """Reject a certificate for other settings than those of this study."""
        assert self.certificate is not None
        found = Certificate.load(self.certificate)
        if len(self.methods) != 1 or len(self.task.place_names) != 1:
            raise CaptureError("a certificate is for one planner in one place; give one method and one place.")
        candidate = CandidateRow.of(task, found.settings)
        asked = CandidateRow(self.planned_row(task, self.methods[0]), self.methods[0], self.alpha)
        found.require(candidate.settings)
        found.require(asked.settings)

    def planned_row(self, task: Task, name: str) -> Row:
        """A row of the table with this study's choices."""
        chosen = {key: getattr(self, key) for key in ("horizon", "samples", "temperature")}
        return task.rows[name].changed(chosen, self.weights)

    def fit(self, task: Task, name: str, practising: Advance | None = None) -> FittedRow:
        """A row of the table, calibrated in this place; `practising` is called with every run of practice."""
        limits = {"min_leaf": self.min_leaf, "max_depth": self.max_depth}
        own = {name: value for name, value in limits.items() if value is not None}
        tree = Tree(**(task.tree.get_params(deep=False) | {"max_leaves": self.max_leaves} | own))
        chosen = self.particles, tree, self.k, self.calibration
        fitted = fit_row(self.planned_row(task, name), task, self.seed, *chosen)
        if self.certificate is not None:
            Certificate.load(self.certificate).require(fingerprints=fingerprints(fitted, self.alpha))
        if not fitted.row.practice:
            return fitted
        return practised(fitted, task, self.alpha, self.seed, chosen_device(self.device), practising)

    def play(self, fitted: FittedRow, place: str, name: str, wanted: Sequence[int]) -> Iterator[Episode]:
        """Closed-loop runs of a calibrated row by their numbers, with the regions of their executed steps."""
        task = fitted.task
        seeds = [episode_seeds(self.seed, task.place, episode) for episode in wanted]
        runs = fitted.play(task.starts(self.episodes)[list(wanted)], self.alpha, seeds, self.device, self.jobs)
        for episode, run in zip(wanted, runs):
            yield replace(run, info=self.info(fitted, place, name, episode))

    # -- episodes -----------------------------------------------------------------------------------------------------

    def results(self, tasks: Mapping[str, Task], console: Console) -> dict[tuple[str, str], list[Any]]:
        """The summaries of every episode by place and method."""
        results = {}
        with progress_bar() as progress:
            bar = progress.add_task("episodes", total=len(tasks) * len(self.methods) * self.episodes)
            for place, task in tasks.items():
                for name in self.methods:
                    progress.update(bar, description=f"{task.place}: {name}")
                    practising = advancing(progress, "practice", task.rows[name].practice)
                    store = PartStore(self.state, f"plan-{task.slug}-{name}", self._identity(task, name))
                    play = partial(self._missing, task, place, name, practising)
                    results[place, name] = store.finished(range(self.episodes), play, partial(progress.advance, bar))
        return results

    def _missing(
        self, task: Task, place: str, name: str, practising: Advance, missing: list[int]
    ) -> Iterator[tuple[int, Any]]:
        """Summaries of the episodes that are not finished yet."""
        chosen_device(self.device)  # a missing GPU is reported before the row is calibrated
        for episode, run in zip(missing, self.play(self.fit(task, name, practising), place, name, missing)):
            if self.record is not None:
                run.save(self.record / f"{task.slug}-{name}-{episode:03d}.npz")
            yield episode, summary(run, task)

    def _identity(self, task: Task, name: str) -> dict[str, Any]:
        device = "cuda" if self.device == "cuda" else chosen_device(self.device)  # which have different random numbers
        return self.identity(task) | {"row": repr(self.planned_row(task, name)), "device": device}

    def info(self, fitted: FittedRow, place: str, name: str, episode: int) -> dict[str, Any]:
        """What is needed to make the task of an episode again, see `recorded_task`."""
        row, weights = fitted.row, {} if fitted.row.weights is None else asdict(fitted.row.weights)
        chosen = {"method": name, "episode": episode, "alpha": self.alpha, "k": self.k}
        return recorded_info(self.task, fitted.task, place) | chosen | asdict(row.planner) | weights

    def figure_data(self, figure: str, console: Console) -> Any:
        if figure.endswith("-horizon"):
            return None
        results = self.results(self.tasks(), console)  # every episode is in the folder `state` by now
        return [
            {"map": place, "method": name, "episodes": [{key: run[key] for key in ("outcome", "path")} for run in runs]}
            for (place, name), runs in results.items()
        ]

    # -- reporting ----------------------------------------------------------------------------------------------------

    def row(self, place: str, name: str, episodes: list[Any]) -> dict[str, Any]:
        """The JSON row of a place and method, from the summaries of its episodes."""
        return planning_row(self.task.name, place, name, episodes) | {"paper": Paper.of(self.task).planning(place, name)}

    def table(self, title: str, rows: list[dict[str, Any]]) -> Any:
        """The rows of one place as a table, next to the paper's figures."""
        return planning_table(f"{title}: {self.episodes} episodes", rows, Paper.of(self.task).planning_columns)
