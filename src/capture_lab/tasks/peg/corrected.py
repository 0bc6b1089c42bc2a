"""A correction of the peg's approximate model, learnt from true transitions: of its displacement, and of its friction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_lab.tasks.peg.model import Correction, PegModel
from capture_lab.tasks.peg.settings import ACTION_UNIT
from capture_lab.tasks.peg.task import Peg

FEWEST = 100  # minimum number of transitions
AWAY = 1e-2  # m above the rim, out of reach of a control step
MOST_FRICTION = 2.0
_TRIES = 20  # poses drawn for each that is kept
_PARTICLES = 256  # per predicted move
_CLOUD = 32  # particles of a score


def corrected(task: Peg, transitions: int, rng: np.random.Generator) -> Peg:
    """The task with a model whose displacement and friction were learnt from separate true transitions.

    - A linear regressor learns the error of the model's mean move, from transitions that start too high above the rim to
      meet anything: contact would look like a bias. It corrects the commanded move, so that walls stop a corrected peg
      like any other.
    - Then the coefficient of friction is chosen with which the particles fit transitions in contact best, by energy score.

    `transitions` are used for each of the two.
    """
    n = whole_number("transitions", transitions, FEWEST)
    move = _learnt_move(task, n, rng)
    return replace(task, correction=Correction(move, _learnt_friction(task, move, n, rng)))


def _learnt_move(task: Peg, n: int, rng: np.random.Generator) -> tuple[tuple[float, ...], ...]:
    from sklearn.linear_model import LinearRegression

    X = _in_the_air(task, n, rng)
    Y, _ = task.landings(X, rng)
    believed = (PegModel(task.settings)(X, _PARTICLES, rng).mean(axis=1) - X[:, :3]) / ACTION_UNIT
    missing = LinearRegression().fit(believed, (Y - X[:, :3]) / ACTION_UNIT - believed)
    rows = np.hstack([np.eye(3) + missing.coef_, missing.intercept_[:, None]])
    return tuple(tuple(row) for row in rows.tolist())


def _learnt_friction(task: Peg, move: tuple[tuple[float, ...], ...], n: int, rng: np.random.Generator) -> float:
    from scipy.optimize import minimize_scalar

    log = task.transitions(n, rng)
    noise, unit = rng.standard_normal((n, _CLOUD, 3)), np.array([1.0, 1.0, task.settings.radius])

    def energy(friction: float) -> float:
        """Mean distance of particles from the outcome, less half of that from each other: smallest for the true law."""
        cloud = unit * PegModel(task.settings, Correction(move, friction)).step(log.X, noise)
        apart = np.linalg.norm(cloud[:, ::2] - cloud[:, 1::2], axis=2).mean()
        return float(np.linalg.norm(cloud - unit * log.Y[:, None], axis=2).mean() - 0.5 * apart)

    found = minimize_scalar(energy, bounds=(0.0, MOST_FRICTION), method="bounded", options={"xatol": 0.01})
    return float(found.x)


def _in_the_air(task: Peg, n: int, rng: np.random.Generator) -> Floats:
    """Inputs (n, 6): poses uniform over the box of the starts, but AWAY or more above the rim; actions up to the bound."""
    lower, upper = task.strata._inner_box(1.5)
    poses = lower + (upper - lower) * rng.random((_TRIES * n, 3))
    wide, tall = task.strata.shape.half_width, task.strata.shape.half_length
    lowest = poses[:, 1] - np.abs(np.sin(poses[:, 2])) * wide - np.cos(poses[:, 2]) * tall
    high = poses[lowest > AWAY][:n]
    if len(high) < n:
        raise CaptureError(
            f"the grid has too little space above a peg of {1e3 * task.settings.peg_length:.0f} mm to learn a correction in "
            "free space; use a shorter peg, or the uncorrected model."
        )
    return np.hstack([high, rng.uniform(-task.settings.bound, task.settings.bound, size=(n, 3))])
