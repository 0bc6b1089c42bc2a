"""The marble's approximate model with a learnt bias correction: `residual` for a model that a planner rolls out."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np

from capture_cp.base.checks import Floats, whole_number
from capture_cp.models import residual
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.task import Marble

POSITION, SPEEDS = [0, 2], [1, 3]  # within the state
AWAY = 4e-3  # m


def corrected(task: Marble, transitions: int, rng: np.random.Generator) -> Marble:
    """The task with a model whose missing acceleration was learnt from separate true transitions.

    For each axis, linear regressors learn the model's error in the next velocity and position, on transitions that start
    and end away from walls and end below the speed limit; they are robust, because a few of these have met a wall midway.
    The correction acts as an acceleration, so walls and pits stop a corrected marble like any other.
    """
    model = replace(task, absorb=False, correction=None)
    X = model.inputs(whole_number("transitions", transitions, 20), rng)
    after = model.true_step(X[:, :6], X[:, 6:], rng)
    free = (np.abs(after[:, SPEEDS]) < dynamics.MAX_SPEED).all(axis=1)
    for states in (X, after):
        free &= model.map.clearance(states[:, POSITION]) > AWAY
    speed, place = (_missing(model, X[free], after[free], entries) for entries in (SPEEDS, POSITION))
    # over n substeps a mean acceleration a and a growth j add n Δt a to the speed, and Δt² C(n, 2) a - Δt² C(n + 1, 3) / 2 j
    # to the position, because speed is added before it changes
    n, dt = dynamics.SUBSTEPS, dynamics.DT
    mean = speed / (n * dt)
    growth = (dt**2 * comb(n, 2) * mean - place) / (dt**2 * comb(n + 1, 3) / 2)
    return replace(task, correction=tuple(tuple(row) for row in np.vstack([mean, growth]).tolist()))


def _missing(model: Marble, X: Floats, after: Floats, entries: list[int]) -> Floats:
    """The model's error in two entries of the next state, linear in state and action: (2, 9), offsets last."""
    from sklearn.linear_model import HuberRegressor

    rows = []
    for entry in entries:
        learnt = residual(_Entry(model, entry), HuberRegressor(epsilon=1.05, alpha=0.0, max_iter=1000), n_particles=1)
        rows.append(np.append(*learnt.fit(X, after[:, [entry]]).linear_correction()))
    return np.array(rows)


class _Entry:
    """One entry of the next state, as a model."""

    def __init__(self, task: Marble, entry: int) -> None:
        self.task, self.entry = task, entry

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        rows = np.repeat(X, n_particles, axis=0)
        return self.task.model_step(rows[:, :6], rows[:, 6:], rng)[:, self.entry].reshape(len(X), n_particles, 1)
