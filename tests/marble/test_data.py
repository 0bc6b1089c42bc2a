"""Calibration and test data: the paper's grid, a random design, the model's particles and its Gaussian."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from capture_lab.tasks.marble.task import Marble
from marble.boards import MM, REAL, board, states

SPEEDS, TILTS, ACTIONS = [-0.3, 0.0, 0.3], [-0.175, 0.0, 0.175], [-0.5, -0.5 / 3, 0.5 / 3, 0.5]
#: Velocities, tilts and actions of the paper's grid at one position.
PER_POSITION = 3 * 3 * 3 * 3 * 4 * 4
LEVEL = 1e-4


@pytest.fixture(scope="module", params=REAL)
def task(request) -> Marble:
    return REAL[request.param]


@pytest.fixture(scope="module")
def drawn(task):
    """The random design of a map."""
    return task.design_inputs("random", np.random.default_rng(0))


def positions_of(X):
    return np.unique(X[:, [0, 2]], axis=0)


# -- the paper's grid -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [1, 2])
def test_grid_has_every_combination_at_every_position(task, draws):
    data = task.design_transitions("grid", draws, np.random.default_rng(0))
    positions = positions_of(data.X)
    assert len(data) == len(positions) * PER_POSITION * draws
    assert PER_POSITION == 1296


def test_grid_has_the_papers_velocities_tilts_and_actions(task):
    X = task.design_inputs("grid", np.random.default_rng(0))
    combinations = sorted(itertools.product(SPEEDS, SPEEDS, TILTS, TILTS, ACTIONS, ACTIONS))
    for position in positions_of(X)[[0, -1]]:
        here = X[(X[:, [0, 2]] == position).all(axis=1)]
        assert np.array(sorted(here[:, [1, 3, 4, 5, 6, 7]].tolist())) == pytest.approx(np.array(combinations))


def test_grid_positions_are_8_by_8_over_the_board_or_pushed_out_of_walls(task):
    found = positions_of(task.design_inputs("grid", np.random.default_rng(0)))
    wanted = np.array(list(itertools.product(*(np.linspace(0, side * MM, 8) for side in task.map.size))))
    away = np.linalg.norm(found[:, None] - wanted, axis=2).min(axis=1)
    assert len(found) <= 64
    assert (away <= 12 * MM).all()
    free = wanted[task.map.clearance(wanted) >= 0]
    assert (np.linalg.norm(free[:, None] - found, axis=2).min(axis=1) < 1e-12).all()


def test_grid_is_about_the_size_of_the_papers(task):
    """Its 48 to 64 positions a map, 330 on the six."""
    paper = {"Center": 59, "Center Right": 49, "Bottom Left": 53, "Bottom Right": 64, "Top Left": 48, "Top Center": 57}
    assert len(positions_of(task.design_inputs("grid", np.random.default_rng(0)))) == pytest.approx(
        paper[task.map.name], abs=4
    )


# -- the random design ----------------------------------------------------------------------------------------------------


def test_random_design_is_feasible_and_within_limits(task, drawn):
    assert (task.map.clearance(drawn[:, [0, 2]]) >= 0).all()
    assert (np.abs(drawn[:, [1, 3]]) <= 0.3).all()
    assert (np.abs(drawn[:, [4, 5]]) <= 0.175).all()
    assert (np.abs(drawn[:, [6, 7]]) <= 0.5).all()


def test_random_positions_are_uniform_over_the_feasible_area(task, drawn):
    """Chi-square over squares of 4 mm, whose feasible area comes from a raster of 0.05 mm."""
    raster = np.stack(np.meshgrid(*(np.arange(0.025, side, 0.05) for side in task.map.size)), axis=-1).reshape(-1, 2)
    edges = [np.arange(0, side + 4, 4) for side in task.map.size]
    area = np.histogram2d(*raster[task.map.clearance(raster * MM) >= 0].T, bins=edges)[0].ravel()
    found = np.histogram2d(*(drawn[:, [0, 2]] / MM).T, bins=edges)[0].ravel()
    expected = area / area.sum() * len(drawn)
    assert (found[area == 0] == 0).all()
    usual = expected >= 5
    observed, wanted = np.append(found[usual], found[~usual].sum()), np.append(expected[usual], expected[~usual].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    assert stats.chisquare(observed, wanted).pvalue > LEVEL


# -- transitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["grid", "random"])
def test_next_positions_are_feasible_and_in_all_strata(task, design):
    Y = task.design_transitions(design, 1, np.random.default_rng(0)).Y
    assert (task.map.clearance(Y) >= -1e-9).all()
    assert set(np.unique(task.strata.index(Y))) == {0, 1, 2}


# -- the model ------------------------------------------------------------------------------------------------------------


def test_gaussian_is_that_of_the_model_in_free_space():
    """Mean and covariance of many particles where nothing is touched and nothing clipped."""
    open_board, n = Marble(board(size=(400, 400))), 100_000
    X = np.hstack([states(np.array([[0.2, 0.2]]), [[0.1, -0.05]], [[0.02, 0.05]]), [[0.1, -0.1]]])
    particles = open_board(X, n, np.random.default_rng(0))[0]
    (mean,), (covariance,) = open_board.gaussian(X)
    spread = math.sqrt(covariance[0, 0])
    assert (np.abs(particles.mean(axis=0) - mean) < stats.norm.isf(LEVEL) * spread / math.sqrt(n)).all()
    low, high = stats.chi2.ppf([LEVEL, 1 - LEVEL], n - 1) / (n - 1)
    assert ((particles.var(axis=0, ddof=1) > low * spread**2) & (particles.var(axis=0, ddof=1) < high * spread**2)).all()
    assert stats.pearsonr(*particles.T).pvalue > LEVEL
