"""Summaries of episodes, and the JSON rows and tables of the planning study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import Episode
from capture_cp.report.output import beside, share_with_interval
from capture_lab.studies.study import plain_table
from capture_lab.tasks.task import Task

#: How an episode may end, by the key of its share in a row; ends that only one task has are its row's `others`.
OUTCOMES = {"success": "success", "fell": "fell", "timed_out": "timed out"}


def summary(run: Episode, task: Task) -> dict[str, Any]:
    """What tables and figures need of an episode: counts are by regime, the path is that of configurations."""
    path, regimes = run.states[:, list(task.axes)], task.regimes
    reached = task.stratum_regimes[task.strata.index(path[1:])]
    landed = np.bincount(reached, minlength=len(regimes))
    held = np.bincount(reached, weights=run.inside, minlength=len(regimes))
    return {
        "outcome": run.outcome,
        "steps": run.steps,
        "plan_ms": np.round(run.plan_ms, 2).tolist(),
        "landed": dict(zip(regimes, landed.tolist())),
        "held": dict(zip(regimes, held.astype(int).tolist())),
        "path": np.round(path, 6).tolist(),
    }


def planning_row(task: str, place: str, name: str, episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON row of a place and method, from the summaries of its episodes."""
    n = len(episodes)
    shares = {key: sum(run["outcome"] == outcome for run in episodes) / n for key, outcome in OUTCOMES.items()}
    named = dict.fromkeys(run["outcome"] for run in episodes if run["outcome"] not in OUTCOMES.values())
    others = {name: sum(run["outcome"] == name for run in episodes) / n for name in sorted(named)}
    steps = np.array([run["steps"] for run in episodes if run["outcome"] == "success"], float)
    times = np.concatenate([run["plan_ms"] for run in episodes])
    return {
        "task": task, "map": place, "method": name, "episodes": n, **shares, "others": others,
        "success_ci95": list(clopper_pearson(round(n * shares["success"]), n)),
        "steps_mean": float(steps.mean()) if len(steps) else None,
        "steps_std": float(steps.std()) if len(steps) else None,
        "steps_median": float(np.median(steps)) if len(steps) else None,
        "plan_ms_median": float(np.median(times)), "plan_ms_p99": float(np.percentile(times, 99)),
        "landed": added(episodes, "landed"), "held": added(episodes, "held"),
    }  # fmt: skip


def added(rows: Sequence[Mapping[str, Any]], key: str) -> dict[str, int]:
    """The counts of several rows or episodes together, by regime."""
    return {regime: sum(row[key][regime] for row in rows) for regime in rows[0][key]}


def successes(row: Mapping[str, Any]) -> tuple[int, int]:
    """Episodes of a row that succeeded, of all."""
    return round(row["success"] * row["episodes"]), row["episodes"]


def covered(row: Mapping[str, Any]) -> tuple[int, int]:
    """Executed steps of a row that ended inside their first-step region, of all."""
    return sum(row["held"].values()), sum(row["landed"].values())


def planning_table(title: str, rows: Sequence[Mapping[str, Any]], paper_columns: Sequence[str]) -> Table:
    """The rows of one place, one column per method; `paper_columns` names the paper's numbers in a row."""
    table = plain_table(title, [""], [row["method"] for row in rows])
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
    table.add_row("steps", *(spread(row["steps_mean"], row["steps_std"]) for row in rows))
    if paper_columns:
        spreads = [spread(found.get("steps"), found.get("deviation")) for found in papers]
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


def spread(mean: float | None, deviation: float | None) -> str:
    """A mean and its standard deviation."""
    return "-" if mean is None else f"{mean:.1f}±{deviation or 0:.1f}"


def mean_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Mean success of each method over all places."""
    methods, cells = list(dict.fromkeys(row["method"] for row in rows)), []
    for name in methods:
        own = [row for row in rows if row["method"] == name]
        theirs = [row["paper"][0] for row in own if row["paper"] is not None]
        mean = [float(np.mean(theirs))] if len(theirs) == len(own) else None
        cells.append(beside(f"{100 * np.mean([row['success'] for row in own]):.0f}", mean, 0, ".0f"))
    table = plain_table("Mean success over all places, % (the paper's in brackets)", [], methods)
    table.add_row(*cells)
    return table


def on_policy_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Coverage in closed loop by method and regime, over all places."""
    caption = (
        "Executed transitions inside their first-step region, %. The planner chooses the states, so they are not\n"
        "exchangeable with the calibration, and no guarantee applies, except to rows calibrated on-policy."
    )
    table = plain_table("In closed loop", ["method"], ["all", *rows[0]["landed"]], caption)
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        held, landed = added(own, "held"), added(own, "landed")
        pairs = [(sum(held.values()), sum(landed.values())), *((held[regime], landed[regime]) for regime in landed)]
        table.add_row(name, *(share_with_interval(*pair) for pair in pairs))
    return table
