"""Small boards for the marble tests, and what is independent of the library in checking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.planning.kernel import step_each
from capture_cp.planning.plugin import Functions, called_by
from capture_lab.studies.montecarlo import Counts
from capture_lab.tasks.marble.maps import MAP_NAMES, Map, load_map
from capture_lab.tasks.marble.planner import marble_cost, model_step
from capture_lab.tasks.marble.task import Marble

MM = 1e-3

#: A sound map file: two rooms and a gap over the wall between them, a pit beside the gap.
OWN: dict[str, Any] = {
    "size": [60, 60],
    "walls": [[28, 0, 32, 20]],
    "start": [10, 10],
    "goal": [50, 10],
    "pits": [[30, 58]],
    "pit_radius": 8,
    "framed": ["left", "bottom"],
}

REAL = {name: Marble(load_map(name)) for name in MAP_NAMES}

#: Boards that were made, by their text: the table of what is near a place takes longer to make than most tests that use it.
MADE: dict[str, Map] = {}


def write_map(folder: Path, **changes: Any) -> Path:
    """OWN with some keys changed (None removes one), as a file."""
    file = folder / "mine.json"
    file.write_text(json.dumps({key: value for key, value in (OWN | changes).items() if value is not None}))
    return file


def board(*walls: tuple[float, float, float, float], size=(100, 100), framed=(), **keys: Any) -> Map:
    """A map in millimetres, its start and goal in the lower left and upper right unless given."""
    places = {"start": (10, 10), "goal": (size[0] - 10, size[1] - 10)} | keys
    made = Map("board", size, tuple(walls), framed=tuple(framed), **places)
    return MADE.setdefault(repr(made), made)


def feasible_positions(task: Marble, n: int, rng: np.random.Generator) -> np.ndarray:
    """About n positions, uniform over the board less what is in collision."""
    points = rng.uniform(size=(2 * n, 2)) * np.array(task.map.size) * MM
    return points[task.map.clearance(points) >= 0][:n]


def positions_in(task: Marble, stratum: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """At most n feasible positions, uniform over the cells of one stratum."""
    cells = rng.choice(task.strata.cells(stratum), size=n)
    points = task.strata.grid.centre(cells) + rng.uniform(-0.5, 0.5, size=(n, 2)) * MM
    return points[task.map.clearance(points) >= 0]


def states(positions: np.ndarray, velocities: Any = 0.0, tilts: Any = 0.0) -> np.ndarray:
    """States (n, 6) of positions (n, 2) with velocities and tilts (n, 2)."""
    result = np.zeros((len(positions), 6))
    result[:, [0, 2]], result[:, [1, 3]], result[:, [4, 5]] = positions, velocities, tilts
    return result


def crosses(start: np.ndarray, end: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Whether each segment start[i] -> end[i] (n, 2) passes through the inside of a box (x0, y0, x1, y1): slab method."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slabs = np.stack([(box[:2] - start) / (end - start), (box[2:] - start) / (end - start)])
    still = end == start
    within = (start > box[:2]) & (start < box[2:])
    enter = np.where(still, np.where(within, -np.inf, np.inf), slabs.min(axis=0)).max(axis=1)
    leave = np.where(still, np.where(within, np.inf, -np.inf), slabs.max(axis=0)).min(axis=1)
    return np.maximum(enter, 0) < np.minimum(leave, 1)


def model_step_of_rollouts(states: np.ndarray, action: np.ndarray, noise: np.ndarray, params: Any) -> None:
    """One step of particles, states (6, L), in place: by code of the rollout, compiled once for all tests."""
    step_each(called_by(Functions(model_step, marble_cost)), states[None], action[None], noise[None], params)


def counts_of(totals, hits, cells=0.0) -> Counts:
    """Counts of outcomes (n, M) and those inside (n, M) of n inputs, worked out one column at a time."""
    t, h = (np.column_stack([part, np.sum(part, axis=1)]).astype(float) for part in (totals, hits))
    sums = np.array([[c.sum() for c in table.T] for table in (t, h, t * t, h * h, t * h)])
    return Counts(len(t), sums, np.full(t.shape[1], cells), len(t))
