"""The horizon study of any task: coverage of regions several steps ahead.

It compares three kinds on the same test rollouts: the paper's recursion, regions calibrated for each step, and regions
calibrated for all steps at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import Floats, confidence_level, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import Cloud, count_cells, within
from capture_cp.capture.region_draws import batch_volumes, has_grid
from capture_cp.conformal.coverage import CoverageRow, HorizonCoverage, horizon_coverage
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.data.parts import run_parts
from capture_cp.data.rollouts import Rollouts
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot
from capture_lab.studies.montecarlo import unit_of
from capture_lab.studies.study import FigureFolder, Jobs, RowsFile, Seed, Study, check_settings
from capture_lab.tasks.task import CALIBRATION, TEST, Advance, Task

Found = Mapping[str, Mapping[str, HorizonCoverage]]  # by place and kind of regions

RECURSION, EACH, ALL = "recursion", "each step", "all steps"

CAPTION = (
    "Percentage of {test:,} test rollouts inside their regions, target {target:g};\n"
    "below it the exact 95% interval for the test draw. {unit}: mean per region,\n"
    "over the steps of {volume:,} rollouts. recursion: one-step thresholds, from\n"
    "{single:,} transitions, along the horizon, as in the paper; each step and\n"
    "all steps: thresholds from {calibration:,} rollouts."
)


@dataclass(frozen=True)
class HorizonStudy(Study):
    """Measure the coverage of regions along a horizon: the paper's recursion, and regions calibrated on rollouts.

    Rollouts start where calibration transitions start. Actions are drawn at random, by default a new one each step.
    Calibration and test rollouts are separate draws from the true system. The recursion is calibrated on as many
    transitions as the rollouts contain, with the same score and trees.
    """

    command = "horizon"

    horizon: Annotated[int, tyro.conf.arg(help="Number of steps H of a rollout.")] = 6
    calibration: Annotated[int, tyro.conf.arg(help="Calibration rollouts per place.")] = 10_000
    test: Annotated[int, tyro.conf.arg(help="Test rollouts per place.")] = 5_000
    volume: Annotated[int, tyro.conf.arg(help="Measure the region volumes of this many test rollouts; 0 for none.")] = 100
    hold: Annotated[int, tyro.conf.arg(help="Number of steps for which an action is held; 1 draws a new one each step.")] = 1
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest rollouts per leaf of a tree.")] = 300
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Largest number of leaves per tree.")] = 20
    particles: Annotated[int, tyro.conf.arg(help="Number of particles L; k is L/2.")] = 16
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate.")] = 0.1
    confidence: Annotated[
        float | None,
        tyro.conf.arg(
            help="Fraction of calibrations that must not undercover, such as 0.95; by default no such requirement."
        ),
    ] = None
    jobs: Jobs = 1
    seed: Seed = 0
    json: RowsFile = None
    figures: FigureFolder = None

    def run(self, console: Console) -> None:
        """Run the study and print its table."""
        tasks = self.checked_places()
        with progress_bar() as progress:
            bar = progress.add_task("places", total=len(tasks))
            # a bar of the simulated steps cannot be advanced from other processes
            advance = advancing(progress, "simulated steps", None) if self.jobs == 1 else None
            found = {}
            work = partial(self._measure_part, list(tasks.values()), advance)
            for name, (_, coverage) in zip(tasks, run_parts(work, range(len(tasks)), self.jobs)):
                found[name] = coverage
                progress.advance(bar)
        console.print(self._table(found, unit_of(next(iter(tasks.values())))))
        if self.json is not None:
            write_rows(self.json, self._rows(found), self)
        if self.figures is not None:
            file = output_folder(self.figures) / f"horizon-{self.task.name}.png"
            figure = coverage_figure(found)
            figure.savefig(file, dpi=130)
            pyplot().close(figure)
            console.print(f"Figure: {file}", markup=False)

    def checked_places(self) -> Mapping[str, Task]:
        """The tasks by place, all settings checked."""
        counts = ("horizon", "calibration", "test", "hold", "min_leaf", "particles", "jobs")
        check_settings(self, counts, (self.figures,))
        whole_number("volume", self.volume, 0)
        confidence_level(self.confidence)
        places: Mapping[str, Task] = self.task.places()
        return places

    def measure(self, task: Task, advance: Advance | None = None) -> dict[str, HorizonCoverage]:
        """The three kinds of regions in one place."""
        score = NearestParticles(max(1, self.particles // 2), task.metric)
        seed, tree = task.seed_here(self.seed), Tree(min_leaf=self.min_leaf, max_leaves=self.max_leaves)
        parts = score, tree, self.particles, seed
        calibration, test = (
            task.rollouts(self.seed, purpose, n, self.horizon, self.hold, advance)
            for purpose, n in ((CALIBRATION, self.calibration), (TEST, self.test))
        )
        cap = HorizonCapture(task.model_step, task.strata, task.axes, *parts).fit(calibration)
        single = task.single_steps(self.seed, self.calibration * self.horizon, advance)
        one = Capture(task, task.strata, *parts).fit(*single)
        return compare(one, cap, test, self.alpha, self.confidence, self.volume, stream(seed, "predictions"))

    def _measure_part(self, tasks: Sequence[Task], advance: Advance | None, number: int) -> dict[str, HorizonCoverage]:
        return self.measure(tasks[number], advance)

    def _rows(self, found: Found) -> list[dict[str, Any]]:
        """JSON rows of every place, kind of regions, step and stratum."""
        return [
            row
            for place, kinds in found.items()
            for kind, coverage in kinds.items()
            for row in coverage.rows(task=self.task.name, map=place, method=kind)
        ]

    def _table(self, found: Found, unit: str) -> Table:
        """Coverage of all steps at once and of each, and mean cells or volume of a region, by place and kind of regions."""
        caption = CAPTION.format(
            unit=unit.capitalize(),
            test=self.test,
            target=100 * (1 - self.alpha),
            volume=min(self.volume, self.test),
            single=self.calibration * self.horizon,
            calibration=self.calibration,
        )
        title = f"{self.task.name}: regions over {self.horizon} steps"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("regions", no_wrap=True)
        for column in ("all steps", *(f"h={h}" for h in range(1, self.horizon + 1)), unit):
            table.add_column(column, justify="right", no_wrap=True)
        for place, kinds in found.items():
            table.add_section()
            table.add_row(place)
            for kind, coverage in kinds.items():
                whole = coverage.together
                form = ",.0f" if unit == "cells" else ".3g"
                cells = "-" if whole.volume is None else f"{whole.volume / self.horizon:{form}}"
                each = [f"{100 * at.all.coverage:.1f}" for _, at in coverage]
                table.add_row(f"  {kind}", share_with_interval(int(whole.covered), whole.n), *each, cells)
        return table


def compare(
    one: Capture,
    cap: HorizonCapture,
    test: Rollouts,
    alpha: float,
    confidence: float | None,
    volume: int,
    rng: np.random.Generator,
) -> dict[str, HorizonCoverage]:
    """Coverage of the three; region cells, or without a grid volumes, are those of the first `volume` rollouts.

    The recursion asks a one-step calibration `one` at the particles' mean and the action, all along the horizon, with the
    same particles, which are drawn from `rng`.
    """
    clouds = cap.predict(test.starts, test.actions, rng)
    thresholds = {
        RECURSION: np.stack([one.thresholds(cloud.x, alpha, confidence) for cloud in clouds], axis=1),
        EACH: cap.thresholds(clouds, alpha, confidence=confidence),
        ALL: cap.thresholds(clouds, alpha, simultaneous=True, confidence=confidence),
    }
    sizes = {
        name: _sizes(cap, [Cloud(cloud.x[:volume], cloud.particles[:volume]) for cloud in clouds], q[:volume], rng)
        for name, q in thresholds.items()
    }
    return {name: _coverage(cap, clouds, q, test, alpha, sizes[name], name == ALL) for name, q in thresholds.items()}


def _coverage(
    cap: HorizonCapture,
    clouds: Sequence[Cloud],
    q: Floats,
    test: Rollouts,
    alpha: float,
    sizes: Floats | None,
    simultaneous: bool,
) -> HorizonCoverage:
    labels = cap.feasible_labels(test)
    inside = within(cap.score_, clouds, q, test.configurations_at(cap.steps_), labels)
    return horizon_coverage(alpha, simultaneous, cap.steps_, inside, labels, list(cap.strata.names), sizes, None)


def _sizes(cap: HorizonCapture, clouds: Sequence[Cloud], q: Floats, rng: np.random.Generator) -> Floats | None:
    """Mean cells of regions of thresholds q (v, S, M) by step and stratum (S, M), volumes without a grid; None of none."""
    if not len(q):
        return None
    if has_grid(cap.strata):
        return np.asarray(count_cells(cap.score_, clouds, q, cap.strata).mean(axis=0))
    nothing = np.full((len(q), 1), -1.0)  # is infeasible
    means = [
        batch_volumes(cap.score_, cloud.particles, np.hstack([q[:, s], nothing]), cap.strata, cap.n_outputs_, rng)
        for s, cloud in enumerate(clouds)
    ]
    return np.stack([found[:, :-1].mean(axis=0) for found in means])


_LOOKS = {
    RECURSION: (STRATA_COLOURS[2], "^", "recursion, as in the paper"),
    EACH: (STRATA_COLOURS[0], "o", "for each step"),
    ALL: (STRATA_COLOURS[1], "s", "for all steps at once"),
}


def coverage_figure(found: Found) -> Any:
    """Coverage against the step, and of all steps at once, one panel per place; whiskers are 95% intervals."""
    plt = pyplot()
    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    size = (max(3.2 * columns, 6.0), 2.4 * lines + 0.5)
    figure, panels = plt.subplots(
        lines, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, (name, methods) in zip(panels.ravel(), found.items()):
        _panel(panel, name, methods)
    for panel in panels.ravel()[len(found) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("coverage, %")
    for panel in panels[-1]:
        panel.set_xlabel("step")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _panel(panel: Any, name: str, methods: Mapping[str, HorizonCoverage]) -> None:
    for method, coverage in methods.items():
        colour, marker, label = _LOOKS[method]
        looks = {"color": colour, "marker": marker, "ms": 4, "lw": 1.4}
        steps, rows = list(coverage.steps), [at.all for _, at in coverage]
        panel.errorbar(steps, [100 * row.coverage for row in rows], _whiskers(rows), label=label, **looks)
        together = coverage.together
        panel.errorbar([steps[-1] + 1], [100 * together.coverage], _whiskers([together]), **looks)
    panel.axhline(100 * (1 - coverage.alpha), color="#222222", lw=0.8, ls="--")
    panel.axvline(steps[-1] + 0.5, color="#cccccc", lw=0.8)
    panel.set_title(name, fontsize=9)
    panel.set(ylim=(0, 103), xticks=[*steps, steps[-1] + 1], xticklabels=[*steps, "all"])
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _whiskers(rows: Sequence[CoverageRow]) -> Floats:
    """How far the 95% intervals reach below and above, in percentage points: (2, rows)."""
    ends = np.array([row.ci95 for row in rows]).T
    return np.asarray(100 * np.abs(ends - [row.coverage for row in rows]))
