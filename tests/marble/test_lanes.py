"""Many particles at once move as each would alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp.kernels.eight import SIXTEEN
from capture_cp.tasks.marble.planner import marble_params
from capture_cp.tasks.marble.planner import step_one_by_one as one_by_one
from capture_cp.tasks.marble.task import Marble
from marble.boards import REAL, board, feasible_positions, states
from marble.boards import model_step_of_rollouts as together

#: Walls that wedge the marble between two corners, and between a corner and a side of the board.
TIGHT = Marble(board((20, 0, 24, 40), (33, 20, 37, 60), (0, 85, 40, 88), size=(80, 95), pits=[(60, 20)], pit_radius=8))
#: A marble that passes thin walls in one substep, and more walls around it than are tested for many particles at once.
SMALL = Marble(board((20, 0, 21, 60), (40, 30, 41, 100), (0, 70, 30, 71), marble_radius=2.5, pits=[(60, 20)], pit_radius=8))
CROWDED = Marble(board(*[(x, y, x + 1, y + 1) for x in range(20, 60, 6) for y in range(20, 60, 6)], marble_radius=2.4))
TASKS = [*REAL.values(), TIGHT, SMALL, CROWDED]


def steps(task: Marble, particles: int, seed: int, count: int = 8) -> None:
    """Steps of both kinds from random states, most of them close together, compared to the last bit."""
    rng = np.random.default_rng(seed)
    params = marble_params(task, task.model_gain)
    positions = feasible_positions(task, 20 + 4 * particles, rng)[:particles]
    found = states(positions, rng.uniform(-0.3, 0.3, (particles, 2)), rng.uniform(-0.175, 0.175, (particles, 2))).T
    close = rng.random(particles) < 0.7
    found[:, close] = found[:, [0]]
    alone = np.ascontiguousarray(found)
    found = alone.copy()
    for _ in range(count):
        action, noise = rng.uniform(-0.5, 0.5, 2), rng.standard_normal((2, particles))
        together(found, action, noise, params)
        one_by_one(alone, action, noise, params)
        np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("particles", [1, 2, SIXTEEN - 1, SIXTEEN, SIXTEEN + 1, 3 * SIXTEEN + 5])
def test_any_number_of_particles(particles):
    steps(REAL["center"], particles, particles)


@given(st.sampled_from(TASKS), st.integers(0, 2**32 - 1))
def test_all_maps_and_wedges(task, seed):
    steps(task, 16, seed)


def test_a_marble_faster_than_any_push_makes_it():
    """A state may come with any speed."""
    task = REAL["center"]
    params = marble_params(task, task.model_gain)
    found = np.tile(task.starts(1)[0][:, None], (1, SIXTEEN))
    found[[1, 3]] = np.random.default_rng(0).uniform(-2, 2, (2, SIXTEEN))
    alone = found.copy()
    for _ in range(5):
        together(found, np.array([0.1, -0.2]), np.zeros((2, SIXTEEN)), params)
        one_by_one(alone, np.array([0.1, -0.2]), np.zeros((2, SIXTEEN)), params)
        np.testing.assert_array_equal(found, alone)


def test_particles_that_have_ended_stay():
    task = REAL["center"]
    params, pits = marble_params(task, task.model_gain), task.map.geometry.pits
    found = np.zeros((6, 3))
    found[[0, 2], 0], found[[0, 2], 1] = pits[0, :2], params.goal[:2] + 1e-4
    found[[0, 2], 2] = task.starts(1)[0, [0, 2]]
    found[[1, 3]] = 0.1
    together(found, np.array([0.5, -0.5]), np.zeros((2, 3)), params)
    np.testing.assert_array_equal(found[:, 0], [pits[0, 0], 0, pits[0, 1], 0, 0, 0])
    np.testing.assert_array_equal(found[[0, 2], 1], params.goal[:2])
    assert np.all(found[[1, 3], 2] != 0)


def test_what_is_not_a_number_stays_one():
    task = REAL["center"]
    params = marble_params(task, task.model_gain)
    found = np.tile(task.starts(1)[0][:, None], (1, 4))
    found[0, 1] = np.nan
    alone = found.copy()
    together(found, np.array([0.1, 0.1]), np.zeros((2, 4)), params)
    one_by_one(alone, np.array([0.1, 0.1]), np.zeros((2, 4)), params)
    np.testing.assert_array_equal(found, alone)
    assert np.isnan(found[0, 1])
