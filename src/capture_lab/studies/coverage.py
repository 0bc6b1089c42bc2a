"""The coverage study of any task: how often the regions of each method contain the outcome, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.parts import run_parts
from capture_cp.data.transitions import Transitions
from capture_cp.report.output import MARGIN, cell_beside_paper
from capture_cp.spaces.strata import has_grid
from capture_lab.studies import study
from capture_lab.studies.montecarlo import REFERENCE, RESIDUAL, VOLUMES, Counts, Question, count, fit_methods, unit_of
from capture_lab.studies.paper import COVERAGE_METHODS, Paper
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.study import plain_table, write_results
from capture_lab.tasks.task import Advance, Task, TestSet

Found = Mapping[str, Mapping[str, Counts]]  # by place and method


@dataclass(frozen=True)
class CoverageStudy(study.Study):
    """Measure the coverage of each method on a task, by regime of the next configuration, and the volume of its regions.

    In each place, every method is calibrated on the same transitions with the same model. For each test input, next
    configurations are drawn from the true system, and the study counts how many are inside the region. The paper's figures
    are printed next to ours.
    """

    command = "coverage"
    unimportant = study.Study.unimportant | {"sizes"}

    methods: Annotated[
        tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}, {RESIDUAL} (capture on a corrected model).")
    ] = COVERAGE_METHODS
    mc: Annotated[int, tyro.conf.arg(help="Monte-Carlo next configurations per test input.")] = 10
    calibration: Annotated[
        int | None, tyro.conf.arg(help="Calibration transitions per place, by default all that the task has.")
    ] = None
    test: Annotated[int | None, tyro.conf.arg(help="Test inputs per place, by default all that the task has.")] = None
    volume: Annotated[
        int | None,
        tyro.conf.arg(
            help="Count the region cells of this many test inputs: by default all, 0 for none. Without a grid, volumes are "
            f"estimated, by default for {VOLUMES}."
        ),
    ] = None
    tree: Annotated[
        Literal["per-stratum", "label", "features"],
        tyro.conf.arg(
            help="One tree per stratum (coverage by theorem), or a single tree on the stratum's number (the paper's) or "
            "on its features."
        ),
    ] = "per-stratum"
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest transitions in a leaf while the tree grows.")] = 300
    max_leaves: study.MaxLeaves = 20
    max_depth: Annotated[int | None, tyro.conf.arg(help="Largest depth of a tree.")] = None
    particles: study.Particles = 16
    alpha: study.Alpha = 0.1
    device: study.OnDevice = "cpu"
    jobs: study.Jobs = 1
    seed: study.Seed = 0
    state: study.StateFolder = None
    json: study.RowsFile = None
    figures: study.FigureFolder = None
    sizes: Annotated[
        tuple[int, ...],
        tyro.conf.arg(help="Instead, measure coverage and volume for these calibration sizes, and draw a figure."),
    ] = ()

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, console: Console) -> None:
        """Run the study and print its tables."""
        tasks = self.checked_places()
        tests = self.tests(tasks, console)
        if self.sizes:
            from capture_lab.studies.varied import run_sizes

            run_sizes(self, tasks, tests, console)
            return
        found, caps = self.measure(tasks, tests, console)
        paper = Paper.of(self.task)
        for name in found:
            console.print(self.table(name, tasks, tests, found[name], paper))

        def draw(folder: Path) -> Iterable[Path]:
            every = caps | {name: self.calibrate(task) for name, task in tasks.items() if name not in caps}
            return next(iter(tasks.values())).drawing().coverage_figures(self, tasks, every, folder)

        write_results(self, self.rows(found, tasks, paper), console, draw)

    def checked_places(self) -> dict[str, Task]:
        """The tasks by place, all settings checked."""
        chosen_device(self.device)
        counts = ("mc", "calibration", "test", "particles", "min_leaf", "max_leaves", "max_depth", "jobs")
        study.check_settings(self, counts, (*METHODS, RESIDUAL))
        for size in self.sizes:
            whole_number("sizes", size, 1)
        if self.volume is not None:
            whole_number("volume", self.volume, 0)
        tasks = dict(self.task.places())
        for task in tasks.values():
            if task.logged_test and self.mc > 1:
                raise CaptureError(f"mc is {self.mc}; test transitions of {task.name} are recorded, expected at most 1.")
            if RESIDUAL in self.methods and type(task).corrected is Task.corrected:
                task.corrected(self.seed)  # explains why not
        return tasks

    def tests(self, tasks: Mapping[str, Task], console: Console) -> dict[str, TestSet]:
        """The test inputs, by place."""
        with progress_bar() as progress:
            bars = {name: advancing(progress, f"{name}: test transitions", self.test) for name in tasks}
            return {name: task.test(self.seed, self.test, bars[name]) for name, task in tasks.items()}

    def calibrate(self, task: Task, advance: Advance | None = None) -> dict[str, Capture]:
        """Every method, calibrated on transitions of one place."""
        return self.fit(task, task.calibration(self.seed, self.calibration, advance))

    def fit(self, task: Task, data: Transitions) -> dict[str, Capture]:
        """Every method, fitted to the same transitions of one place."""
        tree = Tree(
            per_stratum=self.tree == "per-stratum",
            min_leaf=self.min_leaf,
            max_leaves=self.max_leaves,
            max_depth=self.max_depth,
            stratum_input="features" if self.tree == "features" else "label",
        )
        device: Device = "cpu" if _draws_on_cuda(task) else self.device
        return fit_methods(task, self.methods, data, self.seed, self.particles, tree, device)

    def count(
        self, caps: Mapping[str, Capture], task: Task, test: TestSet, parts: Sequence[slice]
    ) -> Iterator[dict[str, Counts]]:
        """Counts of every part, some rows of the test inputs, in their order."""
        gridded = has_grid(task.strata)
        volume = VOLUMES if self.volume is None and not gridded else self.volume
        question = Question(self.mc, self.alpha, volume, self.seed)
        there = gridded and chosen_device(self.device) == "cuda" and test.draw is not None
        on_cuda = task.outcomes_on_cuda() if there else None
        if on_cuda is not None:
            from capture_lab.studies.montecarlo_cuda import CounterOnCuda

            return CounterOnCuda(caps, task, on_cuda, question).parts(test.X, parts)
        work = partial(count, caps, task, test, question)
        return (found for _, found in run_parts(work, parts, min(self.jobs, max(1, len(parts)))))

    def measure(
        self, tasks: Mapping[str, Task], tests: Mapping[str, TestSet], console: Console
    ) -> tuple[Found, dict[str, dict[str, Capture]]]:
        """Counts by place and method, and the methods of the places that were not finished before."""
        parts = {name: task.test_parts(len(tests[name].X)) for name, task in tasks.items()}
        stores = {name: PartStore(self.state, f"coverage-{Path(name).stem}", self.identity(tasks[name])) for name in tasks}
        unfinished = [tasks[name] for name, store in stores.items() if len(store.load()) < len(parts[name])]
        caps: dict[str, dict[str, Capture]] = {}
        with progress_bar() as progress:
            bar = progress.add_task("calibrating", total=sum(map(len, parts.values())))
            calibrated = self._calibrated(unfinished, advancing(progress, "calibration transitions", None))

            def work(name: str, missing: list[int]) -> Iterable[tuple[int, Any]]:
                caps[name] = next(calibrated)
                progress.update(bar, description=f"{tasks[name].place}: counting")
                found = self.count(caps[name], tasks[name], tests[name], [parts[name][part] for part in missing])
                return zip(missing, ({method: one.to_json() for method, one in counts.items()} for counts in found))

            done = {
                name: store.finished(range(len(parts[name])), partial(work, name), partial(progress.advance, bar))
                for name, store in stores.items()
            }
        found = {
            name: self._total([[Counts.from_json(part[method]) for method in self.methods] for part in some])
            for name, some in done.items()
        }
        if len(tasks) > 1:
            found[self.task.everywhere] = self._total([counts.values() for counts in found.values()])
        return found, caps

    def _calibrated(self, tasks: Sequence[Task], advance: Advance) -> Iterator[dict[str, Capture]]:
        """The calibrated methods of each task; the processes of `jobs` are for this where a GPU counts."""
        if chosen_device(self.device) == "cuda" and all(map(_draws_on_cuda, tasks)):
            return (caps for _, caps in run_parts(self.calibrate, tasks, self.jobs))
        return (self.calibrate(task, advance) for task in tasks)

    def _total(self, parts: Iterable[Iterable[Counts]]) -> dict[str, Counts]:
        """The counts of several parts or places together, by method."""
        return {name: reduce(add, counts) for name, counts in zip(self.methods, zip(*parts))}

    # -- reporting ----------------------------------------------------------------------------------------------------

    def rows(self, found: Found, tasks: Mapping[str, Task], paper: Paper) -> list[dict[str, Any]]:
        """JSON rows of every place, method and reported regime, with the paper's figures where there are any."""
        task = next(iter(tasks.values()))
        rows = []
        for place, counts in found.items():
            for name, counted in counts.items():
                ratio, interval = counted.volume_ratio(counts.get(REFERENCE))
                volumes = {"volume_inputs": counted.sized, "volume_ratio": ratio, "volume_ratio_ci95": interval}
                for row in counted.coverage(self.alpha, task.regimes).rows(task=task.name, map=place, method=name):
                    regime = row["stratum"]
                    if regime in ("all", *task.reported):
                        figures = {"paper": paper.coverage(place, name, regime)}
                        figures["paper_volume_ratio"] = paper.volume_ratio(place, name)
                        rows.append(row | figures | (volumes if regime == "all" else {}))
        return rows

    def figure_data(self, figure: str, console: Console) -> Any:
        tasks = dict(self.task.places())
        return next(iter(tasks.values())).drawing().figure_data(tasks, figure)

    def table(
        self,
        place: str,
        tasks: Mapping[str, Task],
        tests: Mapping[str, TestSet],
        counts: Mapping[str, Counts],
        paper: Paper,
    ) -> Table:
        """Coverage by regime and mean volume in one place, one column per method, next to the paper's figures."""
        task = next(iter(tasks.values()))
        found = {name: counted.coverage(self.alpha, task.regimes) for name, counted in counts.items()}
        first = next(iter(counts.values()))
        title = tasks[place].place if place in tasks else place.capitalize()
        title += f": {first.inputs:,} test inputs" + ("" if self.mc == 1 else f" x {self.mc:,} outcomes")
        caption = "\n".join(self._caption(place, task, tests, first, paper))
        table = plain_table(title, ["stratum" if task.regimes == task.strata.names else "regime"], found, caption)
        for regime in ("all", *task.reported):
            rows = {name: at.all if regime == "all" else at[regime] for name, at in found.items()}
            figures = {name: paper.coverage(place, name, regime) for name in rows}
            table.add_row(regime, *(cell_beside_paper(row, figures[name], 1 - self.alpha) for name, row in rows.items()))
        table.add_section()
        unit = unit_of(task)
        table.add_row("volume", *(_volume(name, counts, paper.volume_ratio(place, name), unit) for name in found))
        return table

    def _caption(self, place: str, task: Task, tests: Mapping[str, TestSet], counted: Counts, paper: Paper) -> Iterator[str]:
        theirs = " (the paper's in brackets)" if paper.sections else ""
        yield f"Coverage, %{theirs}, target {100 * (1 - self.alpha):g}, and below it the 95% interval over test inputs."
        yield f"▼ over {100 * MARGIN:g} points below the target, ▲ over {100 * MARGIN:g} above."
        if counted.sized and REFERENCE in self.methods:
            unit = unit_of(task)
            yield f"Volume: mean {unit} of {counted.sized:,} regions as a ratio to {REFERENCE}{theirs}, 95% interval."
        if others := set(task.regimes) - set(task.reported):
            columns = [task.regimes.index(name) for name in others]
            share = counted.sums[0, columns].sum() / counted.sums[0, -1]
            yield f"{share:.0%} of the outcomes are in other regimes and count in the first row only."
        if place in tests and tests[place].note:
            yield tests[place].note


def _draws_on_cuda(task: Task) -> bool:
    """Whether outcomes of a task can be drawn on a GPU; there the CPU calibrates its methods."""
    return type(task).outcomes_on_cuda is not Task.outcomes_on_cuda


def _volume(name: str, counts: Mapping[str, Counts], figure: float | None, unit: str) -> str:
    counted = counts[name]
    if not counted.sized:
        return "-"
    ratio, interval = counted.volume_ratio(counts.get(REFERENCE))
    if ratio is None or interval is None:
        mean = counted.cells.sum() / counted.sized
        return f"{mean:,.1f} cells" if unit == "cells" else f"{mean:.3g}" if np.isfinite(mean) else "infinite"
    beside = "" if figure is None else f" ({figure:.2f})"
    if ratio < 0.095:  # its interval would be wider than the column
        return f"{ratio:.2g}{beside}"
    return f"{ratio:.2f}{beside}\n[dim]{interval[0]:.2f}-{interval[1]:.2f}[/dim]"
