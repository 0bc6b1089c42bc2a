"""Corrected models: what an approximate model misses, learnt from true transitions that meet no obstacle.

Contact would look like a bias, so each task chooses transitions in free space, and its correction acts on the motion
before contact: obstacles stop a corrected robot like any other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.models import residual

if TYPE_CHECKING:
    from capture_lab.tasks.marble.task import Marble
    from capture_lab.tasks.peg.model import Correction
    from capture_lab.tasks.peg.task import Peg
    from capture_lab.tasks.shelf.task import ShelfTask

Rows = tuple[tuple[float, ...], ...]

#: Distance (m) from obstacles of free transitions, and fewest transitions, by task; the peg's is out of reach of a step.
MARBLE_AWAY, MARBLE_FEWEST = 4e-3, 20
PEG_AWAY, PEG_FEWEST = 1e-2, 100
SHELF_AWAY, SHELF_FEWEST = 0.02, 200
#: Of the peg: largest friction, poses drawn for each that is kept, particles of a predicted move and of a score.
MOST_FRICTION, TRIES, PARTICLES, CLOUD = 2.0, 20, 256, 32


def as_rows(terms: Floats) -> Rows:
    """Terms (r, c) as nested tuples, which tasks compare and episodes store."""
    return tuple(map(tuple, terms.tolist()))


# -- marble ---------------------------------------------------------------------------------------------------------------


def marble_correction(task: Marble, transitions: int, rng: np.random.Generator) -> Rows:
    """The acceleration that the model misses: (4, 9), see `Marble.correction`.

    For each axis, linear regressors learn the model's error in the next velocity and position, on transitions that start
    and end away from walls and end below the speed limit; they are robust, because a few of these have met a wall midway.
    """
    from capture_lab.tasks.marble import dynamics

    model, position, speeds = replace(task, absorb=False, correction=None), [0, 2], [1, 3]
    X = model.inputs(whole_number("transitions", transitions, MARBLE_FEWEST), rng)
    after = model.true_step(X[:, :6], X[:, 6:], rng)
    free = (np.abs(after[:, speeds]) < dynamics.MAX_SPEED).all(axis=1)
    for states in (X, after):
        free &= model.map.clearance(states[:, position]) > MARBLE_AWAY
    speed, place = (_missing(model, X[free], after[free], entries) for entries in (speeds, position))
    # over n substeps a mean acceleration a and a growth j add n Δt a to the speed, and Δt² C(n, 2) a - Δt² C(n + 1, 3) / 2 j
    # to the position, because speed is added before it changes
    n, dt = dynamics.SUBSTEPS, dynamics.DT
    mean = speed / (n * dt)
    growth = (dt**2 * comb(n, 2) * mean - place) / (dt**2 * comb(n + 1, 3) / 2)
    return as_rows(np.vstack([mean, growth]))


def _missing(model: Marble, X: Floats, after: Floats, entries: list[int]) -> Floats:
    """The model's error in two entries of the next state, linear in state and action: (2, 9), offsets last."""
    from sklearn.linear_model import HuberRegressor

    rows = []
    for entry in entries:
        learnt = residual(
            partial(_entry, model, entry), HuberRegressor(epsilon=1.05, alpha=0.0, max_iter=1000), n_particles=1
        )
        rows.append(np.append(*learnt.fit(X, after[:, [entry]]).linear_correction()))
    return np.array(rows)


def _entry(model: Marble, entry: int, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
    """One entry of the next state, as a model."""
    rows = np.repeat(X, n_particles, axis=0)
    return model.model_step(rows[:, :6], rows[:, 6:], rng)[:, entry].reshape(len(X), n_particles, 1)


# -- peg ------------------------------------------------------------------------------------------------------------------


def peg_correction(task: Peg, transitions: int, rng: np.random.Generator) -> Correction:
    """The displacement and the friction that the model misses; `transitions` are used for each of the two.

    - A linear regressor learns the error of the model's mean move, from transitions that start high above the rim.
    - Then the coefficient of friction is chosen with which the particles fit transitions in contact best, by energy score.
    """
    from scipy.optimize import minimize_scalar
    from sklearn.linear_model import LinearRegression

    from capture_lab.tasks.peg.model import Correction, PegModel
    from capture_lab.tasks.peg.settings import ACTION_UNIT

    n = whole_number("transitions", transitions, PEG_FEWEST)
    X = _in_the_air(task, n, rng)
    Y, _ = task.landings(X, rng)
    believed = (PegModel(task.settings)(X, PARTICLES, rng).mean(axis=1) - X[:, :3]) / ACTION_UNIT
    missing = LinearRegression().fit(believed, (Y - X[:, :3]) / ACTION_UNIT - believed)
    move = as_rows(np.hstack([np.eye(3) + missing.coef_, missing.intercept_[:, None]]))
    log = task.transitions(n, rng)
    noise, unit = rng.standard_normal((n, CLOUD, 3)), np.array([1.0, 1.0, task.settings.radius])

    def energy(friction: float) -> float:
        """Mean distance of particles from the outcome, less half of that from each other: smallest for the true law."""
        cloud = unit * PegModel(task.settings, Correction(move, friction)).step(log.X, noise)
        apart = np.linalg.norm(cloud[:, ::2] - cloud[:, 1::2], axis=2).mean()
        return float(np.linalg.norm(cloud - unit * log.Y[:, None], axis=2).mean() - 0.5 * apart)

    found = minimize_scalar(energy, bounds=(0.0, MOST_FRICTION), method="bounded", options={"xatol": 0.01})
    return Correction(move, float(found.x))


def _in_the_air(task: Peg, n: int, rng: np.random.Generator) -> Floats:
    """Inputs (n, 6): poses uniform over the box of the starts, but high above the rim; actions up to the bound."""
    lower, upper = task.strata._inner_box(1.5)
    poses = lower + (upper - lower) * rng.random((TRIES * n, 3))
    wide, tall = task.strata.shape.half_width, task.strata.shape.half_length
    lowest = poses[:, 1] - np.abs(np.sin(poses[:, 2])) * wide - np.cos(poses[:, 2]) * tall
    high = poses[lowest > PEG_AWAY][:n]
    if len(high) < n:
        raise CaptureError(
            f"the grid has too little space above a peg of {1e3 * task.settings.peg_length:.0f} mm to learn a correction in "
            "free space; use a shorter peg, or the uncorrected model."
        )
    return np.hstack([high, rng.uniform(-task.settings.bound, task.settings.bound, size=(n, 3))])


# -- shelf ----------------------------------------------------------------------------------------------------------------


def shelf_correction(task: ShelfTask, transitions: int, rng: np.random.Generator) -> Rows:
    """How far each joint moves, coasts, and sags under the jar: (7, 6), see `ShelfParams.motion`.

    For each joint, its move is regressed on the action, its velocity and the lever of the jar's weight, and so is its
    velocity afterwards.
    """
    from sklearn.linear_model import LinearRegression

    X = task.inputs(whole_number("transitions", transitions, SHELF_FEWEST), rng)
    after = task.true_step(X[:, :14], X[:, 14:], rng)
    free = np.ones(len(X), dtype=bool)
    for Y in (X[:, :7], after[:, :7]):
        free &= task.strata.distances(Y, within=2 * SHELF_AWAY).min(axis=1) > SHELF_AWAY
    if free.sum() < SHELF_FEWEST:
        raise CaptureError(
            f"only {int(free.sum())} of {len(X)} transitions are away from the shelf; expected {SHELF_FEWEST}."
        )
    levers, rows = task.jar_jacobians(X[:, :7])[:, 2], []
    for i in range(7):
        causes = np.stack([X[:, 14 + i], X[:, 7 + i], levers[:, i]], axis=1)[free]
        effects = np.stack([after[:, i] - X[:, i], after[:, 7 + i]], axis=1)[free]
        rows.append(LinearRegression(fit_intercept=False).fit(causes, effects).coef_.ravel())
    return as_rows(np.array(rows))
