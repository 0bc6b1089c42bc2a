"""The report of the demo: its figures, tables and animation on one page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.progress import Progress

from capture_cp.report.coverage_chart import draw_coverage
from capture_cp.report.html import settings_of, write_page
from capture_cp.report.tables import coverage_page_table, planning_page_table
from capture_cp.studies.demo import OURS, Demo, Results
from capture_cp.studies.paper import Paper
from capture_cp.studies.planning_rows import summary


def write_demo_page(report: Path, demo: Demo, results: Results, scratch: Path, progress: Progress) -> None:
    """Draw the figures into `scratch` and write the page."""
    task, place, paper = results.task, results.place, Paper.of(demo.task)
    drawing: Any = task.drawing()
    paths = {(place, name): [summary(run, task) for run in runs] for name, runs in results.episodes.items()}
    drawings: dict[str, Callable[[Path], None]] = {
        "spaces.svg": drawing.draw_spaces,
        "coverage.svg": lambda file: draw_coverage(results.coverage, file),
        "regions.png": lambda file: drawing.draw_regions(results.fitted, demo.alpha, file),
        "paths.png": lambda file: drawing.draw_trajectories({place: task}, paths, file),
    }
    figures = {}
    for name, draw in progress.track(drawings.items(), description="Drawing the report"):
        draw(scratch / name)
        figures[Path(name).stem] = scratch / name
    write_page(
        report,
        "demo.html",
        folder=Path(inspect.getfile(type(task))).parent,  # where a task keeps the script that plays its episodes
        about=inspect.cleandoc(demo.task.__doc__ or "").split("\n\n")[0],
        place=task.place,
        strata=task.strata.names,
        alpha=demo.alpha,
        transitions=demo.transitions,
        ours=OURS,
        rival=next(iter(results.episodes)),
        chosen=demo.rival is None and paper.planning(place, OURS) is not None,
        coverage=coverage_page_table("Next configurations inside the region, per cent", results.coverage),
        worst=_worst(results.coverage),
        planning=planning_page_table(
            f"{demo.episodes} closed-loop runs of each method", results.planning, paper.planning_columns
        ),
        figures=figures,
        player=drawing.player_data(results.fitted, results.episodes),
        settings=settings_of(demo.task) | settings_of(demo, ("task", "out", "json")),
    )


def _worst(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The least covered stratum of each method: its row."""
    strata = [row for row in rows if row["stratum"] != "all" and row["n"]]
    methods = dict.fromkeys(row["method"] for row in strata)
    return {name: min((row for row in strata if row["method"] == name), key=lambda row: row["coverage"]) for name in methods}
