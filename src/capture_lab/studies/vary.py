"""`capture plan TASK --vary NAME=v1,v2`: plan again for every value of one option, and compare in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, get_type_hints

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.planning_rows import covered, successes

CAPTION = (
    "Percentages with exact 95% intervals, all places together. Coverage: executed steps inside their\n"
    "first-step region; no guarantee applies to states that a planner chooses."
)
COUNTS = {"success": successes, "coverage": covered}
Rows = list[dict[str, Any]]


def run_varied(study: PlanningStudy, console: Console) -> None:
    """Play the study for every value, print one table, write the rows and draw the figure."""
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
    console.print(_table(together))
    if study.json is not None:
        write_rows(study.json, rows, study)
    if study.figures is not None:
        file = output_folder(study.figures) / f"{study.task.name}-{option}.png"
        figure = varied_figure(together)
        figure.savefig(file, dpi=120)
        pyplot().close(figure)
        console.print(f"Figure: {file}", markup=False)


def varied(study: PlanningStudy) -> tuple[str, dict[Any, PlanningStudy]]:
    """The varied option, and the study for each of its values: an option of the study, of its task or of the weights."""
    option, _, words = (study.vary or "").partition("=")
    if not words:
        raise CaptureError(f"vary is {study.vary!r}; expected an option and its values, such as k=4,8,12.")
    option = option.strip().lstrip("-").replace("-", "_")
    holders = {"study": study, "weights": study.weights, "task": study.task}
    hidden = study.unimportant | {"weights"}
    known = {
        entry.name: part
        for part, holder in holders.items()
        if holder is not None
        for entry in fields(holder)
        if part != "study" or entry.name not in hidden
    }
    part = known[known_name("option", option, known)]
    holder: Any = holders[part]
    kind = get_type_hints(type(holder), include_extras=True)[option]
    studies = {}
    for word in words.split(","):
        value: Any = tyro.cli(kind, prog=f"--vary {option}", args=[word])
        changed = replace(holder, **{option: value})
        studies[value] = changed if part == "study" else replace(study, **{part: changed})
    return option, studies


def _table(rows: Rows) -> Table:
    title = f"{rows[0]['setting']}: {rows[0]['episodes']} episodes per value and method"
    table = Table(title=title, caption=CAPTION, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shares = ("fell", "timed_out")
    for column in (rows[0]["setting"], "method", *COUNTS, *shares, "steps"):
        table.add_column(column.replace("_", " "), justify="left" if column == "method" else "right")
    for row in rows:
        cells = [share_with_interval(*counted(row)) for counted in COUNTS.values()]
        cells += [f"{100 * row[share]:.1f}" for share in shares]
        cells.append("-" if row["steps_mean"] is None else f"{row['steps_mean']:.1f}")
        table.add_row(str(row["value"]), row["method"], *cells)
    return table


def varied_figure(rows: Sequence[dict[str, Any]]) -> Any:
    """Success and coverage of every method against the value, with 95% intervals, from the rows of all places."""
    figure, panels = pyplot().subplots(1, len(COUNTS), figsize=(7, 3), sharey=True, layout="constrained")
    values = list(dict.fromkeys(row["value"] for row in rows))
    for method, colour in zip(dict.fromkeys(row["method"] for row in rows), STRATA_COLOURS * 3):
        own = [row for row in rows if row["method"] == method]
        for panel, (name, counted) in zip(panels, COUNTS.items()):
            counts = [counted(row) for row in own]
            mean = np.array([held / of for held, of in counts])
            ends = np.array([clopper_pearson(*count) for count in counts]).T
            at = [values.index(row["value"]) for row in own]
            panel.errorbar(at, 100 * mean, 100 * np.abs(ends - mean), marker="o", ms=4, color=colour, label=method)
            panel.set(title=f"{name}, %", xlabel=rows[0]["setting"], ylim=(-2, 102))
            panel.set_xticks(range(len(values)), list(map(str, values)))
    panels[0].legend(fontsize=8)
    return figure
