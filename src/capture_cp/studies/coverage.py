"""The marble coverage study: the paper's Tables 1 and 5, and what lies beyond them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from capture_cp.base.checks import Floats, whole_number
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.report.output import cell_beside_paper, output_folder, write_rows
from capture_cp.studies import paper
from capture_cp.studies.marble_methods import PART, RESIDUAL, MarbleMethods
from capture_cp.studies.montecarlo import Counts, count
from capture_cp.studies.parts import PartStore, run_parts
from capture_cp.studies.study import check_settings
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.marble.task import Design, Marble

ALL_MAPS, PAPER = MarbleOptions.everywhere, paper.Paper.of(MarbleOptions)


@dataclass(frozen=True)
class CoverageStudy:
    """Empirical coverage of the methods on the marble labyrinth, by stratum of the realised next position.

    Every method is calibrated on the same transitions and model of each map. For each test input, Monte-Carlo next positions
    of the true system show how much of them the region holds. With the paper's figures beside ours (its Tables 1 and 5).
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = MAP_NAMES
    methods: Annotated[
        tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}, {RESIDUAL} (capture on a corrected model).")
    ] = paper.COVERAGE_METHODS
    mc: Annotated[int, tyro.conf.arg(help="Monte-Carlo next states per test input; the paper uses 10,000.")] = 10
    design: Annotated[Design, tyro.conf.arg(help="Calibration inputs: the paper's grid, or random feasible ones.")] = "grid"
    test_design: Annotated[
        Literal["same", "grid", "random"], tyro.conf.arg(help="Test inputs: as for calibration, or one of the two.")
    ] = "same"
    tree: Annotated[
        Literal["label", "per-stratum"],
        tyro.conf.arg(help="The paper's single tree on the stratum's number, or one tree a stratum (coverage by theorem)."),
    ] = "label"
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest transitions in a leaf while the tree grows.")] = 700
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Most leaves a tree; 7 gives the paper's volume ratios.")] = None
    particles: Annotated[int, tyro.conf.arg(help="Particles L; the k-th nearest is L/2, or 1 for capture-k1 and pcp.")] = 16
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate.")] = 0.1
    absorb: Annotated[bool, tyro.conf.arg(help="Pits and goal stop the marble, as in planning.")] = False
    device: Annotated[
        Device,
        tyro.conf.arg(help="Where outcomes are drawn and counted: cuda is an NVIDIA GPU, auto takes one if it is there."),
    ] = "cpu"
    jobs: Annotated[
        int, tyro.conf.arg(help="Processes (with a GPU: that calibrate maps); the results are the same for any number.")
    ] = 1
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    state: Annotated[Path | None, tyro.conf.arg(help="Folder for finished parts: the same command goes on from there.")] = (
        None
    )
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")] = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for figures of the maps and of regions.")] = None
    sizes: Annotated[
        tuple[int, ...], tyro.conf.arg(help="Instead: coverage and volume against these calibration sizes, and a figure.")
    ] = ()

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, console: Console) -> None:
        """Run the study and print its tables."""
        tasks = self.checked_tasks()
        if self.sizes:
            from capture_cp.studies.calibration_size import run_sizes

            run_sizes(self, tasks, console)
            return
        results = self._measure(tasks, console)
        for name, counts in results.items():
            console.print(self._table(name, tasks, counts))
        if self.json is not None:
            write_rows(self.json, self.rows(results, tasks), self)
        if self.figures is not None:
            caps = {name: self.recipe.calibrate(task) for name, task in tasks.items()}
            files = next(iter(tasks.values())).drawing().coverage_figures(self, tasks, caps, output_folder(self.figures))
            console.print(f"Figures: {', '.join(map(str, files))}", markup=False)

    def checked_tasks(self) -> dict[str, Marble]:
        """The maps by name, all settings checked."""
        folders = (self.figures, self.state)
        chosen_device(self.device)
        check_settings(self, ("mc", "jobs", "particles", "min_leaf"), folders, (*METHODS, RESIDUAL))
        for size in self.sizes:
            whole_number("sizes", size, 1)
        return {str(name): Marble(load_map(name), self.absorb) for name in self.maps}

    @property
    def recipe(self) -> MarbleMethods:
        """How the methods of a map are calibrated."""
        tree = Tree(per_stratum=self.tree == "per-stratum", min_leaf=self.min_leaf, max_leaves=self.max_leaves)
        return MarbleMethods(self.methods, self.design, tree, self.particles, self.seed)

    def test_inputs(self, task: Marble) -> Floats:
        """Test inputs (n, 8) of one map."""
        return task.design_inputs(
            self.design if self.test_design == "same" else self.test_design, self.recipe.rng(task, "test")
        )

    def count(
        self, caps: dict[str, Capture], task: Marble, X: Floats, parts: Sequence[int], size: int
    ) -> Iterator[tuple[int, dict[str, Counts]]]:
        """Number and counts of every part, the `size` test inputs of X (n, 8) from `part * size` on."""
        if chosen_device(self.device) == "cuda":
            from capture_cp.studies.montecarlo_cuda import CounterOnCuda

            return CounterOnCuda(caps, task, self.mc, self.recipe.seed_on(task), self.alpha).parts(X, parts, size)
        work = partial(_count_part, caps, task, X, self.mc, self.recipe.seed_on(task), self.alpha, size)
        return run_parts(work, parts, min(self.jobs, max(1, len(parts))))

    def _measure(self, tasks: dict[str, Marble], console: Console) -> dict[str, dict[str, Counts]]:
        inputs = {name: self.test_inputs(task) for name, task in tasks.items()}
        stores = {
            name: PartStore(self.state, f"coverage-{Path(name).stem}", self._identity(task)) for name, task in tasks.items()
        }
        done = {name: store.load() for name, store in stores.items()}
        missing = {name: [part for part in _parts(X) if part not in done[name]] for name, X in inputs.items()}
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("calibrating", total=sum(map(len, missing.values())))
            for name, caps in self._calibrated({name: task for name, task in tasks.items() if missing[name]}):
                progress.update(bar, description=f"{tasks[name].map.name}: counting")
                for part, counts in self.count(caps, tasks[name], inputs[name], missing[name], PART):
                    done[name][part] = {method: counted.to_json() for method, counted in counts.items()}
                    stores[name].add(part, done[name][part])
                    progress.advance(bar)
                progress.update(bar, description="calibrating")
        results = {name: _total([done[name][part] for part in _parts(X)], self.methods) for name, X in inputs.items()}
        if len(tasks) > 1:
            results[ALL_MAPS] = {
                name: sum((counts[name] for counts in results.values()), start=_nothing()) for name in self.methods
            }
        return results

    def _calibrated(self, tasks: dict[str, Marble]) -> Iterator[tuple[str, dict[str, Capture]]]:
        """The calibrated methods of each map; the processes of `jobs` are for this where a GPU counts."""
        if chosen_device(self.device) == "cuda":
            return self.recipe.calibrate_all(tasks, self.jobs)
        return ((name, self.recipe.calibrate(task)) for name, task in tasks.items())

    def _identity(self, task: Marble) -> dict[str, Any]:
        """Every setting that the counts depend on, and nothing else."""
        unimportant = ("maps", "device", "jobs", "state", "json", "figures", "sizes")
        settings = {key: value for key, value in asdict(self).items() if key not in unimportant}
        return settings | {"map": asdict(task.map), "part": PART, "version": version("capture-cp")}

    # -- reporting ----------------------------------------------------------------------------------------------------

    def rows(self, results: dict[str, dict[str, Counts]], tasks: dict[str, Marble]) -> list[dict[str, Any]]:
        """JSON rows of every map, method and stratum, with the paper's figure where there is one."""
        strata = next(iter(tasks.values())).strata.names
        rows = []
        for map_name, counts in results.items():
            for name, counted in counts.items():
                for row in counted.coverage(self.alpha, strata).rows(task="marble", map=map_name, method=name):
                    figure = PAPER.coverage(map_name, name, row["stratum"])
                    rows.append(row | {"paper": figure, "paper_volume_ratio": PAPER.volume_ratio(map_name, name)})
        return rows

    def _table(self, map_name: str, tasks: dict[str, Marble], counts: dict[str, Counts]) -> Table:
        strata = next(iter(tasks.values())).strata.names
        results = {name: counted.coverage(self.alpha, strata) for name, counted in counts.items()}
        inputs = next(iter(counts.values())).inputs
        title = tasks[map_name].map.name if map_name in tasks else "All maps"
        title = f"{title}: {inputs:,} test inputs x {self.mc:,} outcomes"
        table = Table(title=title, caption=CAPTION, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("stratum")
        for name in results:
            table.add_column(name, justify="right")
        first = next(iter(results.values()))
        for i, row in enumerate(first):
            cells = [
                cell_beside_paper(list(result)[i], PAPER.coverage(map_name, name, row.name))
                for name, result in results.items()
            ]
            table.add_row(row.name, *cells)
        table.add_section()
        table.add_row("volume", *(_volume(map_name, name, results) for name in results))
        return table


CAPTION = (
    "Coverage in per cent (the paper's in brackets), below it the 95 % interval over test inputs.\n"
    "Volume: mean cells as a ratio to capture (the paper's in brackets)."
)


def _count_part(
    caps: dict[str, Capture], task: Marble, X: Floats, mc: int, seed: int, alpha: float, size: int, part: int
) -> dict[str, Counts]:
    return count(caps, task, X[part * size : (part + 1) * size], mc, seed, part * size, alpha)


def _parts(X: Floats) -> range:
    return range(-(-len(X) // PART))


def _total(parts: list[dict[str, Any]], methods: tuple[str, ...]) -> dict[str, Counts]:
    return {name: sum((Counts.from_json(part[name]) for part in parts), start=_nothing()) for name in methods}


def _nothing() -> Counts:
    return Counts(0, np.zeros(()), np.zeros(()))


def _volume(map_name: str, name: str, results: dict[str, Coverage]) -> str:
    unit = results["capture"].all.volume if "capture" in results else None
    volume = results[name].all.volume
    figure = PAPER.volume_ratio(map_name, name)
    beside = "" if figure is None else f" ({figure:.2f})"
    if volume is None or not unit:
        return f"{volume:.1f} cells"
    ratio = volume / unit
    return f"{ratio:.2f}{beside}" if ratio >= 0.095 else f"{ratio:.2g}{beside}"
