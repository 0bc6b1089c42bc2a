"""The peg coverage study: the paper's Table 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from capture_cp.base.checks import Floats, Ints, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.coverage import Coverage, CoverageRow, tally
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.transitions import Transitions
from capture_cp.report.output import cell_beside_paper, output_folder, write_rows
from capture_cp.studies import paper
from capture_cp.studies.parts import kernel_threads
from capture_cp.studies.study import check_settings
from capture_cp.tasks.peg.cspace import REGIMES
from capture_cp.tasks.peg.data import PegData, peg_data
from capture_cp.tasks.peg.options import PegOptions
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import MIN_LEAF, PARTICLES, Peg, SystemName
from capture_cp.tasks.task import CALIBRATION, TEST

#: Inputs whose region cells are counted between two steps of the progress bar.
BLOCK = 500
PAPER, REPORTED = paper.Paper.of(PegOptions), ("all", "free", "point", "edge")


@dataclass(frozen=True)
class Result:
    """What one method came to: its calibration, coverage by regime, and the cells of the regions counted, (n,)."""

    cap: Capture
    coverage: Coverage
    cells: Floats


@dataclass(frozen=True)
class PegCoverageStudy:
    """Empirical coverage of the methods on peg insertion, by interaction regime of the realised next pose.

    Every method is calibrated on the same transitions of the true system, with the same model, and tested on transitions of
    their own. Simulated transitions are kept: a run that was stopped goes on, and the next one starts with its tables. With
    the paper's figures beside ours (its Table 3). Needs MuJoCo: pip install 'capture-cp[sim]'.
    """

    task: Annotated[Literal["peg"], tyro.conf.Suppress] = "peg"
    system: Annotated[SystemName, tyro.conf.arg(help="The true system: a peg on rails, or in the hand of a Panda arm.")] = (
        "planar"
    )
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}.")] = paper.COVERAGE_METHODS
    calibration: Annotated[int, tyro.conf.arg(help="Calibration transitions; the paper has 70,000.")] = 70_000
    test: Annotated[int, tyro.conf.arg(help="Test transitions; the paper has 90,000.")] = 90_000
    volume: Annotated[
        int, tyro.conf.arg(help="Test inputs whose region cells are counted, the first ones; 0 for no volumes.")
    ] = 3_000
    bound: Annotated[float, tyro.conf.arg(help="Largest action, a component (mm, mm, degrees).")] = PegSettings.bound
    noise: Annotated[float, tyro.conf.arg(help="Deviation of the actions' noise (mm, mm, degrees).")] = PegSettings.noise
    gain: Annotated[float, tyro.conf.arg(help="By which the true system stretches an action.")] = PegSettings.gain
    friction: Annotated[float, tyro.conf.arg(help="Of the true system; the model has none.")] = PegSettings.friction
    hole: Annotated[float, tyro.conf.arg(help="Diameter of the hole (mm); the peg has 7.986.")] = (
        PegSettings.hole_width * 1e3
    )
    trim: Annotated[
        float, tyro.conf.arg(help="Millimetres cut off both ends of the edges' tubes; 0 is the paper's, 1.5 tells more.")
    ] = 0.0
    tree: Annotated[
        Literal["per-stratum", "label", "features"],
        tyro.conf.arg(help="One tree a stratum, or a single one on the stratum's number (the paper's) or contact bits."),
    ] = "per-stratum"
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest transitions in a leaf while the tree grows.")] = MIN_LEAF
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Most leaves a tree.")] = None
    particles: Annotated[int, tyro.conf.arg(help="Particles L; the k-th nearest is L/2, or 1 for capture-k1 and pcp.")] = (
        PARTICLES
    )
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate.")] = 0.1
    device: Annotated[
        Device,
        tyro.conf.arg(help="Where model, scores and cells are computed: cuda is an NVIDIA GPU, auto takes one if any."),
    ] = "cpu"
    threads: Annotated[int | None, tyro.conf.arg(help="Threads, all cores unless told; the results do not change.")] = None
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    data: Annotated[Path | None, tyro.conf.arg(help="Folder that keeps the transitions, your cache unless told.")] = None
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")] = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for figures of spaces, contacts, starts and regions.")] = None

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, console: Console) -> None:
        """Run the study and print its table."""
        task = self.checked_task()
        with kernel_threads(self.threads):
            calibration, test = self.transitions(task, console)
            results = self.measure(task, calibration.transitions, test.transitions, console)
            console.print(self._table(results, calibration, test))
            if self.json is not None:
                write_rows(self.json, self.rows(results), self)
            if self.figures is not None:
                caps = {str(self.system): {name: result.cap for name, result in results.items()}}
                tasks, folder = {str(self.system): replace(task, folder=self.data)}, output_folder(self.figures)
                files = task.drawing().coverage_figures(self, tasks, caps, folder)
                console.print(f"Figures: {', '.join(map(str, files))}", markup=False)

    def checked_task(self) -> Peg:
        """The task, all settings checked."""
        counts = ("calibration", "test", "min_leaf", "particles")
        check_settings(self, counts if self.threads is None else (*counts, "threads"), (self.figures,))
        whole_number("volume", self.volume, 0)
        chosen_device(self.device)
        settings = PegSettings(
            hole_width=self.hole / 1e3, bound=self.bound, noise=self.noise, gain=self.gain, friction=self.friction
        )
        task = Peg(settings, self.system, self.trim / 1e3, device=self.device)
        task.true_system(self.threads)  # missing MuJoCo and sizes it cannot take are told now
        task.strata.sample_starts(1, np.random.default_rng(0))  # so is a bound that leaves no room for starts
        return task

    def transitions(self, task: Peg, console: Console) -> tuple[PegData, PegData]:
        """Calibration and test transitions, simulated or from disk."""
        wanted = {"calibration": (self.calibration, CALIBRATION), "test": (self.test, TEST)}
        data = {}
        with _progress(console) as progress:
            for name, (n, purpose) in wanted.items():
                bar = progress.add_task(f"{self.system}: {name} transitions", total=n)
                data[name] = peg_data(task, n, self.seed, purpose, self.threads, self.data, partial(progress.advance, bar))
        return data["calibration"], data["test"]

    def measure(self, task: Peg, calibration: Transitions, test: Transitions, console: Console) -> dict[str, Result]:
        """Every method, fitted to the same transitions and tested on the same others."""
        regimes = np.array([REGIMES.index(regime) for regime in task.strata.regimes])
        labels = task.strata.index(test.Y)
        counted = min(self.volume, self.test)
        tree = Tree(
            per_stratum=self.tree == "per-stratum",
            min_leaf=self.min_leaf,
            max_leaves=self.max_leaves,
            stratum_input="features" if self.tree == "features" else "label",
        )
        results = {}
        with _progress(console) as progress:
            for name in self.methods:
                bar = progress.add_task(f"{name}: calibrating, counting cells", total=max(counted, 1))
                cap = task.method(name, self.particles, tree, self.seed).set_params(device=self.device)
                cap.fit(calibration.X, calibration.Y)
                prediction = cap.predict(test.X, stream(self.seed, "peg", "predictions"))
                inside = cap.contains(test.X, test.Y, self.alpha, prediction=prediction, labels=labels)
                cells = np.empty((counted, len(regimes) + 1))
                for first in range(0, counted, BLOCK):
                    rows = slice(first, min(first + BLOCK, counted))
                    cells[rows] = cap.count_cells(test.X[rows], self.alpha, prediction=prediction[rows])
                    progress.advance(bar, rows.stop - first)
                coverage = _coverage(self.alpha, regimes[labels], inside, cells, regimes)
                results[name] = Result(cap, coverage, cells.sum(axis=1))
        return results

    # -- reporting ----------------------------------------------------------------------------------------------------

    def rows(self, results: Mapping[str, Result]) -> list[dict[str, Any]]:
        """JSON rows of every method and reported regime, with the paper's figures."""
        rows = []
        for name, result in results.items():
            ratio, interval = _ratio(result.cells, results["capture"].cells) if "capture" in results else (None, None)
            for row in result.coverage.rows(task="peg", map=self.system, method=name):
                if row["stratum"] in REPORTED:
                    volumes = {"volume_inputs": len(result.cells), "volume_ratio": ratio, "volume_ratio_ci95": interval}
                    figures = {
                        "paper": PAPER.coverage("planar", name, row["stratum"]),
                        "paper_volume_ratio": PAPER.volume_ratio("planar", name),
                    }
                    rows.append(row | figures | (volumes if row["stratum"] == "all" else {}))
        return rows

    def _table(self, results: Mapping[str, Result], calibration: PegData, test: PegData) -> Table:
        title = f"Peg insertion, {self.system}: {self.calibration:,} calibration, {self.test:,} test transitions"
        first = next(iter(results.values()))
        beyond = first.coverage["other"].n / first.coverage.all.n
        caption = CAPTION.format(
            counted=len(first.cells),
            beyond=beyond,
            pushed=calibration.pushed_out + test.pushed_out,
            all=self.calibration + self.test,
        )
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("regime")
        for name in results:
            table.add_column(name, justify="right")
        for regime in REPORTED:
            cells = [
                cell_beside_paper(_row(result.coverage, regime), PAPER.coverage("planar", name, regime))
                for name, result in results.items()
            ]
            table.add_row(regime, *cells)
        table.add_section()
        table.add_row("volume", *(_volume(name, results) for name in results))
        return table


CAPTION = (
    "Coverage in per cent (the paper's in brackets), below it the exact 95 % interval for the test draw.\n"
    "Volume: mean cells of {counted:,} regions as a ratio to capture (the paper's in brackets), 95 % interval.\n"
    "{beyond:.0%} of the landings touch in several places at once and count in the first row only.\n"
    "{pushed:,} of {all:,} landings overlapped by more than 0.01 mm² and were pushed out."
)


def _progress(console: Console) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=console, transient=True)


def _coverage(alpha: float, landed: Ints, inside: Any, cells: Floats, regimes: Ints) -> Coverage:
    """Coverage by regime: of `landed` (n,) those `inside` (n,); mean cells of (v, M + 1), infeasible ones last."""
    volumes, total = None, None
    if len(cells):
        mean = cells.mean(axis=0)
        volumes, total = np.bincount(regimes, weights=mean[:-1], minlength=len(REGIMES)), float(mean.sum())
    everything = CoverageRow("all", len(inside), int(inside.sum()), total)
    return Coverage(alpha, everything, tally(list(REGIMES), landed, inside, volumes, None), ())


def _row(coverage: Coverage, regime: str) -> CoverageRow:
    return coverage.all if regime == "all" else coverage[regime]


def _ratio(cells: Floats, unit: Floats) -> tuple[float | None, list[float] | None]:
    """Ratio of mean cells (n,) to those of another method for the same inputs, with its 95 % interval (delta method)."""
    if not len(cells) or not unit.mean():
        return None, None
    ratio = float(cells.mean() / unit.mean())
    half = 1.96 * float(np.std(cells - ratio * unit)) / (np.sqrt(len(cells)) * float(unit.mean()))
    return ratio, [ratio - half, ratio + half]


def _volume(name: str, results: Mapping[str, Result]) -> str:
    cells = results[name].cells
    if not len(cells):
        return "-"
    ratio, interval = _ratio(cells, results["capture"].cells) if "capture" in results else (None, None)
    if ratio is None or interval is None:
        return f"{cells.mean():,.0f} cells"
    figure = PAPER.volume_ratio("planar", name)
    beside = "" if figure is None else f" ({figure:.2f})"
    return f"{ratio:.2f}{beside}\n[dim]{interval[0]:.2f}-{interval[1]:.2f}[/dim]"
