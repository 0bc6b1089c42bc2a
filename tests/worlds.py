"""Transitions of the built-in example with what its model predicts for them, and methods fitted on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp import Capture, Transitions, Tree, method
from capture_lab.tasks.box import Box

PARTICLES = 8


@dataclass(frozen=True)
class World:
    box: Box
    transitions: Transitions
    particles: np.ndarray  # (n, PARTICLES, 2)

    @cached_property
    def X(self) -> np.ndarray:
        return self.transitions.X

    @property
    def Y(self) -> np.ndarray:
        return self.transitions.Y

    @cached_property
    def m(self) -> np.ndarray:
        return self.box.strata.index(self.Y)

    def prediction(self, cap: Capture, rows: Any = slice(None)) -> Any:
        """The prediction of these rows in the form that the method takes."""
        return self.box.gaussian(self.X[rows]) if cap.score_.ambient else self.particles[rows]


def make_world(box: Box, n: int, seed: int) -> World:
    rng = np.random.default_rng(seed)
    transitions = box.transitions(n, rng)
    return World(box, transitions, box(transitions.X, PARTICLES, rng))


def fit(name: str, world: World, **settings: Any) -> Capture:
    cap = method(name, world.box, world.box.strata, n_particles=PARTICLES, **({"tree": Tree(min_leaf=40)} | settings))
    return cap.fit(world.X, world.Y, prediction=world.prediction(cap))
