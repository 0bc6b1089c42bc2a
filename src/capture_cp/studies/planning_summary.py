"""What the marble's planning table needs of its episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import Episode
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.tasks.marble.task import Marble

OUTCOMES = ("success", "fell", "timed out")


def summary(run: Episode, task: Marble) -> dict[str, Any]:
    """What the tables need of an episode, and its path."""
    path, strata = run.states[:, POSITION], len(task.strata.names)
    labels = task.strata.index(path[1:])
    return {
        "outcome": run.outcome,
        "steps": run.steps,
        "plan_ms": np.round(run.plan_ms, 2).tolist(),
        "landed": np.bincount(labels, minlength=strata).tolist(),
        "held": np.bincount(labels, weights=run.inside, minlength=strata).astype(int).tolist(),
        "path": np.round(path, 5).tolist(),
    }


def planning_row(map_name: str, name: str, episodes: list[Any]) -> dict[str, Any]:
    """The JSON row of a map and method, from the summaries of its episodes."""
    n = len(episodes)
    shares = {outcome: sum(run["outcome"] == outcome for run in episodes) for outcome in OUTCOMES}
    steps = np.array([run["steps"] for run in episodes if run["outcome"] == "success"], float)
    times = np.concatenate([run["plan_ms"] for run in episodes])
    return {
        "task": "marble", "map": map_name, "method": name, "episodes": n,
        "success": shares["success"] / n, "fell": shares["fell"] / n, "timed_out": shares["timed out"] / n,
        "success_ci95": list(clopper_pearson(shares["success"], n)),
        "steps_mean": float(steps.mean()) if len(steps) else None,
        "steps_std": float(steps.std()) if len(steps) else None,
        "plan_ms_median": float(np.median(times)), "plan_ms_p99": float(np.percentile(times, 99)),
        "landed": np.sum([run["landed"] for run in episodes], axis=0).tolist(),
        "held": np.sum([run["held"] for run in episodes], axis=0).tolist(),
    }  # fmt: skip
