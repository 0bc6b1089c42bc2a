"""An animation of one planned episode on the marble labyrinth, as `capture video` makes it."""

from __future__ import annotations

import numpy as np

from capture_cp import Tree, method
from capture_cp.planning import run_episode
from capture_cp.report.movie import write_movie
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.planner import PLANNER, marble_planner
from capture_cp.tasks.marble.task import POSITION, Marble
from figures.style import IMAGES


def episode_animation() -> None:
    """Calibrate as the planning study does, plan, and draw every step at half speed."""
    task = Marble(load_map("center"), absorb=True)
    data = task.design_transitions("grid", 2, np.random.default_rng(0))
    cap = method("capture", task, task.strata, tree=Tree(per_stratum=False, max_leaves=20)).fit(data.X, data.Y)
    planner = marble_planner(cap, task, PLANNER, alpha=0.1, seed=0)
    info = {"task": "marble", "options": {}, "map": "center", "method": "capture"}
    (start,) = task.starts(1)
    run = run_episode(planner, task.closed_loop(start), start, 100, seed=1, info=info).with_regions(cap, POSITION)
    board = task.drawing().storyboard(run)
    file = IMAGES / "episode.webp"
    write_movie(file, (board.draw(step) for step in range(run.steps + 1)), board.rate / 2)
    print(f"{file.name}  {file.stat().st_size / 1000:.0f} kB: {run.outcome} in {run.steps}, {run.inside.sum()} regions held")
