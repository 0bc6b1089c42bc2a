"""The tables of the planning study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from capture_cp.report.output import beside, share_with_interval
from capture_lab.studies.planning_rows import OUTCOMES, added


def planning_table(title: str, rows: Sequence[Mapping[str, Any]], paper_columns: Sequence[str]) -> Table:
    """The rows of one place, one column per method; `paper_columns` names the paper's numbers in a row."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(row["method"], justify="right", no_wrap=True)
    papers = [dict(zip(paper_columns, row["paper"] or ())) for row in rows]
    table.add_row("success, %", *(f"{100 * row['success']:.0f}" for row in rows))
    table.add_row("[dim]  95%[/dim]", *(_interval(row) for row in rows))
    if paper_columns:
        table.add_row("[dim]  paper[/dim]", *(_dim(figures.get("success"), ".0f") for figures in papers))
    for key, outcome in list(OUTCOMES.items())[1:]:
        if any(row[key] for row in rows) or outcome in paper_columns:
            figures = [[found[outcome]] if outcome in found else None for found in papers]
            table.add_row(f"{outcome}, %", *(beside(f"{100 * row[key]:.0f}", f, 0, ".0f") for row, f in zip(rows, figures)))
    for outcome in dict.fromkeys(name for row in rows for name in row["others"]):
        table.add_row(f"{outcome}, %", *(f"{100 * row['others'].get(outcome, 0.0):.0f}" for row in rows))
    table.add_row("steps", *(_spread(row["steps_mean"], row["steps_std"]) for row in rows))
    if paper_columns:
        spreads = [_spread(found.get("steps"), found.get("deviation")) for found in papers]
        table.add_row("[dim]  paper[/dim]", *(f"[dim]{text}[/dim]" for text in spreads))
    table.add_row("[dim]  median[/dim]", *(_dim(row["steps_median"], "g") for row in rows))
    table.add_row("plan, ms", *(f"{row['plan_ms_median']:.0f}" for row in rows))
    table.add_row("[dim]  99%[/dim]", *(_dim(row["plan_ms_p99"], ".0f") for row in rows))
    return table


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["success_ci95"]
    return f"[dim]{100 * low:.0f}-{100 * high:.0f}[/dim]"


def _dim(value: float | None, form: str) -> str:
    return "-" if value is None else f"[dim]{value:{form}}[/dim]"


def _spread(mean: float | None, deviation: float | None) -> str:
    return "-" if mean is None else f"{mean:.1f}±{deviation or 0:.1f}"


def mean_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Mean success of each method over all places."""
    table = Table(title="Mean success over all places, % (the paper's in brackets)", box=box.SIMPLE_HEAD, pad_edge=False)
    cells = []
    for name in dict.fromkeys(row["method"] for row in rows):
        table.add_column(name, justify="right")
        own = [row for row in rows if row["method"] == name]
        theirs = [row["paper"][0] for row in own if row["paper"] is not None]
        mean = [float(np.mean(theirs))] if len(theirs) == len(own) else None
        cells.append(beside(f"{100 * np.mean([row['success'] for row in own]):.0f}", mean, 0, ".0f"))
    table.add_row(*cells)
    return table


def on_policy_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Coverage in closed loop by method and regime, over all places."""
    caption = (
        "Executed transitions inside their first-step region, %. The planner chooses the states, so they are not\n"
        "exchangeable with the calibration, and no guarantee applies, except to rows calibrated on-policy."
    )
    table = Table(title="In closed loop", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("method", "all", *rows[0]["landed"]):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        held, landed = added(own, "held"), added(own, "landed")
        pairs = [(sum(held.values()), sum(landed.values())), *((held[regime], landed[regime]) for regime in landed)]
        table.add_row(name, *(share_with_interval(*pair) for pair in pairs))
    return table
