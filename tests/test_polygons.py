"""Strata of a planar robot among polygons, against shapely's distances at every cell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capture_cp import CaptureError, GridStrata

shapely = pytest.importorskip("shapely")
affinity = pytest.importorskip("shapely.affinity")

PILLAR = [(0.55, 0.3), (0.75, 0.3), (0.75, 0.6), (0.55, 0.6)]
BENT = [(0.1, 0.1), (0.5, 0.1), (0.5, 0.2), (0.2, 0.2), (0.2, 0.7), (0.1, 0.7)]
SPIKE = [(0.3, 0.95), (0.45, 0.5), (0.5, 0.93)]
RING = shapely.Point(0.3, 0.6).buffer(0.2, quad_segs=8) - shapely.Point(0.3, 0.6).buffer(0.13, quad_segs=8)
BOUNDS = (0.0, 0.0, 1.0, 1.0)
SCENES = {"pillar": [PILLAR], "three": [PILLAR, BENT, SPIKE], "ring": [RING, PILLAR], "overlapping": [BENT, RING]}
FOOTPRINTS = {
    "box": [(0.06, 0.03), (-0.06, 0.03), (-0.06, -0.03), (0.06, -0.03)],
    "bent": [(-0.05, -0.05), (0.08, -0.05), (0.08, 0.0), (0.0, 0.0), (0.0, 0.08), (-0.05, 0.08)],
}


def polygons(obstacles):
    return [shapely.Polygon(obstacle) for obstacle in obstacles]


def touching(robots, obstacles, radius, tolerance):
    """How many obstacles are within the tolerance of each robot (n,): (n,)."""
    return sum(shapely.distance(robots, polygon) - radius <= tolerance for polygon in polygons(obstacles))


def overlapping(robots, obstacles, radius):
    """Whether each robot (n,) shares more than its rim with an obstacle: bool (n,)."""
    shrunk = shapely.buffer(shapely.union_all(polygons(obstacles)), -1e-9)
    return shapely.distance(robots, shrunk) <= radius


def can_leave(robots, obstacles, radius, reach, room=0.0):
    """Whether some move of up to `reach` takes each robot (n,) off the obstacles, with `room` to spare: bool (n,)."""
    free = np.zeros(len(robots), dtype=bool)
    for angle in 2 * math.pi * np.arange(48) / 48:
        for step in reach * np.arange(1, 5) / 4:
            moved = shapely.transform(robots, lambda xy, a=angle, r=step: xy + r * np.array([math.cos(a), math.sin(a)]))
            free |= ~overlapping(moved, obstacles, radius + room)
    return free


def check(strata, robots, obstacles, radius, tolerance):
    """Labels agree with shapely at every cell, those near the limit or in pockets smaller than the moves tried apart."""
    names = np.array([*strata.names, "infeasible"])[strata.labels]
    overlaps = overlapping(robots, obstacles, radius)
    fewest, most = (touching(robots, obstacles, radius, tolerance + slack) for slack in (-1e-6, 1e-6))
    feasible = (names != "infeasible") & (fewest == most)
    assert (names[feasible] == np.array(["free", "edge", "corner"])[np.minimum(fewest, 2)][feasible]).all()
    assert (names[~overlaps] != "infeasible").all()
    stuck, deep = robots[overlaps], names[overlaps] == "infeasible"
    assert not deep[can_leave(stuck, obstacles, radius, 0.7 * tolerance, room=0.3 * tolerance)].any()
    assert deep[~can_leave(stuck, obstacles, radius, 1.02 * tolerance)].all()
    assert deep.any()


@pytest.mark.parametrize("radius", [0.0, 0.06])
@pytest.mark.parametrize("scene", SCENES)
def test_a_round_robot_agrees_with_shapely(scene, radius):
    obstacles = SCENES[scene]
    strata = GridStrata.from_polygons(obstacles, BOUNDS, 0.04, radius=radius)
    centres = shapely.points(strata.grid.centre(np.arange(strata.grid.size)))
    check(strata, centres, obstacles, radius, math.hypot(0.02, 0.02))


@pytest.mark.parametrize("shape", FOOTPRINTS)
def test_a_footprint_agrees_with_shapely_at_every_heading(shape):
    obstacles, tolerance = SCENES["three"], 0.09
    strata = GridStrata.from_polygons(obstacles, BOUNDS, 0.07, footprint=FOOTPRINTS[shape], headings=8, tolerance=tolerance)
    outline = shapely.Polygon(FOOTPRINTS[shape])
    robots = np.array(
        [
            affinity.translate(affinity.rotate(outline, theta, origin=(0, 0), use_radians=True), x, y)
            for x, y, theta in strata.grid.centre(np.arange(strata.grid.size))
        ]
    )
    assert strata.grid.periodic == (2,)
    assert strata.grid.shape[2] == 8
    check(strata, robots, obstacles, 0.0, tolerance)


def test_a_robot_in_contact_always_has_a_stratum():
    strata = GridStrata.from_polygons([PILLAR], BOUNDS, 0.03, radius=0.05, walls=True)
    rng = np.random.default_rng(0)
    y = rng.uniform(0.3, 0.6, 500)
    touching = np.concatenate([np.column_stack([np.full(500, x), y]) for x in (0.5, 0.8, 0.05, 0.95)])
    assert (strata.index(touching) == strata.number("edge")).all()
    corners = np.array([[0.05, 0.05], [0.95, 0.05], [0.05, 0.95], [0.95, 0.95]])
    assert (strata.index(corners) == strata.number("corner")).all()


def test_shapely_vertex_lists_and_geojson_are_the_same():
    forms = [
        [PILLAR, BENT],
        [[*PILLAR, PILLAR[0]], np.array(BENT)],
        [shapely.Polygon(PILLAR), shapely.Polygon(BENT[::-1])],
        shapely.MultiPolygon([shapely.Polygon(PILLAR), shapely.Polygon(BENT)]),
        [{"type": "Polygon", "coordinates": [PILLAR]}, BENT],
    ]
    made = [GridStrata.from_polygons(form, BOUNDS, 0.05, radius=0.03) for form in forms]
    assert len({strata.digest() for strata in made}) == 1


def test_strata_without_cells_are_left_out():
    alone = GridStrata.from_polygons([PILLAR], BOUNDS, 0.05)
    assert alone.names == ("free", "edge")
    assert GridStrata.from_polygons([], BOUNDS, 0.05, walls=True).names == ("free", "edge", "corner")


@pytest.mark.parametrize("size", [0.2, 0.1])
def test_a_footprint_that_covers_an_obstacle_exactly_overlaps_it(size):
    box = [(0.4, 0.4), (0.4 + size, 0.4), (0.4 + size, 0.6), (0.4, 0.6)]
    foot = [(-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1)]
    strata = GridStrata.from_polygons([box], BOUNDS, 0.02, footprint=foot, headings=72)
    assert strata.index(np.array([[0.5, 0.5, 0.0], [0.5, 0.44, 0.0], [0.44, 0.5, math.pi / 2]])).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"obstacles": []}, "there are no obstacles, so nothing can be touched; list some, or pass walls=True"),
        (
            {"obstacles": [[(0, 0), (1, 1), (1, 0), (0, 1)]]},
            "obstacle 0 crosses itself: its edges from corner 0 and from corner 2",
        ),
        ({"obstacles": [PILLAR, [(0, 0), (1, 0)]]}, "obstacle 1 has 2 corners"),
        ({"obstacles": [[(0, 0), (1, 1), (2, 2)]]}, "expected at least three, not on one line"),
        ({"obstacles": [[(0, 0), (1, 0), (1, math.nan)]]}, "obstacle 0 has 1 NaN"),
        ({"obstacles": PILLAR}, "the corners of one polygon; put it in a list"),
        ({"obstacles": "map.png"}, "obstacles are 'map.png'; expected a list of polygons"),
        ({"obstacles": [shapely.Point(0, 0)]}, "obstacle 0 is a Point or is empty"),
        (
            {"obstacles": [{"type": "Polygon", "coordinates": [PILLAR, [(0, 0), (0.1, 0), (0.1, 0.1)]]}]},
            "obstacle 0 has a hole that lies outside it",
        ),
        ({"bounds": (1, 0, 0, 1)}, "bounds are .* expected smallest x, smallest y, largest x, largest y, in this order"),
        ({"spacing": 0}, "spacing is 0; expected a positive number"),
        ({"tolerance": 0.01}, "tolerance is 0.01, but within half a cell the robot moves by up to 0.03536"),
        ({"footprint": RING}, "footprint has a hole"),
        ({"radius": 3.0, "walls": True}, "no cell is feasible"),
    ],
)
def test_bad_input_is_told_in_one_sentence(change, sentence):
    arguments = {"obstacles": [PILLAR], "bounds": BOUNDS, "spacing": 0.05} | change
    with pytest.raises(CaptureError, match=sentence) as error:
        GridStrata.from_polygons(**arguments)
    assert "\n" not in str(error.value)
