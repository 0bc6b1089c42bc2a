"""Summaries of episodes and JSON rows of the planning study; imports no command-line libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import Episode
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
