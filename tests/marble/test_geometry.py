"""Configuration space: signed distance, strata and reachability, against geometry that is worked out otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from capture_lab.tasks.marble.cspace import CORNER, EDGE, FREE, MarbleStrata
from capture_lab.tasks.marble.task import Marble
from marble.boards import MM, REAL, board

RADIUS = 6.4
names = st.sampled_from(list(REAL))
fractions = st.floats(0, 1)


def clearance(map, *points):
    """Signed distances in millimetres of positions in millimetres."""
    return map.clearance(np.array(points) * MM) / MM


def strata_at(map, *points):
    """Strata of positions in millimetres; exact at cell centres, such as (1.5, 50.5)."""
    return Marble(map).strata.index(np.array(points) * MM).tolist()


# -- signed distance ------------------------------------------------------------------------------------------------------


def outline(walls, spacing):
    """Points (n, 2) along the sides of boxes."""
    parts = []
    for x0, y0, x1, y1 in walls:
        x, y = (np.linspace(low, high, math.ceil((high - low) / spacing) + 1) for low, high in ((x0, x1), (y0, y1)))
        parts += [np.stack(np.broadcast_arrays(x, side), axis=1) for side in (y0, y1)]
        parts += [np.stack(np.broadcast_arrays(side, y), axis=1) for side in (x0, x1)]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", REAL)
def test_clearance_is_the_distance_to_the_walls_less_the_radius(name):
    map, spacing = REAL[name].map, 0.05
    points = np.random.default_rng(0).uniform(size=(20_000, 2)) * map.size
    x, y = points.T
    walls = np.array(map.walls)
    within = ((points[:, None] > walls[:, :2]) & (points[:, None] < walls[:, 2:])).all(axis=2).any(axis=1)
    to_walls = cKDTree(outline(map.walls, spacing)).query(points)[0] - RADIUS
    margins = [RADIUS if side in map.framed else 0.0 for side in ("left", "right", "bottom", "top")]
    to_sides = np.min([x, map.size[0] - x, y, map.size[1] - y] - np.array(margins)[:, None], axis=0)
    expected = np.minimum(to_walls, to_sides)
    found = clearance(map, *points)
    assert found[~within] == pytest.approx(expected[~within], abs=spacing / 2)
    assert (found[within] <= -RADIUS).all()


@pytest.mark.parametrize("side", ["left", "right", "bottom", "top"])
def test_frame_inflates_and_cut_side_does_not(side):
    inside = {"left": (7, 50), "right": (93, 50), "bottom": (50, 7), "top": (50, 93)}[side]
    assert clearance(board(), inside)[0] == pytest.approx(7)
    assert clearance(board(framed=[side]), inside)[0] == pytest.approx(7 - RADIUS)


# -- strata on boards where they are known --------------------------------------------------------------------------------


def test_concave_corner_is_a_corner():
    map = board((20, 20, 28, 80), (20, 20, 80, 28))
    inner = 28 + RADIUS
    assert strata_at(map, (inner + 1, inner + 1)) == [CORNER]
    assert strata_at(map, (inner + 1, inner + 3), (inner + 3, inner + 1)) == [EDGE, EDGE]
    assert strata_at(map, (inner + 3, inner + 3)) == [FREE]


FLUSH = {
    "overlapping": [(10, 40, 50, 48), (40, 40, 90, 48)],
    "end to end": [(10, 40, 50, 48), (50, 40, 90, 48)],
    "one within the other": [(10, 40, 90, 48), (40, 40, 60, 48)],
    "one just below the face": [(10, 40, 90, 48), (40, 40, 60, 47.5)],
    "crossing below": [(10, 40, 90, 48), (40, 10, 48, 48)],
    "three": [(10, 40, 46, 48), (54, 40, 90, 48), (10, 40, 90, 48)],
    "three, a short one between": [(10, 40, 46, 48), (54, 40, 90, 48), (44, 40, 56, 48)],
}


@pytest.mark.parametrize("walls", FLUSH.values(), ids=FLUSH)
def test_walls_with_a_common_face_are_one_edge(walls):
    face = [(x, y) for x in np.arange(14.5, 86) for y in (48 + RADIUS, 48 + RADIUS + 1)]
    assert set(strata_at(board(*walls), *face)) == {EDGE}


# -- strata of the six maps -----------------------------------------------------------------------------------------------


def surfaces(map, point):
    """Gap and normal of every surface that faces a point (all in millimetres).

    Walls that overlap or meet are one obstacle. The nearest point of a wall belongs to its surface unless another wall
    covers it and comes nearer.
    """
    x, y = point
    margins = [RADIUS if side in map.framed else 0.0 for side in ("left", "right", "bottom", "top")]
    gaps = np.array([x, map.size[0] - x, y, map.size[1] - y]) - margins
    walls = np.array(map.walls)
    nearest = np.clip(point, walls[:, :2], walls[:, 2:])
    distances = np.linalg.norm(point - nearest, axis=1)
    covered = ((nearest[:, None] >= walls[:, :2]) & (nearest[:, None] <= walls[:, 2:])).all(axis=2)
    hidden = (covered & (distances[None] < distances[:, None] - 1e-9)).any(axis=1)
    normals = (point - nearest) / np.maximum(distances, 1e-12)[:, None]
    return np.append(gaps, distances[~hidden] - RADIUS), np.vstack([[[1, 0], [-1, 0], [0, 1], [0, -1]], normals[~hidden]])


def expected_stratum(map, point):
    gaps, normals = surfaces(map, point)
    if gaps.min() < 0:
        return -1
    acting = normals[gaps <= 2]
    if len(acting) == 0:
        return FREE
    return CORNER if (acting @ acting.T).min() < math.cos(math.radians(45)) else EDGE


@pytest.mark.parametrize("name", REAL)
def test_cells_have_the_stratum_of_their_centre(name):
    map, strata = REAL[name].map, REAL[name].strata
    centres = strata.grid.centre(np.arange(strata.grid.size))
    expected = [expected_stratum(map, point) for point in centres / MM]
    assert np.array_equal(strata.labels, expected)


@given(names, fractions, fractions, st.floats(0, 1e-9))
def test_every_position_up_against_an_obstacle_has_a_stratum(name, across, along, depth):
    """Also in cells that a wall cuts, on the sides of the board, and in the last nanometre of penetration."""
    task = REAL[name]
    wanted = np.array([[across, along]]) * task.map.size * MM
    touching = task.strata.nearest_free(wanted)
    into = wanted - touching
    deeper = touching + depth * into / max(np.linalg.norm(into), 1e-12)
    for points in (touching, deeper):
        if task.map.clearance(points)[0] >= -1e-9:
            assert task.strata.index(points)[0] >= 0


@given(st.floats(20, 40), st.floats(20, 40), st.floats(1, 9), fractions, fractions)
def test_positions_on_boards_of_any_size_have_a_stratum(width, height, radius, across, along):
    map = board(
        size=(width, height), framed=("left", "top"), start=(width - 2, 2), goal=(width - 2, 2), marble_radius=radius
    )
    strata = MarbleStrata(map)
    point = np.array([[radius + across * (width - radius), along * (height - radius)]]) * MM
    assert map.clearance(point)[0] >= -1e-9
    assert strata.index(point)[0] >= 0


@pytest.mark.parametrize("name", REAL)
def test_nearest_free_moves_hardly_farther_than_it_must(name):
    task = REAL[name]
    points = np.random.default_rng(1).uniform(size=(500, 2)) * np.array(task.map.size) * MM
    moved = np.linalg.norm(task.strata.nearest_free(points) - points, axis=1)
    fine = np.stack(np.meshgrid(*(np.arange(0, side, 0.25) for side in task.map.size)), axis=-1).reshape(-1, 2) * MM
    least = cKDTree(fine[task.map.clearance(fine) >= 0]).query(points)[0]
    assert (moved <= least + 1 * MM).all()


# -- what the marble can reach --------------------------------------------------------------------------------------------

#: Pockets as boxes (x0, y0, x1, y1) of the marble's centre: what the walls around them leave.
POCKETS = {
    "center": [(0, 0, 10.6, 8.6), (0, 29.4, 19.6, 110)],
    "center-right": [],
    "bottom-left": [],
    "bottom-right": [(0, 78.4, 21.6, 85)],
    "top-left": [],
    "top-center": [(0, 97.4, 6.6, 101.6)],
}


@pytest.mark.parametrize("name", REAL)
def test_marble_reaches_everything_but_the_known_pockets(name):
    strata = REAL[name].strata
    x, y = strata.grid.centre(np.arange(strata.grid.size)).T / MM
    in_pocket = np.zeros(len(x), dtype=bool)
    for x0, y0, x1, y1 in POCKETS[name]:
        in_pocket |= (x > x0) & (x < x1) & (y > y0) & (y < y1)
    assert np.array_equal(strata.reachable, (strata.labels >= 0) & ~in_pocket)


@pytest.mark.parametrize("name", REAL)
def test_pit_cells_are_those_whose_centre_the_marble_falls_from(name):
    map, strata = REAL[name].map, REAL[name].strata
    centres = strata.grid.centre(np.arange(strata.grid.size)) / MM
    assert np.array_equal(strata.pit_cells, np.linalg.norm(centres - map.pits[0], axis=1) <= 12)
