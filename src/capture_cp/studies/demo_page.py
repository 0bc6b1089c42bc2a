"""The report of the demo: its figures, tables and animation on one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import Episode
from capture_cp.report.coverage_chart import draw_coverage
from capture_cp.report.html import settings_of, write_page
from capture_cp.report.tables import coverage_page_table, planning_page_table
from capture_cp.studies import paper
from capture_cp.studies.planning_summary import summary
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.marble.task import Marble

if TYPE_CHECKING:
    from capture_cp.studies.demo import Demo


@dataclass(frozen=True)
class DemoResults:
    """All that the demo found: rows of both tables, and the episodes of the two methods that plan."""

    demo: Demo
    task: Marble
    fitted: dict[str, Capture]
    coverage: list[dict[str, Any]]
    planning: list[dict[str, Any]]
    episodes: dict[str, list[Episode]]


def write_demo_page(report: Path, results: DemoResults, scratch: Path, progress: Progress) -> None:
    """Draw the figures into `scratch` and write the page."""
    task, demo = results.task, results.demo
    drawing = task.drawing()
    paths = {(demo.map, name): [summary(run, task) for run in runs] for name, runs in results.episodes.items()}
    drawings: dict[str, Callable[[Path], None]] = {
        "spaces.svg": drawing.draw_spaces,
        "coverage.svg": lambda file: draw_coverage(results.coverage, file),
        "regions.png": lambda file: drawing.draw_regions(results.fitted, demo.alpha, file),
        "paths.png": lambda file: drawing.draw_trajectories({demo.map: task}, paths, file),
    }
    figures = {}
    for name, draw in progress.track(drawings.items(), description="Drawing the report"):
        draw(scratch / name)
        figures[Path(name).stem] = scratch / name
    write_page(
        report,
        "demo.html",
        map=task.map.name,
        alpha=demo.alpha,
        transitions=demo.transitions,
        rival=next(iter(results.episodes)),
        chosen=demo.rival is None and paper.Paper.of(MarbleOptions).planning(demo.map, "capture") is not None,
        coverage=coverage_page_table("Next positions inside the region, per cent", results.coverage),
        worst=_worst(results.coverage),
        planning=planning_page_table(f"{demo.episodes} closed-loop runs of each method", results.planning),
        figures=figures,
        player=drawing.player_data(results.fitted, results.episodes),
        settings=settings_of(demo, ("out", "json")),
    )


def _worst(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The least covered stratum of each method: its row."""
    strata = [row for row in rows if row["stratum"] != "all" and row["n"]]
    methods = dict.fromkeys(row["method"] for row in strata)
    return {name: min((row for row in strata if row["method"] == name), key=lambda row: row["coverage"]) for name in methods}
