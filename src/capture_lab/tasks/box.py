"""A point in a box with a pillar: the smallest system with free motion, edges and corners.

The state is the position (x, y), the action a push (ax, ay). The true system moves 1.5 times as far as the model predicts,
both have the same noise, and both slide along walls. It has the essentials of the method and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.planning.rollout import Stage
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import GridStrata
from capture_lab.tasks.task import Task

SUBMOVES = 16
#: Episodes lead from a start to within a radius of a goal, past a patch that also ends them.
START, GOAL, NEAR = (0.1, 0.85), (0.9, 0.85), 0.06
PATCH = (0.4, 0.8), (0.5, 0.9)


@dataclass(frozen=True)
class BoxWeights:
    """Weights of the box's objective.

    Attributes:
        away: weight of the distance to the goal after every step.
        patch: weight of every cell of the patch in a region.
    """

    away: float = 1.0
    patch: float = 0.05


@dataclass(frozen=True)
class Box(Task):
    """The unit box with a pillar in it, and its two dynamics.

    Attributes:
        true_gain: distance that the true system moves per unit of push; the model assumes 1.
        noise: standard deviation of the push noise on each axis.
        bound: largest push on each axis.
        spacing: grid cell size.
        touch: distance to a wall that counts as contact.
        pillar: x and y intervals that are solid.
    """

    name = "box"
    axes = (0, 1)
    states = ("x", "y")
    actions = ("push_x", "push_y")
    max_steps = 30
    weights = BoxWeights

    true_gain: float = 1.5
    noise: float = 0.02
    bound: float = 0.4
    spacing: float = 0.01
    touch: float = 0.015
    pillar: tuple[tuple[float, float], tuple[float, float]] = ((0.55, 0.75), (0.3, 0.6))

    @cached_property
    def strata(self) -> GridStrata:
        """Free space, edges (contact with one wall or the pillar) and corners (two walls), on a grid larger than the box."""
        margin = 5 * self.spacing
        grid = Grid.between((-margin, -margin), (1 + margin, 1 + margin), self.spacing)
        x, y = grid.centre(np.arange(grid.size)).T
        (left, right), (bottom, top) = self.pillar
        tiny = 1e-9
        near = self.touch + tiny
        touches_side = (x < near) | (x > 1 - near)
        touches_end = (y < near) | (y > 1 - near)
        touches_pillar = (x > left - near) & (x < right + near) & (y > bottom - near) & (y < top + near)
        labels = touches_side.astype(int) + touches_end + touches_pillar
        # a cell is feasible if any of it is, so that a point against a wall always has a stratum
        half = self.spacing / 2 + tiny
        solid = (x > left + half) & (x < right - half) & (y > bottom + half) & (y < top - half)
        outside = (np.minimum(x, y) < -half) | (np.maximum(x, y) > 1 + half)
        return GridStrata(grid, np.where(solid | outside, -1, labels), ("free", "edge", "corner"))

    def step(self, state: Floats, push: Floats, gain: float) -> Floats:
        """Positions (..., 2) after a push (..., 2), stopped by walls and sliding along them."""
        (left, right), (bottom, top) = self.pillar
        position = np.array(np.broadcast_to(state, push.shape))
        for _ in range(SUBMOVES):
            position = np.clip(position + gain * push / SUBMOVES, 0.0, 1.0)
            depth = np.stack(
                [position[..., 0] - left, right - position[..., 0], position[..., 1] - bottom, top - position[..., 1]]
            )
            face = np.where((depth > 0).all(axis=0), depth.argmin(axis=0), -1)
            for number, (axis, wall) in enumerate([(0, left), (0, right), (1, bottom), (1, top)]):
                position[..., axis] = np.where(face == number, wall, position[..., axis])
        return position

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 2) by the approximate model, one particle each."""
        return self.step(states, actions + self.noise * rng.standard_normal(actions.shape), gain=1.0)

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 2) of the true system."""
        return self.step(states, actions + self.noise * rng.standard_normal(actions.shape), self.true_gain)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The model as a Gaussian, for LUCCa: its noise-free step and the variance of its noise."""
        return self.step(X[:, :2], X[:, 2:], gain=1.0), np.tile(self.noise**2 * np.eye(2), (len(X), 1, 1))

    model = Task.__call__

    @property
    def bounds(self) -> Floats:
        return np.full(2, self.bound)

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """Uniform feasible positions and uniform pushes, (n, 4)."""
        return np.hstack([self._positions(n, rng), rng.uniform(-self.bound, self.bound, size=(n, 2))])

    def _positions(self, n: int, rng: np.random.Generator) -> Floats:
        (left, right), (bottom, top) = self.pillar
        kept: list[Floats] = []
        while sum(map(len, kept)) < n:
            tried = rng.random((2 * n, 2))
            solid = (tried[:, 0] > left) & (tried[:, 0] < right) & (tried[:, 1] > bottom) & (tried[:, 1] < top)
            kept.append(tried[~solid])
        return np.concatenate(kept)[:n]

    # -- closed loop --------------------------------------------------------------------------------------------------

    @property
    def hazard(self) -> Bools:
        grid = self.strata.require_grid()
        return _in_patch(grid.centre(np.arange(grid.size)))

    def cost(self, stage: Stage, weights: BoxWeights) -> Floats:
        """The distance of the mean particle to the goal, and cells of the patch in the region: (N,)."""
        away = np.linalg.norm(stage.mean - GOAL, axis=1)
        return np.asarray(weights.away * away + weights.patch * stage.hazard)

    def starts(self, n: int) -> Floats:
        return np.tile(START, (n, 1))

    def brake(self, states: Floats) -> Floats:
        """No push, for a `BrakingFilter`: a point without speed then stays in place, apart from the noise."""
        return np.zeros((len(states), 2))

    def outcome(self, state: Floats) -> str | None:
        if _in_patch(state):
            return "fell"
        return "success" if np.linalg.norm(state - GOAL) < NEAR else None


def _in_patch(positions: Floats) -> Bools:
    """Whether positions (..., 2) lie in the patch."""
    return np.asarray(((positions > PATCH[0]) & (positions < PATCH[1])).all(axis=-1))
