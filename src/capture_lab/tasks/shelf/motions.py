"""The motions behind a log of the arm: random ones, and ones towards a point in the shelf, as a planner makes.

Transitions are independent of each other: each is the last step of a separate short motion, so that the arm has the speed
and the contacts of an arm in motion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from capture_cp.base.checks import CaptureError, Floats

if TYPE_CHECKING:
    from capture_lab.tasks.shelf.task import ShelfTask

#: Lowest and highest angles from which motions start: the arm in front of the shelf and in it.
LEAST: Floats = np.array([-0.7, -0.9, -0.6, -2.7, -0.6, 2.0, 0.1])
GREATEST: Floats = np.array([0.7, 1.3, 0.6, -0.9, 0.6, 3.7, 1.5])
#: How far in front of the shelf the jar may be (m).
BEFORE = 0.15
#: Maximum number of draws before a shelf counts as out of reach.
MOST_TRIES = 100
#: Maximum number of steps before the one that is logged, and the fraction of motions that go to a point.
WARM_UP, REACHING = 6, 0.6
#: How often a random motion changes direction, and the noise of a reaching one as a fraction of the largest action.
CHANGING, RESTLESS = 0.3, 0.25
#: Damping of the inverse of the Jacobian (m²).
_DAMPING = 1e-3


def random_poses(task: ShelfTask, n: int, rng: np.random.Generator) -> Floats:
    """Feasible configurations (n, 7) with the jar in the shelf or in front of it."""
    low, high = task.shelf.corners
    kept: list[Floats] = []
    while sum(map(len, kept)) < n:
        if len(kept) >= MOST_TRIES and sum(map(len, kept)) < len(kept):
            raise CaptureError(f"the arm cannot reach into {task.shelf.name}; move its boards and walls nearer to the arm.")
        tried = rng.uniform(LEAST, GREATEST, (4 * n + 64, 7))
        jar = task.jars(tried)[:, :3]
        there = ((jar > low - [BEFORE, 0.0, 0.0]) & (jar < high)).all(axis=1)
        kept.append(tried[there & (task.strata.index(tried) >= 0)])
    return np.concatenate(kept)[:n]


def moving_inputs(task: ShelfTask, n: int, rng: np.random.Generator) -> Floats:
    """Inputs (n, 21): states of arms in motion, and their next actions."""
    found = _motions(task, n, rng)
    while len(lost := np.flatnonzero(task.strata.index(found[:, :7]) < 0)):  # inside a board: no step can start there
        found[lost] = _motions(task, len(lost), rng)
    return found


def _motions(task: ShelfTask, n: int, rng: np.random.Generator) -> Floats:
    states = np.hstack([random_poses(task, n, rng), np.zeros((n, 7))])
    low, high = task.shelf.corners
    to, reaching = rng.uniform(low, high, (n, 3)), rng.random(n) < REACHING
    steps, actions = rng.integers(WARM_UP + 1, size=n), _random(task, n, rng)
    chosen = np.empty((n, 7))
    for step in range(WARM_UP + 1):
        fresh = _random(task, n, rng)
        actions = np.where((rng.random(n) < CHANGING)[:, None], fresh, actions)
        commanded = np.where(reaching[:, None], _towards(task, states, to, rng), actions)
        chosen[steps == step] = commanded[steps == step]
        on = steps > step
        states[on] = task.true_step(states[on], commanded[on], rng)
    return np.hstack([states, chosen])


def _random(task: ShelfTask, n: int, rng: np.random.Generator) -> Floats:
    return rng.uniform(-task.bounds, task.bounds, (n, 7))


def _towards(task: ShelfTask, states: Floats, to: Floats, rng: np.random.Generator) -> Floats:
    """Actions (n, 7) that move the jar towards points (n, 3), as fast as allowed, with noise."""
    Y = states[:, :7]
    jacobian, missing = task.jar_jacobians(Y), to - task.jars(Y)[:, :3]
    square = jacobian @ jacobian.swapaxes(1, 2) + _DAMPING * np.eye(3)
    turn = (jacobian.swapaxes(1, 2) @ np.linalg.solve(square, missing[:, :, None]))[:, :, 0]
    turn *= np.minimum(1.0, (task.bounds / np.maximum(np.abs(turn), 1e-9)).min(axis=1))[:, None]
    return np.clip(turn + RESTLESS * task.bounds * rng.standard_normal(turn.shape), -task.bounds, task.bounds)
