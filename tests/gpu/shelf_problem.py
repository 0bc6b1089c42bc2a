"""A plan of the shelf that needs no MuJoCo: what its compiled functions take, and a log to calibrate on, in one file.

Where MuJoCo is at hand, `python -m gpu.shelf_problem`, from the folder of the tests, writes the file anew.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capture_cp import Capture, FunctionStrata, NearestParticles, Tree
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.steps import StepModel
from capture_lab.tasks.shelf.geometry import STRATA, contact_stratum, link_frames
from capture_lab.tasks.shelf.model import STEEPNESS, ShelfParams, hazard, step, stratum
from capture_lab.tasks.shelf.planner import POINTS, stage_cost
from planning.plugins import fused_rollout

FILE = Path(__file__).with_name("shelf.npz")
PARTICLES, AXES = 8, tuple(range(7))
#: A tree that a few hundred transitions are enough for.
TREE = Tree(min_leaf=40, max_leaves=4, min_stratum=60)


class Problem(NamedTuple):
    """All that a plan of the shelf needs."""

    params: ShelfParams
    X: Any  #: (n, 21) transitions to calibrate on
    Y: Any  #: (n, 7)
    start: Any  #: (14,) near a glass


def write(problem: Problem, file: Path = FILE) -> None:
    """A problem as plain arrays."""
    parts = {f"params_{name}": value for name, value in problem.params._asdict().items()}
    np.savez_compressed(file, **parts, X=problem.X, Y=problem.Y, start=problem.start)


@cache
def read(file: Path = FILE) -> Problem:
    """A problem that was written."""
    with np.load(file) as found:
        parts = [found[f"params_{name}"] for name in ShelfParams._fields]
        params = ShelfParams(*(part if part.ndim else float(part) for part in parts))
        return Problem(params, found["X"], found["Y"], found["start"])


def of_task(task: Any, n: int = 400, seed: int = 0) -> Problem:
    """The problem of a task, with transitions of its true system; needs MuJoCo."""
    log = task.transitions(n, np.random.default_rng(seed))
    clear = task.glass_clearances(log.Y)
    near = np.flatnonzero((task.strata.index(log.Y) == 0) & (clear > 0.01) & (clear < 0.04))
    return Problem(task.params, log.X, log.Y, np.concatenate([log.Y[near[0]], np.zeros(7)]))


def strata_of(params: ShelfParams) -> FunctionStrata:
    """The strata of the task, by its compiled function alone."""

    def index(Y: Any) -> Any:
        rows = (link_frames(params.fixed, tuple(y)) for y in np.asarray(Y))
        touched = params.capsules, params.boxes
        return np.array([contact_stratum(*touched, frames, params.tolerance, params.depth) for frames in rows], dtype=int)

    return FunctionStrata(index, STRATA)


def calibrated(problem: Problem) -> Capture:
    """`capture`, fitted to the problem's log."""
    model = StepModel(step, 14, AXES, noise_dims=7, params=problem.params)
    cap = Capture(model, strata_of(problem.params), NearestParticles(PARTICLES // 2), TREE, n_particles=PARTICLES)
    return cap.fit(problem.X, problem.Y)


def rollout_of(problem: Problem, noise: float | None = None) -> FusedRollout:
    """The rollout of the shelf's planner; `noise` in place of the model's, for the plan alone."""
    params = problem.params if noise is None else problem.params._replace(noise=noise)
    settings: dict[str, Any] = {"stratum": stratum, "points": POINTS, "steepness": STEEPNESS, "compare_step": noise is None}
    return fused_rollout(calibrated(problem), step, stage_cost, params, hazard, AXES, 7, **settings)


if __name__ == "__main__":
    from capture_lab.tasks.shelf.shelves import load_shelf
    from capture_lab.tasks.shelf.task import ShelfTask

    write(of_task(ShelfTask(load_shelf("corner"))))
