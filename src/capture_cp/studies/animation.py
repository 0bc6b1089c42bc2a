"""Episodes of the marble as plain numbers for the small player of a page: the board, and every step with its region."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import Episode
from capture_cp.spaces.plotting import STRATA_COLOURS
from capture_cp.studies.recorded import recorded_region
from capture_cp.tasks.marble.maps import MILLIMETRE
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.tasks.marble.task import Marble


def player_data(task: Marble, caps: dict[str, Capture], episodes: dict[str, list[Episode]]) -> dict[str, Any]:
    """What the player needs, lengths in millimetres: {board, methods: [{name, episodes: [{outcome, path, steps}]}]}."""
    return {
        "board": board(task),
        "methods": [
            {"name": name, "episodes": [episode_record(run, caps[name]) for run in runs]} for name, runs in episodes.items()
        ],
    }


def board(task: Marble) -> dict[str, Any]:
    """The map, its grid, and the stratum of every cell as one character: its number, or a dot where infeasible."""
    grid, map = task.strata.require_grid(), task.map
    return {
        "size": map.size,
        "framed": map.framed,
        "walls": map.walls,
        "pits": map.pits,
        "goal": map.goal,
        "radii": {"marble": map.marble_radius, "pit": map.pit_radius, "goal": map.goal_radius},
        "origin": _millimetres(grid.origin),
        "spacing": _millimetres(grid.spacing),
        "shape": grid.shape,
        "labels": "".join("." if label < 0 else str(label) for label in task.strata.labels),
        "strata": [{"name": name, "colour": STRATA_COLOURS[m]} for m, name in enumerate(task.strata.names)],
    }


def episode_record(run: Episode, cap: Capture) -> dict[str, Any]:
    """Path (T + 1, 2), and of each executed step its particles (L, 2), runs of region cells and whether the region held."""
    steps = []
    for t in range(run.steps):
        region = recorded_region(run, cap, t)
        steps.append(
            {
                "particles": _millimetres(run.particles[t]),
                "cells": [] if region is None else _runs(region.cells()),
                "held": bool(run.inside[t]),
            }
        )
    return {"outcome": run.outcome, "path": _millimetres(run.states[:, POSITION]), "steps": steps}


def _runs(cells: Any) -> list[int]:
    """Sorted cells (n,) as first cell and length of every run of neighbours, in turn."""
    if not len(cells):
        return []
    starts = np.flatnonzero(np.diff(cells, prepend=cells[0] - 2) != 1)
    lengths = np.diff(starts, append=len(cells))
    return np.stack([cells[starts], lengths], axis=1).ravel().tolist()


def _millimetres(values: Floats) -> Any:
    return np.round(values / MILLIMETRE, 2).tolist()
