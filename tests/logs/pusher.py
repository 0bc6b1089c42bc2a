"""What a user's own module may look like: a model, strata, and some that will not do."""

import numpy as np

from capture_cp import FunctionStrata, Grid


def model(X, n_particles, rng):
    push = X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
    return np.clip(X[:, None, :2] + 1.2 * push, 0.0, 1.0)


def contact(Y):
    x, y = Y.T
    side, end = np.minimum(x, 1 - x), np.minimum(y, 1 - y)
    pillar = np.maximum.reduce([0.55 - x, x - 0.75, 0.3 - y, y - 0.6])
    distances = np.stack([side, end, pillar])
    return np.where(distances.min(axis=0) < -1e-9, -1, (distances < 0.015 + 1e-9).sum(axis=0))


strata = FunctionStrata(contact, ["free", "edge", "corner"], grid=Grid.between((-0.05, -0.05), (1.05, 1.05), 0.05))


def two_arguments(X, n_particles):
    return X


def flat(X, n_particles, rng):
    return X[:, :2]


def failing(X, n_particles, rng):
    return X[:, 99]


def failing_strata(Y):
    raise RuntimeError("no map loaded")


broken_strata = FunctionStrata(failing_strata, ["a"])
