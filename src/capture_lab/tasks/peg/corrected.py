"""The peg's approximate model with a learnt correction of its displacement and of its friction in contact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import CaptureError, Floats, finite_array, shortened, whole_number
from capture_cp.kernels.compiler import parallel_kernel
from capture_lab.tasks.peg.model import PegModel, disturbed, walk
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.task import Peg


class Correction(NamedTuple):
    """The correction of the model.

    Attributes:
        move: rows of a (3, 4) matrix: the corrected move along x, z and theta, linear in the predicted one, offset last.
        friction: length by which a move along a wall is reduced for every length that it is pressed into the wall.
    """

    move: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    friction: float = 0.0


NO_CORRECTION = Correction()
FEWEST = 100  # minimum number of transitions
AWAY = 1e-2  # m above the rim, out of reach of a control step
MOST_FRICTION = 2.0
_TRIES = 20  # poses drawn for each that is kept
_PARTICLES = 256  # per predicted move
_CLOUD = 32  # particles of a score
_LENGTH, _ANGLE = float(ACTION_UNIT[0]), float(ACTION_UNIT[2])


@njit(cache=True)
def corrected_move(pose, action, noise, move, friction, params):
    """A pose (3,) after an action (3,) under standard normals (3,): x, z, theta. `move` (3, 4) is that of a correction."""
    a, b, c = (
        disturbed(action[0], noise[0], params),
        disturbed(action[1], noise[1], params),
        disturbed(action[2], noise[2], params),
    )
    dx = _LENGTH * (move[0, 0] * a + move[0, 1] * b + move[0, 2] * c + move[0, 3])
    dz = _LENGTH * (move[1, 0] * a + move[1, 1] * b + move[1, 2] * c + move[1, 3])
    turn = _ANGLE * (move[2, 0] * a + move[2, 1] * b + move[2, 2] * c + move[2, 3])
    return walk(pose[0], pose[1], pose[2], dx, dz, turn, friction, params)


@parallel_kernel(cache=True)
def _step_all(X, noise, move, friction, params):
    """Particles (n, L, 3) of inputs X (n, 6) under standard normals (n, L, 3)."""
    after = np.empty_like(noise)
    for i in prange(X.shape[0]):
        for l in range(noise.shape[1]):
            x, z, theta = corrected_move(X[i, :3], X[i, 3:], noise[i, l], move, friction, params)
            after[i, l, 0], after[i, l, 1], after[i, l, 2] = x, z, theta
    return after


class CorrectedModel(PegModel):
    """The model c' = c + C (clip(a + ε), 1) with contacts and friction: disturbances are corrected as actions are."""

    def __init__(self, settings: PegSettings, correction: Correction) -> None:
        super().__init__(settings)
        self.correction = correction

    def _step(self, X: Floats, noise: Floats) -> Floats:
        move, friction = self.correction
        return np.asarray(_step_all(X, noise, np.array(move), friction, self.params))


@dataclass(frozen=True)
class CorrectedPeg(Peg):
    """The task with a corrected model; strata, true system and transitions are the same.

    Attributes:
        correction: see `corrected`.
    """

    correction: Correction = NO_CORRECTION

    @cached_property
    def model(self) -> CorrectedModel:
        return CorrectedModel(self.settings, self.correction)


def recorded_correction(task: Peg, given: Any) -> CorrectedPeg:
    """The task with the correction of a recorded episode, read from JSON: moves (3, 4), and a coefficient of friction."""
    try:
        move, friction = given
        rows = finite_array("the correction of the episode", move, (3, 4), "(3, 4)").tolist()
        correction = Correction(tuple(tuple(row) for row in rows), float(friction))
    except (TypeError, ValueError):
        raise CaptureError(
            f"the correction of the episode is {shortened(str(given), 80)}; expected moves (3, 4) and a friction."
        ) from None
    return _with(task, correction)


def corrected(task: Peg, transitions: int, rng: np.random.Generator) -> CorrectedPeg:
    """The task with a model whose displacement and friction were learnt from separate true transitions.

    - A linear regressor learns the error of the model's mean move, from transitions that start too high above the rim to
      meet anything: contact would look like a bias. It corrects the commanded move, so that walls stop a corrected peg
      like any other.
    - Then the coefficient of friction is chosen with which the particles fit transitions in contact best, by energy score.

    `transitions` are used for each of the two.
    """
    n = whole_number("transitions", transitions, FEWEST)
    move = _learnt_move(task, n, rng)
    friction = _learnt_friction(task, move, n, rng)
    return _with(task, Correction(move, friction))


def _with(task: Peg, correction: Correction) -> CorrectedPeg:
    given = task.settings, task.system, task.trim, correction
    return CorrectedPeg(*given, threads=task.threads)


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
    noise, params = rng.standard_normal((n, _CLOUD, 3)), PegModel(task.settings).params
    unit = np.array([1.0, 1.0, task.settings.radius])

    def energy(friction: float) -> float:
        """Mean distance of particles from the outcome, less half of that from each other: smallest for the true law."""
        cloud = unit * _step_all(log.X, noise, np.array(move), friction, params)
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
