"""The peg's approximate model with its bias learnt away: a linear correction of the move, before contact is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit, prange

from capture_cp.checks import CaptureError, Floats, whole_number
from capture_cp.tasks.peg.model import PegModel, _disturbed, walk
from capture_cp.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_cp.tasks.peg.task import Peg

#: Rows of a correction: what the move along x, z and theta becomes, linear in the believed move; the offset is last.
Correction = tuple[tuple[float, ...], ...]
NO_CORRECTION: Correction = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
FEWEST = 100  # transitions to learn from
AWAY = 1e-2  # m above the rim, out of reach of a control step
_TRIES = 20  # poses drawn for each that is kept
_PARTICLES = 256  # behind each believed move
_LENGTH, _ANGLE = float(ACTION_UNIT[0]), float(ACTION_UNIT[2])


@njit(cache=True)
def corrected_move(pose, action, noise, correction, params):  # type: ignore[no-untyped-def]
    """A pose (3,) after an action (3,) under standard normals (3,): x, z, theta. `correction` is (3, 4)."""
    a, b, c = (
        _disturbed(action[0], noise[0], params),
        _disturbed(action[1], noise[1], params),
        _disturbed(action[2], noise[2], params),
    )
    C = correction
    dx = _LENGTH * (C[0, 0] * a + C[0, 1] * b + C[0, 2] * c + C[0, 3])
    dz = _LENGTH * (C[1, 0] * a + C[1, 1] * b + C[1, 2] * c + C[1, 3])
    turn = _ANGLE * (C[2, 0] * a + C[2, 1] * b + C[2, 2] * c + C[2, 3])
    return walk(pose[0], pose[1], pose[2], dx, dz, turn, params)


@njit(cache=True, parallel=True, nogil=True)
def _step_all(X, noise, correction, params):  # type: ignore[no-untyped-def]
    """Particles (n, L, 3) of inputs X (n, 6) under standard normals (n, L, 3)."""
    after = np.empty_like(noise)
    for i in prange(X.shape[0]):
        for l in range(noise.shape[1]):
            after[i, l, 0], after[i, l, 1], after[i, l, 2] = corrected_move(
                X[i, :3], X[i, 3:], noise[i, l], correction, params
            )
    return after


class CorrectedModel(PegModel):
    """The model c' = c + C (clip(a + ε), 1), contacts considered: what is wrong with actions is wrong with disturbances."""

    def __init__(self, settings: PegSettings, correction: Correction) -> None:
        super().__init__(settings)
        self.correction: Floats = np.array(correction)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, 3) of the next pose. The same for any number of threads."""
        inputs, particles = self._checked(X), whole_number("n_particles", n_particles, 1)
        noise = rng.standard_normal((len(inputs), particles, 3))
        return np.asarray(_step_all(inputs, noise, self.correction, self.params))


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


def corrected(task: Peg, transitions: int, rng: np.random.Generator) -> CorrectedPeg:
    """The task with a model that has learnt, from true transitions of its own, how far it moves.

    A linear regressor learns what the model's mean move misses, from transitions that start too high above the rim to meet
    anything: contact would look like a bias. What it learns corrects the move that is asked for, so that walls stop a
    corrected peg as they stop any other.
    """
    from sklearn.linear_model import LinearRegression

    X = _in_the_air(task, whole_number("transitions", transitions, FEWEST), rng)
    Y, _ = task.outcomes(X, rng)
    believed = (PegModel(task.settings)(X, _PARTICLES, rng).mean(axis=1) - X[:, :3]) / ACTION_UNIT
    missing = LinearRegression().fit(believed, (Y - X[:, :3]) / ACTION_UNIT - believed)
    rows = np.hstack([np.eye(3) + missing.coef_, missing.intercept_[:, None]])
    return CorrectedPeg(task.settings, task.system, task.trim, tuple(tuple(row) for row in rows.tolist()))


def _in_the_air(task: Peg, n: int, rng: np.random.Generator) -> Floats:
    """Inputs (n, 6): poses uniform over the box of the starts, but AWAY or more above the rim; actions up to the bound."""
    lower, upper = task.strata._inner_box(1.5)
    poses = lower + (upper - lower) * rng.random((_TRIES * n, 3))
    wide, tall = (task.strata.shape.half_width, task.strata.shape.half_length)
    lowest = poses[:, 1] - np.abs(np.sin(poses[:, 2])) * wide - np.cos(poses[:, 2]) * tall
    high = poses[lowest > AWAY][:n]
    if len(high) < n:
        raise CaptureError(
            f"the grid has too little room above a peg of {1e3 * task.settings.peg_length:.0f} mm to learn a correction in "
            "the air; use a shorter peg, or the model as it is."
        )
    return np.hstack([high, rng.uniform(-task.settings.bound, task.settings.bound, size=(n, 3))])
