"""The peg's methods, calibrated without a simulator: the model, moved 1.5 times as far, stands for the truth."""

from __future__ import annotations

from functools import cache

import numpy as np

from capture_cp import Tree, method
from capture_cp.capture.methods import METHODS
from capture_cp.spaces.grid import Grid
from capture_lab.tasks.peg.cspace import PegStrata
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.task import Peg

NAMES = METHODS
PARTICLES = 8
TASK = Peg()
#: Poses (mm, mm, degrees) of every kind: in the air, near the rim, flat on it, at the mouth, in the hole, at its bottom.
PLACES = {
    "air": (10, 40, 10),
    "corner": (-14, 27.1, 12),
    "flat": (15, 25.1, 0),
    "mouth": (0.2, 24, 0.5),
    "hole": (-0.1, 12, 0.2),
    "bottom": (0.1, 1.05, 0),
}


def place(name):
    return np.array(PLACES[name]) * ACTION_UNIT


def inputs(name, n, seed=0, bound=3.0):
    """Inputs (n, 6) from one place, with random actions."""
    actions = np.random.default_rng(seed).uniform(-bound, bound, size=(n, 3))
    return np.hstack([np.tile(place(name), (n, 1)), actions])


@cache
def coarse():
    """Strata on a grid so coarse that every cell of it can be looked at."""
    grid = Grid.between((-0.03, -0.01, -0.7), (0.03, 0.05, 0.7), (1e-3, 1e-3, 0.035))
    return PegStrata(PegSettings(), grid=grid)


@cache
def transitions(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    X = TASK.inputs(n, rng)
    pushed = X.copy()
    pushed[:, 3:] *= 1.5
    return X, TASK.model(pushed, 1, rng)[:, 0]


@cache
def calibrated(name="capture", strata=None):
    """A method on the task's strata, or on others."""
    space = TASK.strata if strata is None else strata
    cap = method(name, TASK, space, n_particles=PARTICLES, metric=TASK.metric, tree=Tree(per_stratum=False))
    X, Y = transitions()
    seen = space.index(Y) >= 0
    return cap.fit(X[seen], Y[seen])
