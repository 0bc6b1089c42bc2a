"""The marble task: one map with its strata, its true system, its approximate model and its transitions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb
from typing import Literal, get_args

import numpy as np

from capture_cp.base.checks import Floats, Ints, finite_array, known_name, whole_number
from capture_cp.data.transitions import Transitions
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.cspace import MarbleStrata
from capture_cp.tasks.marble.maps import MILLIMETRE, Map

Design = Literal["grid", "random"]

STATE_NAMES = ("x", "vx", "y", "vy", "alpha", "beta")
ACTION_NAMES = ("omega1", "omega2")
NEXT_NAMES = ("next_x", "next_y")

GRID_POSITIONS = 8
#: A grid position in collision is moved out if that takes at most this (m), about half a wall and the marble's radius.
FARTHEST_MOVE = 11e-3


@dataclass(frozen=True)
class Marble:
    """A marble on one map.

    Attributes:
        map: walls, pits, start and goal.
        absorb: whether pits and the goal stop the marble (as in planning) or count as floor (as in the paper's coverage
            study, whose grid of start positions includes the pits).
        model_gain: acceleration that the approximate model believes in; the true system has twice the default.
        correction: what the approximate model adds to its acceleration, (4, 9): the mean over a step on both axes, then how
            much it grows each substep; coefficients of state and action, and an offset. See `corrected`.
    """

    map: Map
    absorb: bool = False
    model_gain: float = dynamics.MODEL_GAIN
    correction: tuple[tuple[float, ...], ...] | None = None

    @cached_property
    def strata(self) -> MarbleStrata:
        return MarbleStrata(self.map)

    # -- dynamics -----------------------------------------------------------------------------------------------------

    def step(
        self, states: Floats, actions: Floats, noise: Floats, gain: float, extra: Floats | None = None
    ) -> tuple[Floats, Ints]:
        """Next states (n, 6) and outcomes (n,) of a control step; `noise` (n, 2) is added to the actions (n, 2).

        `extra` (n, 4) is an acceleration beside that of the tilt, see `dynamics.step`.
        """
        n = len(states)
        state = finite_array("states", states, (n, 6), "(n, 6)")
        action, eps = (finite_array("actions and noise", part, (n, 2), "(n, 2)") for part in (actions, noise))
        extra = np.zeros((n, 4)) if extra is None else extra
        after, outcomes = dynamics.step_all(state, action, eps, extra, gain, self.absorb, self.map.geometry)
        return np.asarray(after), np.asarray(outcomes)

    def believed_step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        """Next states (n, 6) by the approximate model under given noise (n, 2)."""
        extra = None
        if self.correction is not None:
            terms = np.array(self.correction)
            extra = np.ascontiguousarray(np.hstack([states, actions]) @ terms[:, :-1].T + terms[:, -1])
        return self.step(states, actions, noise, self.model_gain, extra)[0]

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 6) by the approximate model, with noise of its own."""
        return self.believed_step(states, actions, dynamics.NOISE * rng.standard_normal((len(states), 2)))

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 6) of the true system."""
        return self.step(states, actions, dynamics.NOISE * rng.standard_normal((len(states), 2)), dynamics.TRUE_GAIN)[0]

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats:
        """`draws` next positions of the true system for each input X (n, 8): (n, draws, 2).

        Row i draws its noise from stream `first + i` of the seed, from number `first_draw` on: the same outcomes whatever
        the number of threads, and however rows and draws are batched.
        """
        states, actions = np.ascontiguousarray(X[:, :6]), np.ascontiguousarray(X[:, 6:])
        gain = dynamics.TRUE_GAIN
        return np.asarray(
            dynamics.sample_positions(states, actions, draws, seed, first, first_draw, gain, self.absorb, self.map.geometry)
        )

    def model(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """The approximate model: particles (n, L, 2) of the next position, with half the true acceleration."""
        rows = np.repeat(X, n_particles, axis=0)
        return self.model_step(rows[:, :6], rows[:, 6:], rng)[:, [0, 2]].reshape(len(X), n_particles, 2)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        return self.model(X, n_particles, rng)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The approximate model as a Gaussian: its noise-free step, walls included, and its linear covariance.

        Action noise reaches the position through tilt, speed and position: after n substeps with weight C(n, 3) Δt³.
        """
        after = self.believed_step(X[:, :6], X[:, 6:], np.zeros((len(X), 2)))
        weight = comb(dynamics.SUBSTEPS, 3) * dynamics.DT**3 * self.model_gain * dynamics.ROLLING
        variance = (weight * dynamics.NOISE) ** 2
        return after[:, [0, 2]], np.tile(variance * np.eye(2), (len(X), 1, 1))

    def fingerprint(self) -> str:
        """Digest of everything that the model depends on."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    # -- data ---------------------------------------------------------------------------------------------------------

    def transitions(self, design: Design, draws: int, rng: np.random.Generator) -> Transitions:
        """Transitions of the true system: `draws` for each input of a design."""
        X = np.repeat(self.inputs(design, rng), whole_number("draws", draws, 1), axis=0)
        after, _ = self.step(X[:, :6], X[:, 6:], dynamics.NOISE * rng.standard_normal((len(X), 2)), dynamics.TRUE_GAIN)
        return Transitions.from_arrays(X[:, :6], X[:, 6:], after[:, [0, 2]], STATE_NAMES, ACTION_NAMES, NEXT_NAMES)

    def inputs(self, design: Design, rng: np.random.Generator) -> Floats:
        """State-action pairs (n, 8): the paper's Cartesian grid, or as many drawn uniformly over what is feasible."""
        known_name("design", design, get_args(Design))
        grid = self._grid_inputs()
        return grid if design == "grid" else self.random_inputs(len(grid), rng)

    def _grid_inputs(self) -> Floats:
        speed, tilt, action = dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_ACTION
        speeds, tilts, actions = np.linspace(-speed, speed, 3), np.linspace(-tilt, tilt, 3), np.linspace(-action, action, 4)
        rest = np.array(list(product(speeds, speeds, tilts, tilts, actions, actions)))
        positions = self._grid_positions()
        X = np.empty((len(positions), len(rest), 8))
        X[:, :, 0], X[:, :, 2] = positions[:, None, 0], positions[:, None, 1]
        X[:, :, [1, 3, 4, 5, 6, 7]] = rest
        return X.reshape(-1, 8)

    def _grid_positions(self) -> Floats:
        width, height = (side * MILLIMETRE for side in self.map.size)
        wanted = np.array(list(product(np.linspace(0, width, GRID_POSITIONS), np.linspace(0, height, GRID_POSITIONS))))
        moved = self.strata.nearest_free(wanted)
        return np.asarray(moved[np.linalg.norm(moved - wanted, axis=1) <= FARTHEST_MOVE])

    def random_inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """State-action pairs (n, 8) drawn uniformly over what is feasible."""
        positions = np.empty((0, 2))
        while len(positions) < n:
            tried = rng.random((n, 2)) * np.array(self.map.size) * MILLIMETRE
            positions = np.concatenate([positions, tried[self.map.clearance(tried) >= 0]])
        bounds = [dynamics.MAX_SPEED, dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_TILT]
        rest = rng.uniform(-1, 1, size=(n, 6)) * [*bounds, dynamics.MAX_ACTION, dynamics.MAX_ACTION]
        X = np.empty((n, 8))
        X[:, [0, 2]] = positions[:n]
        X[:, [1, 3, 4, 5, 6, 7]] = rest
        return X
