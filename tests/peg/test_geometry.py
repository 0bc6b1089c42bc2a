"""Peg against surroundings: areas, distances, fingerprints and contacts, against a polygon library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shapely import LineString, Point, Polygon, box, unary_union

from capture_lab.tasks.peg.cspace import FEATURES
from capture_lab.tasks.peg.geometry import (
    LEFT_BLOCK,
    RIGHT_BLOCK,
    TABLE,
    TOUCH,
    column,
    contact_point,
    depth_along,
    fingerprint,
    overlap,
    segment_distance,
    shape_of,
    way_out,
)
from capture_lab.tasks.peg.settings import PegSettings

WIDE, NARROW = PegSettings(), PegSettings(block_width=20e-3)
BOTTOM = -0.2  # of the oracle's columns, far below any peg here

settings = st.sampled_from([WIDE, NARROW])
poses = st.tuples(st.floats(-0.03, 0.03), st.floats(-0.02, 0.05), st.floats(-0.8, 0.8))
#: Poses that are likely to touch something: low over the blocks, about the mouth, or in the hole.
near_poses = st.one_of(
    poses,
    st.tuples(st.floats(-0.006, 0.006), st.floats(0.015, 0.027), st.floats(-0.3, 0.3)),
    st.tuples(st.floats(-0.0008, 0.0008), st.floats(0.0, 0.026), st.floats(-0.06, 0.06)),
)


def columns(settings):
    """Table, left and right block as polygons."""
    side = min(settings.block_width / 2, 0.3)
    block = box(settings.hole_width / 2, BOTTOM, side, 0)
    return box(-0.3, BOTTOM, 0.3, -settings.hole_depth), box(-side, BOTTOM, -settings.hole_width / 2, 0), block


def corners(pose, settings):
    """Vertices (4, 2) of the peg, counterclockwise from the lower left one."""
    x, z, theta = pose
    turn = np.array([[math.cos(theta), -math.sin(theta)], [math.sin(theta), math.cos(theta)]])
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return signs * [settings.peg_width / 2, settings.peg_length / 2] @ turn.T + [x, z]


def distances(pose, settings, trim):
    """Distance of each vertex and each edge to the surroundings: (8,)."""
    world, v = unary_union(columns(settings)), corners(pose, settings)
    parts = [Point(p) for p in v]
    for a, b in zip(v, np.roll(v, -1, axis=0)):
        cut = trim * (b - a) / np.linalg.norm(b - a)
        parts.append(LineString([a + cut, b - cut]))
    return np.array([part.distance(world) for part in parts])


def turned(pose):
    x, z, theta = pose
    return x, z, math.cos(theta), math.sin(theta)


def code_of(pose, settings=WIDE, trim=0.0):
    return fingerprint(*turned(pose), trim, shape_of(settings))


def names_of(code):
    return {name for bit, name in enumerate(FEATURES) if code >> bit & 1}


# -- overlap --------------------------------------------------------------------------------------------------------------


@given(near_poses, settings)
def test_overlap_is_the_area_of_the_intersection(pose, settings):
    expected = Polygon(corners(pose, settings)).intersection(unary_union(columns(settings))).area
    assert overlap(*turned(pose), shape_of(settings)) == pytest.approx(expected, abs=1e-14)


# -- fingerprint ----------------------------------------------------------------------------------------------------------


@given(near_poses, settings, st.sampled_from([0.0, 1.5e-3]))
def test_fingerprint_tells_what_is_within_the_radius(pose, settings, trim):
    away = distances(pose, settings, trim)
    assume((np.abs(away - TOUCH) > 1e-12).all())
    assert code_of(pose, settings, trim) == sum(1 << bit for bit in range(8) if away[bit] < TOUCH)


@pytest.mark.parametrize(
    ("pose", "literal", "trimmed"),
    [
        ((0, 0.04, 0), "", ""),  # above everything
        ((0.02, 0.025, 0), "v1 v2 e1 e2 e4", "v1 v2 e1"),  # flush on a block
        ((0, 0.025, 0), "v1 v2 e1 e2 e4", "v1 v2"),  # at the mouth, as near to both rims
        ((0, 0.001, 0), "v1 v2 e1 e2 e4", "v1 v2 e1 e2 e4"),  # inserted
        ((0.02, 0.0252, -0.35), "v2 e1 e2", "v2"),  # on a corner
        ((0.02, 0.02575, 0), "v1 v2 e1 e2 e4", "v1 v2 e1"),  # exactly at the radius
        ((0.02, 0.0257501, 0), "", ""),
        ((0, 0.005, math.pi), "v3 v4 e2 e3 e4", "v3 v4 e2 e4"),  # upside down in the hole, over its bottom
    ],
)
def test_fingerprints_of_known_poses(pose, literal, trimmed):
    assert names_of(code_of(pose)) == set(literal.split())
    assert names_of(code_of(pose, trim=1.5e-3)) == set(trimmed.split())


@given(st.tuples(*[st.floats(-0.03, 0.03)] * 4), settings, st.sampled_from([TABLE, LEFT_BLOCK, RIGHT_BLOCK]))
def test_segment_distance_is_exact(ends, settings, number):
    ax, az, bx, bz = ends
    found = segment_distance(ax, az, bx, bz, *column(number, shape_of(settings)))
    expected = LineString([(ax, az), (bx, bz)]).distance(columns(settings)[number])
    assert found == pytest.approx(expected, abs=1e-12)


# -- contacts -------------------------------------------------------------------------------------------------------------


@given(near_poses, settings, st.sampled_from([TABLE, LEFT_BLOCK, RIGHT_BLOCK]))
def test_there_is_depth_exactly_where_peg_and_column_meet(pose, settings, number):
    depth = way_out(number, *turned(pose), shape_of(settings))[1]
    peg = Polygon(corners(pose, settings))
    assume(abs(depth) > 1e-8)
    assert (depth > 0) == peg.intersects(columns(settings)[number])


@given(near_poses, settings, st.sampled_from([TABLE, LEFT_BLOCK, RIGHT_BLOCK]))
def test_shortest_way_out_leads_out_and_none_is_shorter(pose, settings, number):
    x, z, theta = pose
    g, obstacle = shape_of(settings), columns(settings)[number]
    way, depth = way_out(number, *turned(pose), g)
    assume(depth > 1e-6)
    same, nx, nz = depth_along(way, number, *turned(pose), g)
    assert same == depth
    out = Polygon(corners((x + depth * nx, z + depth * nz, theta), settings))
    assert out.intersection(obstacle).area < 1e-12
    assert out.distance(obstacle) < 1e-9
    for angle in np.linspace(0, math.pi, 41):  # down is no way out
        moved = x + 0.99 * depth * math.cos(angle), z + 0.99 * depth * math.sin(angle), theta
        assert Polygon(corners(moved, settings)).intersects(obstacle)


@given(near_poses, settings, st.sampled_from([TABLE, LEFT_BLOCK, RIGHT_BLOCK]), st.floats(1e-6, 1e-3))
def test_contact_point_lies_on_the_column_near_the_peg(pose, settings, number, wanted):
    x, z, theta = pose
    g = shape_of(settings)
    way, depth = way_out(number, *turned(pose), g)
    _, nx, nz = depth_along(way, number, *turned(pose), g)
    shallow = x + (depth - wanted) * nx, z + (depth - wanted) * nz, theta
    way, depth = way_out(number, *turned(shallow), g)
    assume(depth > 1e-8)
    point = Point(contact_point(way, number, *turned(shallow), g))
    assert point.distance(columns(settings)[number]) < 1e-12
    assert point.distance(Polygon(corners(shallow, settings))) <= depth + 1e-12
