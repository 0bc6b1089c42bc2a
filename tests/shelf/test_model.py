"""The approximate model: free moves, contact and limits against plain NumPy, and the same as particles and as a Gaussian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import numpy_shelf
from capture_lab.tasks.shelf.model import PARTS_OF_STEP, RATE, step
from shelf.arms import logged, task_at

pytest.importorskip("mujoco")

#: Where a motion depends on everything: action, velocity and the weight of the jar.
CORRECTION = tuple((0.9, 0.02, -0.03, 8.0, 0.1, -0.2) for _ in range(7))


def stepped(params, states, actions, noise):
    """States (n, 14) after the compiled step, of one particle each."""
    after = states.copy()
    for row, action, normals in zip(after, actions, noise):
        column = row[:, None].copy()
        step(column, action, normals[:, None], params)
        row[:] = column[:, 0]
    return after


def slow_step(params, X, noise, weight):
    """States (n, 14) after inputs X (n, 21) under standard normals (n, 7), with the levers (n, 7) of the jar, by NumPy."""
    q, stopped = X[:, :7], np.zeros((len(X), 1), dtype=bool)
    causes = np.stack([X[:, 14:] + params.noise * noise, X[:, 7:14], weight], axis=2)
    move, speed = ((params.motion[:, part] * causes).sum(axis=2) for part in (slice(3), slice(3, 6)))
    after = q
    for _ in range(PARTS_OF_STEP):
        after, pushed = numpy_shelf._pushed_out(np.clip(after + move / PARTS_OF_STEP, *params.limits), params)
        stopped |= pushed[:, None]
    return np.hstack([after, speed + RATE * (after - q - move) * stopped])


def free(n, seed=0):
    """States (n, 14) and actions (n, 7) that are far from the shelf before and after the step."""
    task, rng = task_at(), np.random.default_rng(seed)
    starts = task.starts(n)
    return np.hstack([starts[:, :7], rng.normal(0, 0.3, (n, 7))]), rng.uniform(-task.bounds, task.bounds, (n, 7))


@pytest.mark.parametrize("correction", [None, CORRECTION], ids=["believed", "corrected"])
def test_a_step_is_that_of_numpy(correction):
    params, X, rng = replace(task_at(), correction=correction).params, logged().X[:60], np.random.default_rng(0)
    noise = rng.standard_normal((len(X), 7))
    found = stepped(params, X[:, :14], X[:, 14:], noise)
    wanted = slow_step(params, X, noise, task_at().jar_jacobians(X[:, :7])[:, 2])
    # the nearest place on a capsule that lies flat is any of many
    apart = np.abs(found[:, :7] - wanted[:, :7]).max(axis=1)
    assert (apart < 1e-6).mean() > 0.95
    assert apart.max() < 0.05
    np.testing.assert_allclose(found[apart < 1e-6], wanted[apart < 1e-6], atol=2e-5)
    held = np.abs(found[:, :7] - X[:, :7] - X[:, 14:] - params.noise * noise).max(axis=1) > 1e-6
    assert held.sum() > 8


def test_boards_stop_the_arm():
    """Centimetres down onto the floor from just above it: what would go into it stays on it, and slides along it."""
    task = task_at()
    Y = logged().Y
    near = Y[task.strata.index(Y) == 1][:20]
    push = -task.jar_jacobians(near)[:, 2]
    push *= (0.04 / np.abs(push).max(axis=1))[:, None]
    free_way = near + push
    states = np.hstack([near, np.zeros((len(near), 7))])
    after = stepped(task.params, states, push, np.zeros((len(near), 7)))
    deep = task.strata.distances(free_way).min(axis=1) < -task.strata.solids.depth
    assert deep.sum() > 5
    assert (task.strata.distances(after[:, :7]).min(axis=1) > -1e-3)[deep].mean() > 0.9
    slower = np.linalg.norm(after[:, 7:], axis=1) < RATE * np.linalg.norm(push, axis=1)
    assert slower[deep].all()


# -- as particles and as a Gaussian ---------------------------------------------------------------------------------------


def test_particles_are_steps_with_noise_of_their_own():
    task, X = task_at(), logged().X[:40]
    found = task(X, 6, np.random.default_rng(2))
    noise = np.random.default_rng(2).standard_normal((40, 7, 6))
    for l in range(6):
        np.testing.assert_array_equal(found[:, l], stepped(task.params, X[:, :14], X[:, 14:], noise[:, :, l])[:, :7])
    after = task.model_step(X[:, :14], X[:, 14:], np.random.default_rng(3))
    noise = np.random.default_rng(3).standard_normal((40, 7, 1))
    np.testing.assert_array_equal(after, stepped(task.params, X[:, :14], X[:, 14:], noise[:, :, 0]))


def test_the_gaussian_is_the_step_without_noise_and_its_variance():
    task, (states, actions) = task_at(), free(10)
    X = np.hstack([states, actions])
    means, covariances = task.gaussian(X)
    np.testing.assert_array_equal(means, stepped(task.params, states, actions, np.zeros((10, 7)))[:, :7])
    np.testing.assert_allclose(covariances, np.tile(task.physics.noise**2 * np.eye(7), (10, 1, 1)))
    cloud = task(X, 2000, np.random.default_rng(4))
    assert np.abs(cloud.mean(axis=1) - means).max() < 5 * task.physics.noise / np.sqrt(2000)
    assert np.abs(cloud.std(axis=1) / task.physics.noise - 1).max() < 5 / np.sqrt(4000)
