"""Compiled distances of segments and boxes against those from the definition, degenerate poses included."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from capture_cp.kernels.boxes import box_box
from capture_cp.kernels.solids import segment_box, segment_segment
from solids import CUBE, signed_distance

HALF = np.array([0.5, 0.3, 0.2])


def segments(n, rng, rounded):
    """Starts and ways (n, 3) near a box; `rounded` to a lattice that has the box's faces, edges and corners."""
    starts, ways = rng.uniform(-1.2, 1.2, (n, 3)) * HALF * 2, rng.uniform(-1.5, 1.5, (n, 3)) * HALF * 2
    if rounded:
        starts, ways = np.round(starts, 1), np.round(ways, 1) * (rng.random((n, 3)) < 0.6)
    return starts, ways


@pytest.mark.parametrize("rounded", [False, True])
def test_segment_and_box(rounded):
    starts, ways = segments(1500, np.random.default_rng(0), rounded)
    found = np.array([segment_box(*start, *way, *HALF) for start, way in zip(starts, ways)])
    expected = [signed_distance(np.array([start, start + way]), CUBE * HALF) for start, way in zip(starts, ways)]
    assert found == pytest.approx(np.array(expected), abs=1e-9)
    assert (found > 0).any()
    assert (found < 0).any()


@pytest.mark.parametrize("rounded", [False, True])
def test_segment_and_segment(rounded):
    rng = np.random.default_rng(2)
    (starts, ways), (_, others) = segments(2000, rng, rounded), segments(2000, rng, rounded)
    found = [segment_segment(*start, *way, *other) for start, way, other in zip(starts, ways, others)]
    shares = np.linspace(0, 1, 201)
    for distance, start, way, other in zip(found, starts, ways, others):
        # of every place on one the nearest on the other: a little above the least
        places, squared = start + shares[:, None] * way, other @ other
        along = np.clip(places @ other / squared, 0, 1) if squared else np.zeros(201)
        least = np.linalg.norm(places - along[:, None] * other, axis=1).min()
        assert distance <= least + 1e-9
        assert distance >= least - np.linalg.norm(way) / 200 - 1e-9


def box_distance(places, turns, sizes, within=np.inf):
    frames = np.array([[*place, *turn.as_matrix().ravel()] for place, turn in zip(places, turns)])
    return box_box(tuple(frames[0]), tuple(frames[1]), *np.ravel(sizes), within)


def poses(kind, n, rng):
    """Places and turns of a second box; those of the kinds "flat" and "grid" share directions of edges with the first."""
    places = rng.uniform(-1, 1, (n, 3))
    if kind == "any":
        return places, Rotation.random(n, random_state=rng)
    if kind == "flat":
        return places, Rotation.from_rotvec(rng.uniform(-4, 4, n)[:, None] * np.eye(3)[rng.integers(3, size=n)])
    return np.round(places, 1), Rotation.from_rotvec(np.pi / 2 * rng.integers(4, size=n)[:, None] * np.eye(3)[2])


@pytest.mark.parametrize("kind", ["any", "flat", "grid"])
def test_box_and_box(kind):
    rng = np.random.default_rng(3)
    base, sizes = Rotation.random(random_state=rng), np.array([HALF, [0.1, 0.4, 0.2]])
    found, expected = [], []
    for place, turn in zip(*poses(kind, 1000, rng)):
        places, turns = [np.zeros(3), base.apply(place)], [base, base * turn]
        found.append(box_distance(places, turns, sizes))
        solids = [turned.apply(CUBE * size) + at for at, turned, size in zip(places, turns, sizes)]
        expected.append(signed_distance(*solids))
        limited = box_distance(places, turns, sizes, within=0.1)
        assert limited == pytest.approx(found[-1]) if found[-1] <= 0.1 else 0.1 < limited <= found[-1] + 1e-9
    assert found == pytest.approx(np.array(expected), abs=1e-9)
    assert np.mean(np.array(found) > 0) > 0.2
    assert np.mean(np.array(found) < 0) > 0.1


def test_boxes_that_are_nearly_aligned():
    """Where edges are almost parallel, directions across them are lost in rounding: nothing may depend on them."""
    rng, sizes = np.random.default_rng(4), np.array([HALF, HALF])
    for angle in 10.0 ** -np.arange(5, 17):
        for place in rng.uniform(-1.1, 1.1, (50, 3)):
            still, turn = Rotation.identity(), Rotation.from_rotvec(angle * rng.standard_normal(3))
            found = box_distance([np.zeros(3), place], [still, turn], sizes)
            aligned = box_distance([np.zeros(3), place], [still, still], sizes)
            assert found == pytest.approx(aligned, abs=3 * angle + 1e-7)
