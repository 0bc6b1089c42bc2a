"""Grids, metrics and strata."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from capture_cp import SE2, CaptureError, FunctionStrata, Grid, GridStrata, Strata

seeds = st.integers(0, 2**32 - 1)


@st.composite
def grids(draw):
    dims = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 7), min_size=dims, max_size=dims))
    spacing = draw(st.lists(st.floats(0.01, 10), min_size=dims, max_size=dims))
    origin = draw(st.lists(st.floats(-5, 5), min_size=dims, max_size=dims))
    return Grid(origin, spacing, shape, periodic=draw(st.sets(st.integers(0, dims - 1))))


@given(grids())
def test_cell_of_a_centre_is_the_cell(grid):
    cells = np.arange(grid.size)
    assert np.array_equal(grid.cell(grid.centre(cells)), cells)


@given(grids())
def test_centres_are_numbered_in_c_order(grid):
    assert np.array_equal(grid.centre(np.arange(grid.size)), oracles.centres(grid.origin, grid.spacing, grid.shape))


@given(grids(), seeds)
def test_a_configuration_is_within_half_a_cell_of_its_centre(grid, seed):
    rng = np.random.default_rng(seed)
    span = grid.spacing * np.array(grid.shape)
    Y = grid.origin + span * rng.uniform(-0.7, 1.7, size=(40, grid.dims))
    cells = grid.cell(Y)
    periodic = np.isin(np.arange(grid.dims), grid.periodic)
    low, high = grid.origin - grid.spacing / 2, grid.origin - grid.spacing / 2 + span
    outside = (((low > Y) | (high <= Y)) & ~periodic).any(axis=1)
    assert np.array_equal(cells == -1, outside)
    offset = Y[~outside] - grid.centre(cells[~outside])
    offset -= np.where(periodic, span * np.rint(offset / span), 0.0)
    assert (np.abs(offset) <= grid.spacing * (0.5 + 1e-9)).all()


def test_a_boundary_belongs_to_the_cell_above_it():
    grid = Grid((0.0,), 1.0, (3,))
    assert grid.cell([[-0.5], [0.5], [1.5]]).tolist() == [0, 1, 2]
    assert grid.cell([[2.5], [math.nextafter(-0.5, -1)], [100.0], [-100.0]]).tolist() == [-1, -1, -1, -1]
    assert grid.cell([[math.nextafter(2.5, 0)]]).tolist() == [2]


def test_a_periodic_axis_closes_on_itself():
    grid = Grid((-math.pi,), math.pi / 4, (8,), periodic=(0,))
    turns = 2 * math.pi * np.array([0, 1, -1, 5])
    assert grid.cell((0.1 + turns)[:, None]).tolist() == [4] * 4
    assert grid.cell([[math.pi]]).tolist() == grid.cell([[-math.pi]]).tolist() == [0]


@pytest.mark.parametrize(
    "spacing", [2, 2.0, np.int64(2), np.float32(2), np.array(2.0), [2, 2], np.array([2.0, 2.0])], ids=repr
)
def test_spacing_is_one_number_of_any_kind_or_one_an_axis(spacing):
    assert Grid((0, 0), spacing, (2, 2)).spacing.tolist() == [2.0, 2.0]
    assert Grid.between((0, 0), (2, 4), spacing).shape == (2, 3)


def test_cells_off_the_grid_are_refused():
    grid = Grid((0, 0), 1.0, (2, 3))
    for cells in ([-1], [6]):
        with pytest.raises(CaptureError, match="cell numbers run from 0 to 5"):
            grid.centre(cells)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Grid((0, 0), 0.0, (2, 2)), "a grid needs a positive spacing"),
        (lambda: Grid((0, 0), 1.0, (2, 2, 2)), "a cell count for each of its 2 axes"),
        (lambda: Grid((0, math.nan), 1.0, (2, 2)), "grid origin has 1 NaN or infinite values"),
        (lambda: Grid((0, 0), 1.0, (2, 0)), "grid shape is 0; expected a whole number of at least 1"),
        (lambda: Grid((0, 0), 1.0, (2, 2), periodic=(2,)), "periodic axes .* do not exist; the grid has axes 0 to 1"),
        (lambda: Grid((0, 0), 1.0, (2, 2)).cell([1.0, 2.0]), r"Y has shape \(2,\), expected \(n, dc\)"),
        (lambda: Grid((0, 0), 1.0, (2, 2)).cell([[1.0, math.nan]]), "Y has 1 NaN or infinite values, first in row 0"),
    ],
)
def test_bad_grids_are_refused(make, sentence):
    with pytest.raises(CaptureError, match=sentence):
        make()


@pytest.mark.parametrize("length", [0, -1.0, math.nan, math.inf, "x", None])
def test_se2_needs_a_positive_length(length):
    with pytest.raises(CaptureError, match=r"SE2 length, .* is .*; expected a positive number"):
        SE2(length)


def test_se2_checks_the_configurations_and_the_grid():
    SE2(1.0).check(3, None)
    SE2(1.0).check(3, Grid((0, 0, -math.pi), math.pi / 4, (2, 2, 8), periodic=(2,)))
    SE2(1.0).check(3, Grid((0, 0, -math.pi), math.pi / 4, (2, 2, 9)))
    for dims, grid, sentence in [
        (2, None, r"poses \(x, z, theta\), 3 numbers; the configurations here have 2"),
        (3, Grid((0, 0, 0), 1.0, (2, 2, 6), periodic=(2,)), r"must span 2\*pi"),
        (3, Grid((0, 0, 0), 1.0, (2, 2, 6)), "keep it within -pi..pi"),
    ]:
        with pytest.raises(CaptureError, match=sentence):
            SE2(1.0).check(dims, grid)


LABELS = np.array([[0, 1, -1], [1, 1, 0]])


@pytest.fixture
def looked_up():
    return GridStrata(Grid((0.0, 0.0), 1.0, (2, 3)), LABELS, ["free", "edge"])


def test_look_up_gives_the_label_of_the_cell(looked_up):
    grid = looked_up.grid
    assert looked_up.index(grid.centre(np.arange(6))).tolist() == LABELS.ravel().tolist()
    assert looked_up.index(np.array([[9.0, 9.0], [-1.0, 0.0]])).tolist() == [-1, -1]


def test_cells_and_sizes_of_strata_make_up_the_feasible_space(looked_up):
    assert looked_up.cells("free").tolist() == [0, 5]
    assert looked_up.cells("edge").tolist() == [1, 3, 4]
    assert looked_up.sizes.tolist() == [2, 3]
    assert looked_up.volume("edge") == pytest.approx(3.0)
    assert isinstance(looked_up, Strata)


def test_a_function_of_the_configuration_gives_the_same_strata(looked_up):
    same = FunctionStrata(looked_up.index, ["free", "edge"], grid=looked_up.grid)
    assert np.array_equal(same.labels, looked_up.labels)
    assert same.sizes.tolist() == looked_up.sizes.tolist()
    assert same.digest() == looked_up.digest()


def test_strata_of_a_function_need_a_grid_only_for_cells():
    strata = FunctionStrata(lambda Y: (Y[:, 0] > 0).astype(int), ["left", "right"])
    assert strata.index(np.array([[-1.0], [1.0]])).tolist() == [0, 1]
    for ask in (lambda: strata.cells("left"), lambda: strata.labels, lambda: strata.volume("left")):
        with pytest.raises(CaptureError, match="need strata with a grid"):
            ask()
    assert "no grid" in repr(strata)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda g: GridStrata(g, LABELS.T, ["a", "b"]), r"labels have shape \(3, 2\); expected the grid's shape \(2, 3\)"),
        (lambda g: GridStrata(g, LABELS + 1, ["a", "b"]), "labels returned stratum numbers from 0 to 2"),
        (lambda g: GridStrata(g, LABELS * 0.5, ["a", "b"]), "returned float64"),
        (lambda g: GridStrata(g, LABELS, ["a", "a"]), "expected a list of different names"),
        (lambda g: GridStrata(g, LABELS, ["a", "b"], features=[[1.0]]), "strata features has shape"),
        (lambda g: FunctionStrata(lambda Y: 0.5, ["a"]).index(np.zeros((2, 2))), "the strata function returned float64"),
        (lambda g: FunctionStrata(lambda Y: np.zeros(3, int), ["a"]).index(np.zeros((2, 2))), r"of shape \(2,\)"),
        (lambda g: FunctionStrata(lambda Y: np.full(len(Y), 7), ["a"]).index(np.zeros((2, 2))), "from 7 to 7"),
    ],
)
def test_bad_strata_are_refused(make, sentence):
    with pytest.raises(CaptureError, match=sentence):
        make(Grid((0.0, 0.0), 1.0, (2, 3)))
