"""Studies repeated: `capture plan TASK --vary NAME=v1,v2`, and `capture coverage TASK --sizes n1 n2`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, CaptureWarning, Floats, known_name
from capture_cp.base.progress import progress_bar
from capture_cp.base.streams import stream
from capture_cp.report.output import share_with_interval
from capture_lab.studies.montecarlo import unit_of
from capture_lab.studies.planning_rows import covered, spread, successes
from capture_lab.studies.study import Panel, Rows, percentages, plain_table, save_curves, write_results
from capture_lab.tasks.task import Task, TestSet

if TYPE_CHECKING:
    from capture_lab.studies.coverage import CoverageStudy
    from capture_lab.studies.planning import PlanningStudy

CAPTION = (
    "Percentages with exact 95% intervals, all places together. Coverage: executed steps inside their\n"
    "first-step region; no guarantee applies to states that a planner chooses."
)
COUNTS = {"success": successes, "coverage": covered}
#: Random subsets of each size: one alone would show the luck of its draw.
SUBSETS = 5
TEST_INPUTS = 8192
#: Inputs whose regions have their volumes estimated by default where there is no grid: so many for every subset.
VOLUMES = 100


def run_varied(study: PlanningStudy, console: Console) -> None:
    """Plan with every value of the varied option; print, write and draw the rows of all values."""
    option, studies = varied(study)
    places = [one.tasks() for one in studies.values()]  # a wrong value is reported before anything is played
    rows, together = Rows(), Rows()
    for (value, one), tasks in zip(studies.items(), places):
        console.print(f"[dim]{option} = {value}[/dim]")
        found = one.results(tasks, console)
        everywhere = one.task.everywhere if len(tasks) > 1 else next(iter(tasks))
        for name in one.methods:
            found[everywhere, name] = [run for place in tasks for run in found[place, name]]
        here = [one.row(*where, episodes) | {"setting": option, "value": value} for where, episodes in found.items()]
        rows += here
        together += [row for row in here if row["map"] == everywhere]
    title = f"{option}: {study.episodes} episodes per value, method and place"
    table = plain_table(title, [option, "method"], [*COUNTS, "fell", "timed out", "steps"], CAPTION)
    for row in together:
        cells = [share_with_interval(*counted(row)) for counted in COUNTS.values()]
        cells += [f"{100 * row[share]:.1f}" for share in ("fell", "timed_out")]
        table.add_row(str(row["value"]), row["method"], *cells, spread(row["steps_mean"], row["steps_std"]))
    console.print(table)

    def draw(folder: Path) -> Iterator[Path]:
        own = {name: [row for row in together if row["method"] == name] for name in study.methods}
        panels = [
            Panel(f"{title}, %", {name: percentages(map(counted, some)) for name, some in own.items()})
            for title, counted in COUNTS.items()
        ]
        yield save_curves(folder / f"{study.task.name}-{option}.png", panels, list(studies), option)

    write_results(study, rows, console, draw)


def varied(study: PlanningStudy) -> tuple[str, dict[Any, PlanningStudy]]:
    """The varied option, and the study for each of its values: an option of the study, of its task or of the weights."""
    option, _, words = (study.vary or "").partition("=")
    if not words:
        raise CaptureError(f"vary is {study.vary!r}; expected an option and its values, such as k=4,8,12.")
    option, hidden = option.strip().lstrip("-").replace("-", "_"), study.unimportant | {"weights"}
    holders: dict[str, Any] = {"": study, "weights": study.weights, "task": study.task}
    known = {
        entry.name: part
        for part, holder in holders.items()
        for entry in (() if holder is None else fields(holder))
        if part or entry.name not in hidden
    }
    part = known[known_name("option", option, known)]
    kind = get_type_hints(type(holders[part]), include_extras=True)[option]
    values = [tyro.cli(kind, prog=f"--vary {option}", args=[word]) for word in words.split(",")]
    changed = {value: replace(holders[part], **{option: value}) for value in values}
    return option, {value: replace(study, **{part: one}) if part else one for value, one in changed.items()}


def run_sizes(study: CoverageStudy, tasks: Mapping[str, Task], tests: Mapping[str, TestSet], console: Console) -> None:
    """Fit on random subsets of each size, count coverage on the same test inputs; print, write and draw it."""
    unit = unit_of(next(iter(tasks.values())))
    if study.volume is None and unit != "cells":
        study = replace(study, volume=VOLUMES)
    rows = [row for name, task in tasks.items() for row in _sizes(study, name, task, tests[name])]
    strata = list(dict.fromkeys(row["stratum"] for row in rows))

    def ends(key: str, stratum: str, **labels: Any) -> Floats:
        """Mean, lowest and highest of the subsets."""
        found = [row[key] for row in rows if row["stratum"] == stratum and all(row[k] == v for k, v in labels.items())]
        return np.array([np.mean(found), min(found), max(found)])

    caption = f"Mean of {SUBSETS} random subsets, then their lowest and highest. Volume: mean {unit} per region."
    words = ["place", "method", "size"]
    table = plain_table("Coverage (%) by number of calibration transitions", words, [*strata, "volume"], caption)
    panels = []
    for place, method in dict.fromkeys((row["map"], row["method"]) for row in rows):
        sizes: list[dict[str, Any]] = [{"map": place, "method": method, "calibration": size} for size in study.sizes]
        shares = {name: 100 * np.array([ends("coverage", name, **at) for at in sizes]).T for name in strata}
        volumes = np.array([ends("volume", "all", **at) for at in sizes]).T
        for number, size in enumerate(study.sizes):
            cells = [_cell(found[:, number], ".1f") for found in shares.values()]
            table.add_row(place, method, f"{size:,}", *cells, _cell(volumes[:, number], ".1f" if unit == "cells" else ".3g"))
        panels.append(Panel(f"{place}, {method}: coverage, %", shares, 100 * (1 - study.alpha)))
        panels.append(Panel(f"{place}, {method}: {unit} per region", {"all": volumes}))
    console.print(table)

    def draw(folder: Path) -> Iterator[Path]:
        yield save_curves(folder / "calibration-size.png", panels, study.sizes, "calibration transitions", 2)

    write_results(study, rows, console, draw)


def _sizes(study: CoverageStudy, name: str, task: Task, test: TestSet) -> Rows:
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


def _cell(ends: Floats, form: str) -> str:
    mean, low, high = ends
    return f"{mean:{form}}\n[dim]{low:{form}}-{high:{form}}[/dim]"
