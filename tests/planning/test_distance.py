"""Traversable distance: shortest feasible paths on a grid, and their interpolation."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capture_cp import CaptureError
from capture_cp.planning.distance import interpolate, traversable_distance

OPEN = np.ones((21, 21), dtype=bool)
ORIGIN, SPACING = np.array([1.0, -2.0]), np.array([0.5, 0.25])

mazes = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.booleans() | st.just(True))


def cells_passed(move):
    """Cells, relative to the first, that a segment between two centres passes through or touches at a corner."""
    passed = set()
    for t in np.linspace(0, 1, 241):
        for nudge in ((1e-6, 1e-6), (1e-6, -1e-6), (-1e-6, 1e-6), (-1e-6, -1e-6)):
            passed.add((round(t * move[0] + nudge[0]), round(t * move[1] + nudge[1])))
    return passed


MOVES = [(dx, dy) for dx in (-2, -1, 0, 1, 2) for dy in (-2, -1, 0, 1, 2) if math.gcd(dx, dy) == 1]
PASSED = {move: cells_passed(move) for move in MOVES}


def brute_force(free, goal):
    """Dijkstra over sixteen moves, written out."""
    best, queue = {goal: 0.0}, [(0.0, goal)]
    while queue:
        length, here = heapq.heappop(queue)
        if length > best[here]:
            continue
        for dx, dy in MOVES:
            there = here[0] + dx, here[1] + dy
            if not all(0 <= c < n for c, n in zip(there, free.shape)):
                continue
            if all(free[here[0] + cx, here[1] + cy] for cx, cy in PASSED[dx, dy]):
                new = length + math.hypot(dx, dy)
                if new < best.get(there, math.inf):
                    best[there] = new
                    heapq.heappush(queue, (new, there))
    return best


@given(mazes, st.randoms(use_true_random=False))
def test_distance_equals_brute_force_dijkstra(free, random):
    if not free.any():
        return
    goal = random.choice([tuple(map(int, cell)) for cell in np.argwhere(free)])
    found = traversable_distance(free, goal, 1.0)
    for cell, length in brute_force(free, goal).items():
        assert found[cell] == pytest.approx(length, abs=1e-9)


@given(mazes, st.randoms(use_true_random=False))
def test_every_cell_has_a_finite_distance(free, random):
    if not free.any():
        return
    goal = random.choice([tuple(map(int, cell)) for cell in np.argwhere(free)])
    found = traversable_distance(free, goal, 0.1)
    assert np.isfinite(found).all()
    assert found[goal] == 0
    assert (found >= 0).all()


def test_straight_line_is_exact():
    found = traversable_distance(OPEN, (0, 0), 0.5)
    np.testing.assert_allclose(found[:, 0], 0.5 * np.arange(21))
    np.testing.assert_allclose(found[0], 0.5 * np.arange(21))
    np.testing.assert_allclose(np.diag(found), 0.5 * np.sqrt(2) * np.arange(21))


def test_open_ground_is_within_three_per_cent_of_euclid():
    found = traversable_distance(OPEN, (10, 7), 1.0)
    x, y = np.meshgrid(np.arange(21), np.arange(21), indexing="ij")
    straight = np.hypot(x - 10, y - 7)
    assert (found >= straight - 1e-9).all()
    assert (found <= 1.028 * straight + 1e-9).all()


def test_way_leads_around_a_wall():
    free = OPEN.copy()
    free[10, :20] = False
    found = traversable_distance(free, (0, 0), 1.0)
    # past the wall's end, whose corners it may not cut: up the left side, across three cells, and down again
    corner = np.hypot(9, 20), 2.0, np.hypot(9, 20)
    assert sum(corner) <= found[20, 0] <= 1.028 * sum(corner)


@pytest.mark.parametrize("blocked", [[(1, 0)], [(0, 1)], [(1, 0), (0, 1)]])
def test_a_diagonal_never_cuts_a_corner(blocked):
    free = np.ones((2, 2), dtype=bool)
    for cell in blocked:
        free[cell] = False
    found = traversable_distance(free, (0, 0), 1.0)
    # two straight moves where one way is open; where none is, the nearest reached cell plus the way there
    assert found[1, 1] == pytest.approx(2.0 if len(blocked) == 1 else math.sqrt(2))


def test_disconnected_cells_continue_from_the_nearest_connected_one():
    free = OPEN.copy()
    free[10] = False
    found = traversable_distance(free, (0, 0), 1.0)
    np.testing.assert_allclose(found[13, 0], found[9, 0] + 4)
    np.testing.assert_allclose(found[10, 0], found[9, 0] + 1)


def test_goal_in_an_obstacle_is_refused():
    free = OPEN.copy()
    free[3, 4] = False
    with pytest.raises(CaptureError, match="goal"):
        traversable_distance(free, (3, 4), 1.0)


@pytest.mark.parametrize("goal", [(21, 0), (0, 50), (-1, 0)])
def test_goal_outside_the_grid_is_refused(goal):
    with pytest.raises(CaptureError, match="goal"):
        traversable_distance(OPEN, goal, 1.0)


# -- interpolation ----------------------------------------------------------------------------------------------------


def field(nx=6, ny=9):
    return np.random.default_rng(0).normal(size=(nx, ny))


def test_interpolation_is_exact_at_every_centre():
    values = field()
    for i, j in np.ndindex(values.shape):
        x, y = ORIGIN + SPACING * [i, j]
        assert interpolate(values, ORIGIN, SPACING, x, y) == pytest.approx(values[i, j], abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 4), st.integers(0, 7))
def test_interpolation_is_bilinear(a, b, i, j):
    values = field()
    corners = values[i : i + 2, j : j + 2]
    wanted = np.array([1 - a, a]) @ corners @ np.array([1 - b, b])
    x, y = ORIGIN + SPACING * [i + a, j + b]
    assert interpolate(values, ORIGIN, SPACING, x, y) == pytest.approx(wanted, abs=1e-9)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_interpolation_is_constant_beyond_the_outer_centres(x, y):
    values = field()
    low, high = ORIGIN, ORIGIN + SPACING * (np.array(values.shape) - 1)
    nearest = np.clip([x, y], low, high)
    wanted = interpolate(values, ORIGIN, SPACING, *nearest)
    assert interpolate(values, ORIGIN, SPACING, x, y) == pytest.approx(wanted, abs=1e-9)


def test_interpolation_of_a_single_row_stays_inside_it():
    values = np.arange(5.0)[None]
    assert interpolate(values, ORIGIN, SPACING, 1.0, -2.0 + 2 * 0.25) == pytest.approx(2.0)


@pytest.mark.parametrize("place", [(np.nan, 0.0), (1.0, np.nan), (np.nan, np.nan)])
def test_interpolation_nowhere_is_not_a_number(place):
    """Otherwise a model that returns NaN would get a finite cost, and nobody would be printed."""
    assert np.isnan(interpolate(field(), ORIGIN, SPACING, *place))
