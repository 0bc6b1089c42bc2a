"""Result rows as tables for a page, one line per method with our number above the paper's; and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from capture_cp.report.draw import figure_of, save
from capture_cp.report.output import MARGIN, table_of
from capture_cp.report.panel import Line, Panel
from capture_cp.report.style import Mark, colour_of

Row = dict[str, Any]
DASH = "–"
#: Ends of an episode other than success, by their keys in a row.
OTHERS = {"fell": "fell", "timed_out": "timed out"}


@dataclass(frozen=True)
class Cell:
    """One number: our text, its interval, the paper's text, and a mark.

    Coverage off its target is marked in two ways: "under" or "over" by more than a margin, drawn as ▼ and ▲; "too low" or
    "too high" by a test, drawn as these words.
    """

    ours: str
    interval: str = ""
    paper: str = ""
    mark: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table of a page or of a terminal: lines by their names, and a note below."""

    title: str
    columns: list[str]
    lines: dict[str, list[Cell]]
    note: str = ""

    def printed(self, heading: str) -> Table:
        """The table for a terminal, with the heading of the lines' names; intervals are in brackets."""
        texts = {
            name: [f"{one.ours} ({one.interval})" if one.interval else one.ours for one in line]
            for name, line in self.lines.items()
        }
        rows = [[escape(name), *line] for name, line in texts.items()]
        return table_of(escape(self.title), [heading, *self.columns], rows, self.note or None)


def coverage_page_table(title: str, rows: Sequence[Row]) -> PageTable:
    """Coverage by stratum and the volume as a ratio to CaPTURe's, from the rows of one place."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    strata = list(dict.fromkeys(row["stratum"] for row in rows))
    found = {(row["method"], row["stratum"]): row for row in rows}
    unit = found["capture", "all"]["volume"] if ("capture", "all") in found else None
    lines = {
        name: [*(_coverage_cell(found[name, stratum]) for stratum in strata), _volume_cell(found[name, "all"], unit)]
        for name in methods
    }
    return PageTable(title, [*strata, "volume ratio"], lines)


def planning_page_table(title: str, rows: Sequence[Row], paper_columns: Sequence[str] = ()) -> PageTable:
    """Outcomes, steps to the goal and planning time in one place; `paper_columns` names the paper's numbers in a row."""
    happened = [name for key, name in OTHERS.items() if any(row[key] for row in rows)]
    shown = paper_columns or happened
    shares = {"success": "success"} | {key: name for key, name in OTHERS.items() if name in shown}
    named = list(dict.fromkeys(name for row in rows for name in row.get("others", ())))
    lines = {}
    for row in rows:
        figures = dict(zip(paper_columns, row["paper"] or ()))
        low, high = row["success_ci95"]
        cells = [Cell(f"{100 * row[key]:.0f}", paper=_number(figures.get(name), ".0f")) for key, name in shares.items()]
        cells[0] = replace(cells[0], interval=f"{100 * low:.0f}–{100 * high:.0f}")
        cells += [Cell(f"{100 * row['others'].get(name, 0.0):.0f}") for name in named]
        theirs = f"{figures['steps']:.1f} ± {figures['deviation']:.1f}" if "deviation" in figures else ""
        mean, spread = row["steps_mean"], row["steps_std"]
        steps = Cell(DASH if mean is None else f"{mean:.1f} ± {spread:.1f}", "", theirs)
        lines[row["method"]] = [*cells, steps, Cell(f"{row['plan_ms_median']:.0f}")]
    return PageTable(title, [*(f"{name}, %" for name in (*shares.values(), *named)), "steps to goal", "plan, ms"], lines)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


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
    ratio = row["volume"] / unit if unit and isfinite(unit) and row["volume"] is not None else None
    paper = row.get("paper_volume_ratio")
    return Cell(DASH if ratio is None else f"{ratio:.2f}", "", "" if paper is None else f"{paper:.2f}")


#: Strata differ in shape as well as in colour, so that a grey print is readable.
_MARKERS = ("o", "s", "^", "D", "v")
_INK = "#222222"


def draw_coverage(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Coverage rows of one place: marks by stratum, whiskers for the interval, hollow marks for the paper."""
    methods = list(dict.fromkeys(row["method"] for row in rows))[::-1]  # the first on top
    strata = [name for name in dict.fromkeys(row["stratum"] for row in rows) if name != "all"]
    target = 100 * (1 - rows[0]["alpha"])
    ends = np.array([[target, -0.6], [target, len(methods) - 0.4]])
    key: list[Any] = [Line(ends, _INK, dash="--", name=f"target {target:g}%")]
    lines, marks = list(key), []
    for m, stratum in enumerate(strata):
        look = Mark(stratum, _MARKERS[m % len(_MARKERS)], 6.0, colour_of(m), colour_of(m), "")
        hollow = look._replace(colour="none", size=7.0)
        key.append(look)
        for row in (row for row in rows if row["stratum"] == stratum and row["n"]):
            height = methods.index(row["method"]) - 0.22 * (m - (len(strata) - 1) / 2)
            lines.append(Line(np.array([[100 * end, height] for end in row["ci95"]]), colour_of(m), 2.0))
            marks.append((look, np.array([[100 * row["coverage"], height]])))
            if row.get("paper") is not None:
                marks.append((hollow, np.array([[100 * row["paper"], height]])))
    if any(look.colour == "none" for look, _ in marks):
        key.append(Mark("paper (hollow)", "o", 7.0, "none", _INK, ""))
    across = "next configurations inside their region, %"
    panel = Panel(lines=tuple(lines), marks=tuple(marks), rows=tuple(methods), across=across)
    save(figure_of([[panel]], (9.0, 0.9 + 0.5 * len(methods)), key=key, columns=len(key)), file)
