"""The board in three dimensions, as bodies that a page can draw."""

import numpy as np
import pytest

from benchmarks.numpy_marble import numpy_marble_step
from capture_lab.tasks.marble.drawing import board_bodies, plate_rotation
from capture_lab.tasks.marble.dynamics import MAX_TILT, NOISE, ROLLING, TRUE_GAIN
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.task import Marble

LEVEL = np.zeros(6)


@pytest.mark.parametrize("name", MAP_NAMES)
def test_the_scene_holds_every_part_of_the_map_where_the_map_has_it(name):
    found = load_map(name)
    bodies, middle = board_bodies(found, LEVEL), np.array(found.size) / 2
    kinds = [name.split("-")[0] for name in bodies]
    counts = {"wall": len(found.walls), "pit": len(found.pits), "frame": 4, "goal": 1, "plate": 1, "marble": 1}
    assert {kind: kinds.count(kind) for kind in counts} == counts
    for number, wall in enumerate(found.walls):
        body = bodies[f"wall-{number}"]
        ends = (body.place[:2] - body.size[:2], body.place[:2] + body.size[:2])
        assert np.allclose(np.concatenate(ends) * 1e3 + np.tile(middle, 2), wall)
        assert body.place[2] == pytest.approx(body.size[2])


def test_the_marble_rests_on_the_plate_and_only_the_frame_stays_level():
    state = np.array([0.09, 0, 0.007, 0, 0, 0])
    level, tilted = (board_bodies(load_map("center"), state + tilt * np.eye(6)[4]) for tilt in (0.0, 0.1))
    assert np.allclose(level["marble"].place, [0.09 - 0.054, 0.007 - 0.055, 0.0064])
    same = [name for name, body in level.items() if np.array_equal(body.turn, tilted[name].turn)]
    assert sorted(same) == ["frame-bottom", "frame-left", "frame-right", "frame-top"]


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


@pytest.mark.parametrize("name", MAP_NAMES)
def test_benchmark_compares_with_the_same_motion(name):
    """The NumPy version leaves walls in three passes where the kernel takes as many as it needs."""
    task, rng = Marble(load_map(name)), np.random.default_rng(0)
    X = task.design_inputs("random", rng)[:5000]
    noise = NOISE * rng.standard_normal((len(X), 2))
    ours, _ = task.step(X[:, :6], X[:, 6:], noise, TRUE_GAIN)
    theirs = numpy_marble_step(X[:, :6], X[:, 6:] + noise, TRUE_GAIN, task.map.geometry)
    assert (np.abs(ours - theirs).max(axis=1) < 1e-9).mean() > 0.97
