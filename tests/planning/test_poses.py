"""A robot whose configuration is a pose, planned by the fused kernel: hazard cells of its regions, by the SE(2) metric."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from capture_cp import SE2, Capture, Grid, GridStrata, NearestParticles, PerStratum, Tree
from capture_cp.capture.horizon import HorizonCapture, Rollouts
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning import PythonRollout
from planning.plugins import fused_rollout

PARTICLES, HORIZON, SEED = 6, 3, 5
NOISE = np.array([0.05, 0.04, 0.2])
GRIDS = {
    "part of a turn": Grid([0.0, 0.0, -1.0], [0.1, 0.1, 0.25], [11, 9, 9]),
    "full turn": Grid([0.0, 0.0, 0.0], [0.1, 0.1, 2 * np.pi / 16], [11, 9, 16], periodic=(2,)),
}
STARTS = {"part of a turn": [0.4, 0.4, 0.1], "full turn": [0.5, 0.4, np.pi - 0.1]}


class Turning(NamedTuple):
    noise: np.ndarray


@njit(cache=True)
def turning_step(states, action, noise, params):
    """Moves and turns by the action, with noise on all of it."""
    for l in range(states.shape[1]):
        for axis in range(3):
            states[axis, l] += action[axis] + params.noise[axis] * noise[axis, l]


@njit(cache=True)
def hazard_alone(mean, action, hazard, h, horizon, params):
    return 1.0 * hazard


def model(X, n_particles, rng):
    return (X[:, :3] + X[:, 3:])[:, None] + NOISE * rng.standard_normal((len(X), n_particles, 3))


@cache
def strata(name):
    grid = GRIDS[name]
    centres = grid.centre(np.arange(grid.size))
    labels = np.where(centres[:, 0] + centres[:, 1] > 1.5, -1, (centres[:, 0] > 0.5).astype(int))
    return GridStrata(grid, labels, ["left", "right"])


def inputs(name, n, rng):
    grid = GRIDS[name]
    feasible = np.flatnonzero(strata(name).labels >= 0)
    return np.hstack([grid.centre(rng.choice(feasible, n)), rng.uniform(-0.1, 0.1, size=(n, 3))])


@cache
def calibrated(name, k=3):
    rng = np.random.default_rng(0)
    X = inputs(name, 3000, rng)
    Y = model(X, 1, rng)[:, 0] + 0.3 * X[:, 3:]
    seen = strata(name).index(Y) >= 0
    cap = Capture(model, strata(name), NearestParticles(k, SE2(0.5)), Tree(min_leaf=100), n_particles=PARTICLES)
    return cap.fit(X[seen], Y[seen])


def hazard_mask(name):
    centres = strata(name).grid.centre(np.arange(strata(name).grid.size))
    return (np.abs(centres[:, 0] - 0.55) < 0.2) & (np.cos(centres[:, 2]) < 0.99)


def fused(cap, name, **options):
    params = Turning(NOISE)
    return fused_rollout(cap, turning_step, hazard_alone, params, hazard_mask(name), (0, 1, 2), 3, **options)


def sequences(n=5):
    return np.random.default_rng(1).uniform(-0.1, 0.1, size=(n, HORIZON, 3))


def kernel_noise(samples):
    """Standard normals (N, H, L, 3) of the kernel."""
    noise = np.empty((samples, HORIZON, PARTICLES, 3))
    for i, h, l in np.ndindex(noise.shape[:3]):
        key, counter = np.uint64(stream(np.uint64(SEED), i)), 2 * (h * PARTICLES + l)
        noise[i, h, l] = *normal_pair(key, counter), normal_pair(key, counter + 1)[0]
    return noise


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", GRIDS)
def test_hazard_is_found_by_looking_at_every_cell(name, k):
    cap, start, mask = calibrated(name, k), np.array(STARTS[name]), hazard_mask(name)
    grid, labels = strata(name).grid, strata(name).labels
    centres, asked = grid.centre(np.arange(grid.size)), sequences()
    found, noise, met = fused(cap, name)(start, asked, SEED), kernel_noise(len(asked)), 0
    for i in range(len(asked)):
        cloud = np.tile(start, (PARTICLES, 1))
        for h in range(HORIZON):
            q = cap.thresholds(np.append(cloud.mean(axis=0), asked[i, h])[None], 0.1)[0]
            cloud = cloud + asked[i, h] + NOISE * noise[i, h]
            apart = np.sort(SE2(0.5).distance(centres[:, None], cloud), axis=1)[:, k - 1]
            wanted = int((mask & (labels >= 0) & (apart <= q[labels])).sum())
            assert found[i, h] == wanted
            met += wanted
    assert met > 100


@pytest.mark.parametrize("name", GRIDS)
def test_particles_on_hazard_cells_count_too(name):
    cap, start, asked = calibrated(name), np.array(STARTS[name]), sequences()
    extra = fused(cap, name, count_particles=True)(start, asked, SEED) - fused(cap, name)(start, asked, SEED)
    clouds = start + np.cumsum(asked[:, :, None] + NOISE * kernel_noise(len(asked)), axis=1)
    cells = strata(name).grid.cell(clouds.reshape(-1, 3)).reshape(clouds.shape[:3])
    np.testing.assert_array_equal(extra, ((cells >= 0) & hazard_mask(name)[cells]).sum(axis=2))


@pytest.mark.parametrize("limit", [np.inf, -1.0])
def test_regions_that_are_whole_strata_or_empty(limit):
    name = "full turn"
    rollout = fused(calibrated(name), name)
    rollout.thresholds = np.full_like(rollout.thresholds, limit)
    wanted = int((hazard_mask(name) & (strata(name).labels >= 0)).sum()) if limit > 0 else 0
    assert (rollout(np.array(STARTS[name]), sequences(), SEED) == wanted).all()


def test_regions_of_a_horizon_are_those_of_the_python_path():
    name, rng = "full turn", np.random.default_rng(2)
    X, steps = inputs(name, 2000, rng), []
    state = X[:, :3]
    for _ in range(HORIZON):
        state = model(np.hstack([state, X[:, 3:]]), 1, rng)[:, 0]
        steps.append(state)
    poses = np.stack(steps, axis=1)
    held = (strata(name).index(poses.reshape(-1, 3)) >= 0).reshape(len(X), -1).all(axis=1)
    rollouts = Rollouts.from_arrays(X[held, :3], np.repeat(X[held, None, 3:], HORIZON, axis=1), poses[held])
    score = NearestParticles(3, SE2(0.5))
    cap = HorizonCapture(lambda s, a, rng: model(np.hstack([s, a]), 1, rng)[:, 0], strata(name), (0, 1, 2), score,
                         PerStratum(), PARTICLES).fit(rollouts)  # fmt: skip
    quick = fused(cap, name, compare_step=False)
    quick._draws = False
    slow = PythonRollout(
        cap, lambda s, a, rng: s + a, lambda stage: stage.hazard.astype(float), hazard_mask(name), (0, 1, 2)
    )
    start = np.array(STARTS[name])
    np.testing.assert_array_equal(quick(start, sequences(), SEED), slow(start, sequences(), SEED))
