"""The insertion cost, against the formula written out, and on the grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp.spaces.grid import Grid
from capture_lab.tasks.peg.geometry import shape_of
from capture_lab.tasks.peg.planner import cell_costs, insertion_cost
from capture_lab.tasks.peg.settings import PegSettings

SETTINGS = PegSettings()
poses = st.tuples(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1), st.floats(-math.pi, math.pi))


def cost(pose):
    return insertion_cost(*pose, shape_of(SETTINGS))


def written_out(pose):
    x, z, theta = pose
    turn = np.array([[math.cos(theta), -math.sin(theta)], [math.sin(theta), math.cos(theta)]])
    base = np.array([x, z]) - turn @ [0, 0.025]
    keypoints = [base + o * turn @ [0, 1] for o in (-0.075, -0.025, 0.025, 0.075)]
    wanted = [np.array([0, -0.024 + o]) for o in (-0.075, -0.025, 0.025, 0.075)]
    d = np.mean([np.linalg.norm(p - w) for p, w in zip(keypoints, wanted)])
    return -sum(1 / (math.exp(a * d) + b + math.exp(-a * d)) for a, b in ((5, 4), (50, 2), (100, 0)))


def test_cost_at_the_goal_and_at_the_mouth():
    assert cost((0, 0.001, 0)) == pytest.approx(-0.917, abs=5e-4)
    assert cost((0, 0.025, 0)) == pytest.approx(-0.434, abs=5e-4)


@given(poses)
def test_cost_is_the_formula(pose):
    assert cost(pose) == pytest.approx(written_out(pose), rel=1e-9)


def test_cells_cost_what_their_centres_cost():
    grid = Grid.between((-0.03, -0.01, -0.7), (0.03, 0.05, 0.7), (0.01, 0.005, 0.1))
    expected = np.array([cost(pose) for pose in grid.centre(np.arange(grid.size))])
    found = cell_costs(grid, SETTINGS)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected.astype(np.float32))
