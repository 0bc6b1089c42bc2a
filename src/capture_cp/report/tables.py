"""Result rows as tables for a page: one line per method, ours above and the paper's below in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capture_cp.report.output import MARGIN

Row = dict[str, Any]
DASH = "–"


@dataclass(frozen=True)
class Cell:
    """One figure: our text, its interval, the paper's text, and whether it lies "under" or "over" a target."""

    ours: str
    interval: str = ""
    paper: str = ""
    mark: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table of a page."""

    title: str
    columns: list[str]
    lines: dict[str, list[Cell]]


def coverage_page_table(title: str, rows: Sequence[Row]) -> PageTable:
    """Coverage by stratum and the volume as a ratio to CaPTURe's, from the rows of one map or system."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    strata = list(dict.fromkeys(row["stratum"] for row in rows))
    found = {(row["method"], row["stratum"]): row for row in rows}
    unit = found["capture", "all"]["volume"] if ("capture", "all") in found else None
    lines = {
        name: [*(_coverage_cell(found[name, stratum]) for stratum in strata), _volume_cell(found[name, "all"], unit)]
        for name in methods
    }
    return PageTable(title, [*strata, "volume ratio"], lines)


def planning_page_table(title: str, rows: Sequence[Row]) -> PageTable:
    """Outcomes, steps to the goal and planning time, from the rows of one map or system."""
    falls = any("fell" in row and row["task"] == "marble" for row in rows)
    keys = ["success", "fell", "timed_out"] if falls else ["success"]
    lines = {}
    for row in rows:
        figures = row["paper"] or ()
        low, high = row["success_ci95"]
        shares = [
            Cell(
                f"{100 * row[key]:.0f}",
                f"{100 * low:.0f}–{100 * high:.0f}" if key == "success" else "",
                f"{figures[i]:.0f}" if len(figures) > i else "",
            )
            for i, key in enumerate(keys)
        ]
        mean, spread = row["steps_mean"], row["steps_std"]
        theirs = f"{figures[len(keys)]:.1f} ± {figures[len(keys) + 1]:.1f}" if len(figures) > len(keys) + 1 else ""
        steps = Cell(DASH if mean is None else f"{mean:.1f} ± {spread:.1f}", "", theirs)
        lines[row["method"]] = [*shares, steps, Cell(f"{row['plan_ms_median']:.0f}")]
    headings = {"success": "success, %", "fell": "fell, %", "timed_out": "timed out, %"}
    return PageTable(title, [*(headings[key] for key in keys), "steps to goal", "plan, ms"], lines)


def _coverage_cell(row: Row) -> Cell:
    if not row["n"]:
        return Cell(DASH)
    off = row["coverage"] - (1 - row["alpha"])
    low, high = row["ci95"]
    paper = row.get("paper")
    return Cell(
        f"{100 * row['coverage']:.1f}",
        f"{100 * low:.1f}–{100 * high:.1f}",
        "" if paper is None else f"{100 * paper:.1f}",
        "under" if off < -MARGIN else "over" if off > MARGIN else "",
    )


def _volume_cell(row: Row, unit: float | None) -> Cell:
    ratio = row["volume"] / unit if unit and row["volume"] is not None else None
    paper = row.get("paper_volume_ratio")
    return Cell(DASH if ratio is None else f"{ratio:.2f}", "", "" if paper is None else f"{paper:.2f}")
