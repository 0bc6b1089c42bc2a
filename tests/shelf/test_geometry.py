"""The arm's compiled geometry against MuJoCo, finite differences, the library's own strata, and plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks import numpy_shelf
from capture_lab.tasks.shelf import geometry
from capture_lab.tasks.shelf.geometry import STRATA
from capture_lab.tasks.shelf.mjcf import PARTS
from capture_lab.tasks.shelf.model import LEVERS, STEEPNESS
from capture_lab.tasks.shelf.motions import GREATEST, LEAST
from shelf.arms import anywhere, task_at, touching

mujoco = pytest.importorskip("mujoco")

SHELVES = ("corner", "two-glasses")
NANOMETRE = 1e-9
#: The closest place is found by halving, and the arm's file has six digits.
MICROMETRE = 1e-6

angles = arrays(np.float64, 7, elements=st.floats(0, 1, width=32)).map(lambda share: LEAST + share * (GREATEST - LEAST))


def within_limits(n, seed=0):
    return np.random.default_rng(seed).uniform(*task_at().strata.limits, (n, 7))


def frames_at(solids, q):
    return geometry.link_frames(solids.fixed, tuple(q))


def slow_frames(solids, q):
    """Origins (7, 3) and rotations (7, 3, 3) of the links at angles q (7,), by NumPy."""
    return tuple(part[0] for part in numpy_shelf._frames(np.asarray(q)[None], solids))


def box_distances(solids, Y):
    """Signed distances (n, c, b) of capsules to boxes, the nearest points (n, c, b, 3), and directions away, by NumPy."""
    return numpy_shelf._box_distances(*numpy_shelf._segments(numpy_shelf._frames(Y, solids), solids), solids)


@pytest.fixture(scope="module")
def placed():
    """MuJoCo's own kinematics of a configuration."""
    model = task_at().system.model
    data = mujoco.MjData(model)

    def place(q):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return data

    return place


# -- kinematics -----------------------------------------------------------------------------------------------------------


def test_frames_are_those_of_mujoco_and_of_numpy(placed):
    solids = task_at().strata.solids
    for q in within_limits(50):
        found, data = np.array(frames_at(solids, q)), placed(q)
        for k in range(7):
            body = data.body(f"link{k + 1}")
            np.testing.assert_allclose(found[k, :3], body.xpos, atol=NANOMETRE)
            np.testing.assert_allclose(found[k, 3:], body.xmat, atol=NANOMETRE)
        origins, turns = slow_frames(solids, q)
        np.testing.assert_allclose(found, np.hstack([origins, turns.reshape(7, 9)]), atol=1e-12)


def test_the_jar_is_where_mujoco_has_it(placed):
    task, Y = task_at(), within_limits(50, seed=1)
    for q, found in zip(Y, task.jars(Y)):
        data = placed(q)
        np.testing.assert_allclose(found[:3], data.site("jar").xpos, atol=MICROMETRE)
        assert found[3] == pytest.approx(abs(data.geom("jar").xmat[8]), abs=MICROMETRE)


def test_the_jars_jacobian_is_mujocos(placed):
    task, Y, found = task_at(), within_limits(30, seed=2), np.empty((3, 7))
    for q, ours in zip(Y, task.jar_jacobians(Y)):
        mujoco.mj_jacSite(task.system.model, placed(q), found, None, task.system.model.site("jar").id)
        np.testing.assert_allclose(ours, found, atol=MICROMETRE)


@pytest.mark.parametrize("link", [4, 5, 6])
def test_gradient_is_a_finite_difference(link):
    solids, rng = task_at().strata.solids, np.random.default_rng(link)
    for q in within_limits(20, seed=link):
        local, way = rng.uniform(-0.1, 0.1, 3), rng.standard_normal(3)
        origins, turns = slow_frames(solids, q)
        point = origins[link] + turns[link] @ local
        found = geometry.gradient(frames_at(solids, q), link, *point, *way)
        for k in range(7):
            ends = []
            for turn in (-1e-6, 1e-6):
                origins, turns = slow_frames(solids, q + turn * np.eye(7)[k])
                ends.append(way @ (origins[link] + turns[link] @ local))
            assert found[k] == pytest.approx((ends[1] - ends[0]) / 2e-6, abs=1e-8)


# -- distances ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHELVES)
def test_distances_to_boxes_are_those_of_the_librarys_strata(name):
    strata, Y = task_at(name).strata, anywhere(2000, name=name)
    solids, wanted = strata.solids, strata.swept.distances(Y)
    deep = 0
    for q, distances in zip(Y, wanted):
        apart, c, b = geometry.nearest_box(solids.capsules, solids.boxes, frames_at(solids, q), 1.0)
        assert apart == pytest.approx(distances.min(), abs=NANOMETRE)
        assert distances.argmin() == 2 * c + solids.boxes[b, 6]
        deep += apart < 0
    assert 200 < deep < 1800


def test_glass_is_as_far_as_mujoco_says(placed):
    """The arm's glass is drawn in MuJoCo's scene, so that its own distances can be asked for."""
    task, Y = task_at("two-glasses"), anywhere(200, seed=5, name="two-glasses")
    model = task.system.model
    data, near = mujoco.MjData(model), 0
    pairs = [(model.geom(part).id, model.geom(f"glass {glass}").id) for part in PARTS for glass in task.shelf.glasses]
    for q, found in zip(Y, task.glass_clearances(Y)):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        true = min(mujoco.mj_geomDistance(model, data, *pair, 2.0, None) for pair in pairs)
        if 1e-6 < true < 0.1:
            near += 1
            assert found == pytest.approx(true, abs=MICROMETRE)
    assert near > 20


@pytest.mark.parametrize("name", SHELVES)
@given(q=angles)
def test_glass_is_exact_up_to_a_decimetre_and_never_nearer_than_said(name, q):
    task = task_at(name)
    (found,), (true,) = task.glass_clearances(q[None]), numpy_shelf.numpy_clearances(q[None], task.params)
    if true < 0.1:
        assert found == pytest.approx(true, abs=MICROMETRE)
    else:
        assert 0.1 - MICROMETRE < found <= true + MICROMETRE


def test_no_distance_is_steeper_than_planners_are_told():
    task, Y = task_at(), within_limits(200, seed=7)
    frames = numpy_shelf._frames(Y, task.params)
    starts, ways = numpy_shelf._segments(frames, task.params)
    for points in (starts, starts + ways):
        for c, capsule in enumerate(task.params.capsules):
            levers = np.cross(frames[1][..., 2], points[:, None, c] - frames[0])[:, : int(capsule[0]) + 1]
            assert np.linalg.norm(levers, 2, axis=(1, 2)).max() < STEEPNESS
    step = 0.02 * np.random.default_rng(0).standard_normal(Y.shape)
    here, there = task.glass_clearances(Y), task.glass_clearances(Y + step)
    near = (here < 0.1) & (there < 0.1)
    assert (np.abs(here - there)[near] <= STEEPNESS * np.linalg.norm(step, axis=1)[near]).all()
    assert pytest.approx(np.linalg.norm(LEVERS)) == STEEPNESS


# -- strata ---------------------------------------------------------------------------------------------------------------


def of_contacts(bits):
    """Number of the stratum of contacts (8,): forearm, wrist, palm, jar on a board, on a wall."""
    on = {
        f"{part} on {fixture}"
        for part, row in zip(PARTS, bits.reshape(4, 2))
        for fixture, bit in zip(("board", "wall"), row)
        if bit
    }
    hands = {contact.replace("wrist", "hand").replace("palm", "hand") for contact in on}
    if not hands:
        return 0
    (name, *others) = hands
    return STRATA.index(name) if not others and name in STRATA else len(STRATA) - 1


@pytest.mark.parametrize("name", SHELVES)
def test_strata_are_those_of_the_librarys_distances(name):
    task = task_at(name)
    Y = np.vstack([anywhere(4000, name=name), task.transitions(200, np.random.default_rng(8)).Y])
    distances = task.strata.distances(Y)
    wanted = [
        -1 if (row < -task.strata.solids.depth).any() else of_contacts(row <= task.strata.solids.tolerance)
        for row in distances
    ]
    np.testing.assert_array_equal(task.strata.index(Y), wanted)
    assert set(wanted) == set(range(-1, len(STRATA)))


# -- contact --------------------------------------------------------------------------------------------------------------


def test_the_place_of_a_contact_is_the_nearest_one():
    solids = task_at().strata.solids
    for q in touching(50):
        frames = frames_at(solids, q)
        apart, c, b = geometry.nearest_box(solids.capsules, solids.boxes, frames, 0.0)
        found = np.array(geometry.touch(solids.capsules, c, solids.boxes, b, frames[int(solids.capsules[c, 0])]))
        point, away = (part[0, c, b] for part in box_distances(solids, q[None])[1:])
        np.testing.assert_allclose(found[3:], away, atol=1e-5)
        box = solids.boxes[b]
        distance = np.linalg.norm(found[:3] - np.clip(found[:3], box[:3] - box[3:6], box[:3] + box[3:6]))
        assert distance - solids.capsules[c, 7] == pytest.approx(apart, abs=MICROMETRE)
        assert np.linalg.norm(found[3:]) == pytest.approx(1)
        assert np.linalg.norm(found[:3] - point) < 1e-4


def test_single_contacts_are_pushed_out_along_the_gradient():
    solids = task_at().strata.solids
    for q in touching(40, seed=1):
        after, pushed = geometry.pushed_out(solids.fixed, solids.capsules, solids.boxes, tuple(q), 6)
        assert pushed
        assert box_distances(solids, np.array([after]))[0].min() > -solids.tolerance / 5
        once, _ = geometry.pushed_out(solids.fixed, solids.capsules, solids.boxes, tuple(q), 1)
        distances = box_distances(solids, q[None])[0][0]
        c, b = np.unravel_index(distances.argmin(), distances.shape)
        above, below = (box_distances(solids, q + size * np.eye(7))[0][:, c, b] for size in (1e-6, -1e-6))
        slopes = (above - below) / 2e-6
        move = np.array(once) - q
        assert move @ slopes / np.linalg.norm(move) / np.linalg.norm(slopes) > 0.999
