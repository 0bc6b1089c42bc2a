"""Coverage and volume against the number of calibration transitions: the study that the paper leaves to future work."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.base.progress import progress_bar
from capture_cp.base.streams import stream
from capture_cp.report.output import output_folder, write_rows
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot
from capture_lab.studies.montecarlo import unit_of
from capture_lab.tasks.task import Task, TestSet

if TYPE_CHECKING:
    from capture_lab.studies.coverage import CoverageStudy

#: Random subsets of each size: one alone would show the luck of its draw.
SUBSETS = 5
TEST_INPUTS = 8192
#: Inputs whose regions have their volumes estimated by default where there is no grid: so many for every subset.
VOLUMES = 100


def run_sizes(study: CoverageStudy, tasks: Mapping[str, Task], tests: Mapping[str, TestSet], console: Console) -> None:
    """Fit on random subsets of each size, count coverage on the same test inputs, print and draw it."""
    unit = unit_of(next(iter(tasks.values())))
    if study.volume is None and unit != "cells":
        study = replace(study, volume=VOLUMES)
    rows = [row for name, task in tasks.items() for row in _measure(study, name, task, tests[name])]
    console.print(_table(rows, unit))
    if study.json is not None:
        write_rows(study.json, rows, study)
    if study.figures is not None:
        file = output_folder(study.figures) / "calibration-size.png"
        _draw(rows, study.alpha, file, unit)
        console.print(f"Figure: {file}", markup=False)


def _measure(study: CoverageStudy, name: str, task: Task, test: TestSet) -> list[dict[str, Any]]:
    rng = stream(task.seed_here(study.seed), "subsets")
    data = task.calibration(study.seed, study.calibration)
    if max(study.sizes) > len(data):
        raise CaptureError(f"{name} has {len(data):,} calibration transitions; sizes go up to {max(study.sizes):,}.")
    some = test.some(rng.permutation(len(test.X))[:TEST_INPUTS])
    rows = []
    jobs = [(size, subset) for size in study.sizes for subset in range(SUBSETS)]
    with progress_bar() as progress:
        for size, subset in progress.track(jobs, description=f"{name}: sizes"):
            chosen = rng.permutation(len(data))[:size]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CaptureWarning)  # groups too small for alpha are what this study is about
                caps = study.fit(task, data.rows(chosen))
                [counts] = study.count(caps, task, some, [slice(0, len(some.X))])
            labels = {"task": task.name, "map": name, "calibration": size, "subset": subset}
            for method, counted in counts.items():
                found = counted.coverage(study.alpha, task.regimes).rows(**labels, method=method)
                rows += [row for row in found if row["stratum"] in ("all", *task.reported)]
    return rows


def _select(rows: list[dict[str, Any]], key: str, **wanted: Any) -> Any:
    return np.array([row[key] for row in rows if all(row[name] == value for name, value in wanted.items())], float)


def _unique(rows: list[dict[str, Any]], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _table(rows: list[dict[str, Any]], unit: str) -> Table:
    strata, form = _unique(rows, "stratum"), ".1f" if unit == "cells" else ".3g"
    table = Table(
        title="Coverage (%) against calibration size",
        caption=f"Mean of {SUBSETS} random subsets, then their lowest and highest. Volume: mean {unit} per region.",
    )
    for column in ("place", "method", "transitions"):
        table.add_column(column)
    for column in (*strata, "volume"):
        table.add_column(column, justify="right")
    for name in _unique(rows, "map"):
        for method in _unique(rows, "method"):
            for size in _unique(rows, "calibration"):
                here = {"map": name, "method": method, "calibration": size}
                cells = [_spread(100 * _select(rows, "coverage", stratum=stratum, **here)) for stratum in strata]
                table.add_row(
                    name, method, f"{size:,}", *cells, _spread(_select(rows, "volume", stratum="all", **here), form)
                )
    return table


def _spread(values: Any, form: str = ".1f") -> str:
    return f"{np.mean(values):{form}}\n[dim]{np.min(values):{form}}-{np.max(values):{form}}[/dim]"


def _draw(rows: list[dict[str, Any]], alpha: float, file: Any, unit: str) -> None:
    maps, methods, sizes = (_unique(rows, key) for key in ("map", "method", "calibration"))
    strata = [stratum for stratum in _unique(rows, "stratum") if stratum != "all"]
    plt = pyplot()
    figure, panels = plt.subplots(
        2,
        len(maps) * len(methods),
        figsize=(4 * len(maps) * len(methods), 6),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for column, (name, method) in enumerate((name, method) for name in maps for method in methods):
        upper, lower = panels[:, column]
        for stratum, colour, marker in zip(strata, STRATA_COLOURS, "os^Dv"):
            found = [
                100 * _select(rows, "coverage", map=name, method=method, calibration=size, stratum=stratum) for size in sizes
            ]
            _band(upper, sizes, found, colour, marker, stratum)
        upper.axhline(100 * (1 - alpha), color="black", lw=0.8, ls="--")
        volumes = [_select(rows, "volume", map=name, method=method, calibration=size, stratum="all") for size in sizes]
        _band(lower, sizes, volumes, "black", "o", "all strata")
        lower.set(xscale="log", xlabel="calibration transitions")
        upper.set_title(f"{name}: {method}")
    panels[0, 0].set_ylabel("coverage (%)")
    panels[1, 0].set_ylabel("mean region volume" + (" (cells)" if unit == "cells" else ""))
    panels[0, 0].legend(fontsize=8)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _band(axis: Any, sizes: list[int], found: list[Any], colour: str, marker: str, label: str) -> None:
    axis.fill_between(sizes, [v.min() for v in found], [v.max() for v in found], color=colour, alpha=0.2, lw=0)
    axis.plot(sizes, [v.mean() for v in found], color=colour, marker=marker, markersize=4, label=label)
