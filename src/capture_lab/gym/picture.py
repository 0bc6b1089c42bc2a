"""Pictures of a running episode, drawn by the code that draws videos of recorded episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.planning.episode import Episode
from capture_cp.report.movie import Picture
from capture_lab.tasks.task import Task


def picture_of(task: Task, path: Sequence[Floats], actions: Sequence[Floats], outcome: str | None) -> Picture:
    """The last of T + 1 states (ds,) after T actions (da,), with the path so far: (h, w, 3). Needs matplotlib."""
    shown = len(actions)
    if not shown:  # a video needs at least one step
        path, actions = [*path, path[0]], [np.zeros(len(task.bounds))]
    given, nothing = np.array(actions), np.zeros(len(actions))
    info = {"method": "environment"}
    run = Episode(outcome or "running", np.array(path), given, given[:, None], nothing, nothing, info)
    return np.array(task.drawing().storyboard(run).draw(shown), dtype=np.uint8)
