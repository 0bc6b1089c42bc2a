"""Look-up squares: what they say about flat contact is what looking at every wall would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.contact_table import ANYTHING
from capture_lab.tasks.marble.maps import MAP_NAMES, Map, load_map
from capture_lab.tasks.marble.task import Marble

MM = 1e-3


def cautious(geometry):
    """The same map with squares that know nothing: every wall is looked at."""
    return geometry._replace(contents=np.full_like(geometry.contents, ANYTHING))


def compare(board: Map, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = Marble(board).inputs(n, rng)
    # starts against walls too: where a first step has left the marble
    states, actions = X[:, :6].copy(), X[:, 6:].copy()
    for _ in range(3):
        nothing = np.zeros((n, 2)), np.zeros((n, 4))
        looked_up, ends = dynamics.step_all(states, actions, *nothing, 2.0, True, board.geometry)
        searched, same_ends = dynamics.step_all(states, actions, *nothing, 2.0, True, cautious(board.geometry))
        agree = np.abs(looked_up - searched).max(axis=1) < 1e-8
        # a marble that just grazes a rim may stop a rounding error sooner
        assert agree.mean() > 0.9999, looked_up[~agree][0]
        assert (ends[agree] == same_ends[agree]).mean() > 0.9999
        states = searched


@pytest.mark.parametrize("name", MAP_NAMES)
def test_squares_give_the_contact_of_all_walls(name):
    compare(load_map(name), 40_000, 0)


boxes = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(3, 40), st.integers(3, 40))


@settings(max_examples=40, deadline=None)
@given(walls=st.lists(boxes, max_size=5), framed=st.sets(st.sampled_from(["left", "right", "bottom", "top"])))
def test_squares_give_the_contact_of_all_walls_on_any_board(walls, framed):
    board = Map(
        "random", (70.0, 66.5), tuple((float(x), float(y), float(x + w), float(y + h)) for x, y, w, h in walls),
        (0.0, 0.0), (70.0, 66.5), pits=((35.0, 33.0),), framed=tuple(framed),
    )  # fmt: skip
    free = board.clearance(np.random.default_rng(0).random((500, 2)) * 0.066) >= 0
    if free.mean() > 0.05:
        compare(board, 3_000, 1)


def test_large_boards_have_squares_of_a_bounded_number():
    board = replace(load_map("center"), size=(4000.0, 3000.0), walls=((100.0, 100.0, 2000.0, 110.0),))
    assert max(board.geometry.contents.shape) < 600
    compare(board, 2_000, 2)
