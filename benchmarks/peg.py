"""Times of the peg: its geometry against a polygon library, its regions against one at a time, its plans."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison, limited, seconds
from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_lab.tasks.peg.cspace import codes_of_cells
from capture_lab.tasks.peg.planner import PLANNER
from capture_lab.tasks.peg.task import Peg, SystemName

POSES = 5_000
REGIONS = 16
FRESH = 2_000
CALIBRATION = 20_000
#: All transitions of the paper's study.
TRANSITIONS = 160_000


def peg_comparisons(seed: int) -> Iterator[Comparison]:
    """Feasibility of poses against shapely, if installed; first-step regions against one region at a time."""
    task, rng = Peg(), np.random.default_rng(seed)
    grid = task.strata.require_grid()
    poses = grid.centre(rng.integers(grid.size, size=POSES))
    if find_spec("shapely") is not None:
        yield Comparison(
            f"overlap of {POSES:,} pegs and receptacles", lambda: task.strata.index(poses),
            "shapely, feasibility only", lambda: _shapely_feasible(task, poses), 50,
        )  # fmt: skip
    cap = _calibrated(task, seed)
    X = task.inputs(REGIONS, rng)
    particles = cap.predict(X, rng)
    yield Comparison(
        f"cells of {REGIONS} first-step regions", lambda: cap.count_cells(X, prediction=particles),
        "one Capture.region at a time", lambda: [cap.region(x, prediction=p).cells() for x, p in zip(X, particles)], 2,
    )  # fmt: skip


def peg_measures(seed: int) -> list[dict[str, Any]]:
    """Times that have a limit: the grid, transitions of both systems, and plans near and in contact."""
    task = Peg()
    grid, shape = task.strata.require_grid(), task.strata.shape
    cells = grid.origin, grid.spacing, grid.shape, 0.0, shape
    codes_of_cells(*cells)  # compile
    rows = [limited(f"C-space grid of {grid.size:,} cells (s)", seconds(lambda: codes_of_cells(*cells)), 5)]
    limits: dict[SystemName, float] = {"planar": 120, "arm": 900} if find_spec("mujoco") is not None else {}
    for name, limit in limits.items():
        true = Peg(system=name)
        job = partial(true.transitions, FRESH, np.random.default_rng(seed))
        taken = seconds(job) * TRANSITIONS / FRESH
        rows.append(limited(f"{TRANSITIONS:,} {name} transitions (s), from {FRESH:,}", taken, limit))
    times = _plan_times(seed)
    rows.append(limited("plan of the peg, median (ms)", float(np.median(times)), 66))
    rows.append(limited("plan of the peg, 99th percentile (ms)", float(np.percentile(times, 99)), None))
    return rows


def _plan_times(seed: int) -> Floats:
    """Milliseconds of plans from every Halton start and from poses in contact, compilation excluded."""
    task = Peg()
    planner = task.planner(_calibrated(task, seed), PLANNER, seed=seed)
    poses = np.vstack([task.strata.halton_starts(30), task.strata.sample_starts(30, np.random.default_rng(seed))])
    planner.plan(poses[0])
    return np.array([1e3 * seconds(partial(planner.plan, pose)) for pose in poses])


@lru_cache(maxsize=1)  # simulating the transitions takes longer than all plans
def _calibrated(task: Peg, seed: int) -> Capture:
    """`capture`, fitted to simulated transitions; without MuJoCo, to the model's transitions scaled by the true gain."""
    rng = np.random.default_rng(seed)
    if find_spec("mujoco") is not None:
        log = task.transitions(CALIBRATION, rng)
        return task.method("capture").fit(log.X, log.Y)
    X = task.inputs(CALIBRATION, rng)
    further = X.copy()
    further[:, 3:] *= task.settings.gain
    return task.method("capture").fit(X, task(further, 1, rng)[:, 0])


def _shapely_feasible(task: Peg, poses: Floats) -> Any:
    import shapely

    half = np.array([task.settings.peg_width, task.settings.peg_length]) / 2
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    turned = np.stack([corners[:, 0] * c[:, None] - corners[:, 1] * s[:, None],
                       corners[:, 0] * s[:, None] + corners[:, 1] * c[:, None]], axis=2)  # fmt: skip
    pegs = shapely.polygons(turned + poses[:, None, :2])
    hole, depth = task.settings.hole_width / 2, task.settings.hole_depth
    blocks = [shapely.box(-1, -1, -hole, 0), shapely.box(hole, -1, 1, 0), shapely.box(-1, -1, 1, -depth)]
    return shapely.area(shapely.intersection(pegs, shapely.union_all(blocks))) <= 1e-8
