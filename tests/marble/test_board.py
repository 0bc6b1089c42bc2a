"""The board in three dimensions, as shapes that a viewer can draw."""

import numpy as np
import pytest

from benchmarks.numpy_marble import numpy_marble_step
from capture_lab.tasks.marble.board import board_scene, marble_shape, plate_rotation
from capture_lab.tasks.marble.dynamics import MAX_TILT, NOISE, ROLLING, TRUE_GAIN
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.task import Marble

LEVEL = np.zeros(6)


@pytest.mark.parametrize("name", MAP_NAMES)
def test_scene_holds_every_part_of_the_map(name):
    found = load_map(name)
    names = [shape.name for shape in board_scene(found)]
    assert len(set(names)) == len(names)
    for kind, count in (("wall", len(found.walls)), ("pit", len(found.pits)), ("frame", 4), ("goal", 1), ("plate", 1)):
        assert sum(part.startswith(kind) for part in names) == count


@pytest.mark.parametrize("name", MAP_NAMES)
def test_walls_stand_on_the_plate_where_the_map_has_them(name):
    found = load_map(name)
    middle = np.array(found.size) / 2
    for shape, wall in zip([s for s in board_scene(found) if s.name.startswith("wall")], found.walls):
        low = (np.array(shape.centre[:2]) - np.array(shape.size[:2]) / 2) * 1e3 + middle
        high = (np.array(shape.centre[:2]) + np.array(shape.size[:2]) / 2) * 1e3 + middle
        assert np.allclose([*low, *high], wall)
        assert shape.centre[2] == pytest.approx(shape.size[2] / 2)


def test_marble_rests_on_the_plate_at_its_position():
    found = load_map("center")
    shape = marble_shape(found, np.array([0.09, 0, 0.007, 0, 0, 0]))
    assert np.allclose(shape.centre, [0.09 - 0.054, 0.007 - 0.055, 0.0064])


@pytest.mark.parametrize(("axis", "entry"), [(0, 4), (1, 5)])
def test_plate_slopes_the_way_the_marble_rolls(axis, entry):
    """The marble accelerates against the sign of the tilt, so that side of the plate is the lower one."""
    state = LEVEL.copy()
    state[entry] = MAX_TILT
    towards = np.zeros(3)
    towards[axis] = -np.sign(ROLLING * MAX_TILT)
    assert (plate_rotation(state) @ towards)[2] == pytest.approx(-np.sin(MAX_TILT))


def test_rotation_is_a_rotation_and_none_when_level():
    turn = plate_rotation(np.array([0, 0, 0, 0, 0.1, -0.15]))
    assert np.allclose(turn @ turn.T, np.eye(3))
    assert np.linalg.det(turn) == pytest.approx(1)
    assert np.array_equal(plate_rotation(LEVEL), np.eye(3))


def test_only_the_frame_stays_level():
    level = [shape.name for shape in board_scene(load_map("center")) if not shape.tilts]
    assert sorted(level) == ["frame bottom", "frame left", "frame right", "frame top"]


@pytest.mark.parametrize("name", MAP_NAMES)
def test_benchmark_compares_with_the_same_motion(name):
    """The NumPy version leaves walls in three passes where the kernel takes as many as it needs."""
    task, rng = Marble(load_map(name)), np.random.default_rng(0)
    X = task.design_inputs("random", rng)[:5000]
    noise = NOISE * rng.standard_normal((len(X), 2))
    ours, _ = task.step(X[:, :6], X[:, 6:], noise, TRUE_GAIN)
    theirs = numpy_marble_step(X[:, :6], X[:, 6:] + noise, TRUE_GAIN, task.map.geometry)
    assert (np.abs(ours - theirs).max(axis=1) < 1e-9).mean() > 0.97
