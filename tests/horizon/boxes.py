"""Rollouts of the box with what its model predicts for them, and a line on which every score is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capture_cp import FunctionStrata, HorizonCapture, NearestParticles, Rollouts, Tree
from capture_cp.capture.horizon_particles import Cloud
from capture_lab.tasks.box import Box

AXES = (0, 1)
PARTICLES, K = 8, 4


def box_rollouts(box: Box, n: int, horizon: int, rng: np.random.Generator) -> Rollouts:
    starts = box.transitions(n, rng).state
    actions = rng.uniform(-0.15, 0.15, size=(n, horizon, 2))
    return Rollouts.simulate(box.true_step, starts, actions, AXES, rng)


def horizon_capture(box: Box, groups=None, **settings) -> HorizonCapture:
    settings = {"score": NearestParticles(K), "n_particles": PARTICLES} | settings
    return HorizonCapture(box.model_step, box.strata, AXES, groups=groups or Tree(min_leaf=20), **settings)


def rows(clouds, chosen) -> list[Cloud]:
    """The prediction of some of the rollouts."""
    return [Cloud(np.ascontiguousarray(c.x[chosen]), np.ascontiguousarray(c.particles[chosen])) for c in clouds]


@dataclass(frozen=True)
class Line:
    """Rollouts on a line whose score at each step is |c|: one particle at the origin. Strata are the two sides of it."""

    rollouts: Rollouts
    clouds: list[Cloud]

    @classmethod
    def of(cls, c, units=None) -> Line:
        c = np.asarray(c, dtype=float)[..., None]
        n, horizon, _ = c.shape
        rollouts = Rollouts.from_arrays(np.zeros((n, 1)), np.zeros((n, horizon, 1)), c, units)
        return cls(rollouts, [Cloud(np.zeros((n, 2)), np.zeros((n, 1, 1))) for _ in range(horizon)])

    @staticmethod
    def capture(groups) -> HorizonCapture:
        strata = FunctionStrata(lambda Y: (Y[:, 0] >= 0).astype(int), ["left", "right"])
        return HorizonCapture(lambda s, a, rng: s, strata, (0,), NearestParticles(1), groups, n_particles=1)

    def fit(self, groups, seed=0) -> HorizonCapture:
        return self.capture(groups).set_params(seed=seed).fit(self.rollouts, prediction=self.clouds)
