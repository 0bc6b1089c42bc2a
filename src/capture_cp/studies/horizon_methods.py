"""Three ways to regions along a horizon, on the same test roll-outs: the paper's recursion, each step, all steps at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import Cloud, count_cells, within
from capture_cp.conformal.coverage import CoverageRow, HorizonCoverage, horizon_coverage
from capture_cp.data.rollouts import Rollouts
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot

Found = Mapping[str, Mapping[str, HorizonCoverage]]  # by map (or system) and method

RECURSION, EACH, ALL = HORIZON_METHODS = ("recursion", "each step", "all steps")


def compare(
    one: Capture,
    cap: HorizonCapture,
    test: Rollouts,
    alpha: float,
    confidence: float | None,
    volume: int,
    rng: np.random.Generator,
) -> dict[str, HorizonCoverage]:
    """Coverage of the three; region cells are counted for the first `volume` roll-outs.

    The recursion asks a one-step calibration `one` at the particles' mean and the action, all along the horizon, with the
    same particles, which are drawn from `rng`.
    """
    clouds = cap.predict(test.starts, test.actions, rng)
    thresholds = {
        RECURSION: np.stack([one.thresholds(cloud.x, alpha, confidence) for cloud in clouds], axis=1),
        EACH: cap.thresholds(clouds, alpha, confidence=confidence),
        ALL: cap.thresholds(clouds, alpha, simultaneous=True, confidence=confidence),
    }
    return {name: _coverage(cap, clouds, q, test, alpha, volume, name == ALL) for name, q in thresholds.items()}


def _coverage(
    cap: HorizonCapture, clouds: Sequence[Cloud], q: Floats, test: Rollouts, alpha: float, volume: int, simultaneous: bool
) -> HorizonCoverage:
    labels = cap.feasible_labels(test)
    inside = within(cap.score_, clouds, q, test.configurations_at(cap.steps_), labels)
    first = [Cloud(cloud.x[:volume], cloud.particles[:volume]) for cloud in clouds]
    cells = count_cells(cap.score_, first, q[:volume], cap.strata).mean(axis=0) if volume else None
    return horizon_coverage(alpha, simultaneous, cap.steps_, inside, labels, list(cap.strata.names), cells, None)


CAPTION = (
    "Per cent of {test:,} test roll-outs inside their regions, target {target:g};\n"
    "below it the exact 95 % interval for the test draw. Cells: mean of a region\n"
    "over the steps of {volume:,} roll-outs. recursion: one-step thresholds, from\n"
    "{single:,} transitions, along the horizon, as in the paper; each step and\n"
    "all steps: thresholds from {calibration:,} roll-outs."
)


def report(study: Any, found: Found, console: Console) -> None:
    """Print the table of a horizon study, and write what it was asked to write."""
    caption = CAPTION.format(
        test=study.test,
        target=100 * (1 - study.alpha),
        volume=min(study.volume, study.test),
        single=study.calibration * study.horizon,
        calibration=study.calibration,
    )
    console.print(table_of(f"{study.task}: regions over {study.horizon} steps", caption, found))
    if study.json is not None:
        write_rows(study.json, rows_of(study.task, found), study)
    if study.figures is not None:
        file = output_folder(study.figures) / f"horizon-{study.task}.png"
        figure = coverage_figure(found)
        figure.savefig(file, dpi=130)
        pyplot().close(figure)
        console.print(f"Figure: {file}", markup=False)


def rows_of(task: str, found: Found) -> list[dict[str, Any]]:
    """JSON rows of every map (or system), method, step and stratum."""
    return [
        row
        for name, methods in found.items()
        for method, coverage in methods.items()
        for row in coverage.rows(task=task, map=name, method=method)
    ]


def table_of(title: str, caption: str, found: Found) -> Table:
    """Coverage of all steps at once and of each, and the mean cells of a region, a row a map (or system) and method."""
    table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    steps = next(iter(next(iter(found.values())).values())).steps
    table.add_column("regions", no_wrap=True)
    for column in ("all steps", *(f"h={h}" for h in steps), "cells"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, methods in found.items():
        table.add_section()
        table.add_row(name)
        for method, coverage in methods.items():
            whole = coverage.together
            cells = "-" if whole.volume is None else f"{whole.volume / len(steps):,.0f}"
            each = [f"{100 * at.all.coverage:.1f}" for _, at in coverage]
            table.add_row(f"  {method}", share_with_interval(int(whole.covered), whole.n), *each, cells)
    return table


_LOOKS = {
    RECURSION: (STRATA_COLOURS[2], "^", "recursion, as in the paper"),
    EACH: (STRATA_COLOURS[0], "o", "for each step"),
    ALL: (STRATA_COLOURS[1], "s", "for all steps at once"),
}


def coverage_figure(found: Found) -> Any:
    """Coverage against the step, and of all steps at once, a panel a map (or system); whiskers are 95 % intervals."""
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
    """How far the 95 % intervals reach below and above, in per cent: (2, rows)."""
    ends = np.array([row.ci95 for row in rows]).T
    return np.asarray(100 * np.abs(ends - [row.coverage for row in rows]))
