"""The horizon study of any task: coverage of regions several steps ahead.

It compares three kinds on the same test rollouts: the paper's recursion, regions calibrated for each step, and regions
calibrated for all steps at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import Floats, confidence_level, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import Cloud, count_cells, within
from capture_cp.capture.region_draws import batch_volumes
from capture_cp.conformal.coverage import HorizonCoverage, horizon_coverage
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.data.parts import run_parts
from capture_cp.data.rollouts import Rollouts
from capture_cp.report.output import share_with_interval
from capture_cp.spaces.strata import has_grid
from capture_lab.studies.montecarlo import unit_of
from capture_lab.studies.study import (
    Alpha,
    FigureFolder,
    Jobs,
    MaxLeaves,
    Panel,
    Particles,
    Rows,
    RowsFile,
    Seed,
    Study,
    check_settings,
    percentages,
    plain_table,
    save_curves,
    write_results,
)
from capture_lab.tasks.task import CALIBRATION, TEST, Advance, Task

Found = Mapping[str, Mapping[str, HorizonCoverage]]  # by place and kind of regions

RECURSION, EACH, ALL = "recursion", "each step", "all steps"
LABELS = {RECURSION: "recursion, as in the paper", EACH: "for each step", ALL: "for all steps at once"}

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
    max_leaves: MaxLeaves = 20
    particles: Particles = 16
    alpha: Alpha = 0.1
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
            work = partial(self.measure, advance=advance)
            for name, (_, coverage) in zip(tasks, run_parts(work, list(tasks.values()), self.jobs)):
                found[name] = coverage
                progress.advance(bar)
        console.print(self._table(found, unit_of(next(iter(tasks.values())))))

        def draw(folder: Path) -> Iterator[Path]:
            yield save_curves(folder / f"horizon-{self.task.name}.png", *coverage_curves(found))

        write_results(self, self._rows(found), console, draw)

    def checked_places(self) -> Mapping[str, Task]:
        """The tasks by place, all settings checked."""
        counts = ("horizon", "calibration", "test", "hold", "min_leaf", "particles", "jobs")
        check_settings(self, counts)
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

    def _rows(self, found: Found) -> Rows:
        """JSON rows of every place, kind of regions, step and stratum."""
        every = [(place, kind, coverage) for place, kinds in found.items() for kind, coverage in kinds.items()]
        return [row for place, kind, at in every for row in at.rows(task=self.task.name, map=place, method=kind)]

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
        steps = [f"h={h}" for h in range(1, self.horizon + 1)]
        table = plain_table(title, ["regions"], ["all steps", *steps, unit], caption)
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
    some = [Cloud(cloud.x[:volume], cloud.particles[:volume]) for cloud in clouds]
    outcomes, labels, names = test.configurations_at(cap.steps_), cap.feasible_labels(test), list(cap.strata.names)
    found = {}
    for kind, q in thresholds.items():
        inside, sizes = within(cap.score_, clouds, q, outcomes, labels), _sizes(cap, some, q[:volume], rng)
        found[kind] = horizon_coverage(alpha, kind == ALL, cap.steps_, inside, labels, names, sizes, None)
    return found


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


def coverage_curves(found: Found) -> tuple[list[Panel], list[Any], str]:
    """Panels of coverage against the step, and of all steps at once, one per place; the steps, and what they are."""
    panels, steps = [], list[int]()
    for place, kinds in found.items():
        curves = {}
        for kind, coverage in kinds.items():
            steps, rows = list(coverage.steps), [at.all for _, at in coverage]
            counts = [(row.covered, row.n) for row in (*rows, coverage.together)]
            curves[LABELS[kind]] = percentages([*counts[:-1], (0, 0), counts[-1]])
        panels.append(Panel(f"{place}: coverage, %", curves, 100 * (1 - coverage.alpha)))
    return panels, [*steps, "", "all"], "step"
