"""Pictures of the shelf: what they show is where the arm and the jar are, and only members of regions are drawn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")
pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra view)")

from capture_cp.planning.episode import Episode
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.scene import Moment
from capture_lab.tasks.shelf import film, views
from capture_lab.tasks.shelf.options import ShelfOptions
from capture_lab.tasks.shelf.painting import Flat, as_high, stacked


@pytest.fixture(scope="module")
def task():
    return ShelfOptions(threads=1).at("open")


@pytest.fixture(scope="module")
def caps(task):
    log = task.calibration(0, 600)
    return {name: task.method(name, 8).fit(log.X, log.Y) for name in ("capture", "lucca")}


@pytest.fixture(scope="module")
def poses(task):
    return task.inputs(12, np.random.default_rng(3))[:, :7].copy()


@pytest.fixture(scope="module")
def episode(task, caps):
    """Three steps forward, recorded with their regions."""
    rng, states, action = np.random.default_rng(0), [task.starts(1)[0]], np.array([0, 0.08, 0, 0.08, 0, 0, 0])
    for _ in range(3):
        states.append(task.true_step(states[-1][None], action[None], rng)[0])
    actions = np.tile(action, (3, 1))
    info = {"task": "shelf", "options": {}, "map": "open", "method": "capture"}
    run = Episode("touched the glass", np.array(states), actions, actions[:, None], np.zeros(3), np.zeros(3), info)
    return run.with_regions(caps["capture"], task.axes, rng=0)


# -- what is drawn --------------------------------------------------------------------------------------------------------


def test_the_capsules_of_the_arm_are_where_mujoco_has_them(task, poses):
    import mujoco

    arm, model = views.Arm(task), task.system.model
    data = mujoco.MjData(model)
    named = [i for i in range(model.ngeom) if model.geom(i).name in ("forearm", "wrist", "palm", "jar")]
    for y in poses:
        data.qpos[:] = y
        mujoco.mj_kinematics(model, data)
        drawn = arm.at(y)
        middles = (drawn[:, :3] + drawn[:, 3:6]) / 2
        for i in named:
            assert np.linalg.norm(middles - data.geom_xpos[i], axis=1).min() < 1e-9
        assert np.allclose(middles[arm.jar], task.jars(y[None])[0, :3], atol=1e-9)


@pytest.mark.parametrize("view", [views.SIDE, views.TOP])
def test_the_outline_of_a_capsule_is_its_radius_away_from_its_axis(view):
    capsule = np.array([0.1, 0.2, 0.3, 0.4, -0.1, 0.5, 0.07])
    a, b = view.flat(capsule[:3]), view.flat(capsule[3:6])
    outline = views.stadium(capsule, view)
    share = np.clip((outline - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)[:, None]
    assert np.allclose(np.linalg.norm(outline - a - share * (b - a), axis=1), 0.07)


def test_boards_are_broad_from_above_and_side_walls_from_the_side(task):
    shelf = task.shelf
    assert sum(face.broad for face in views.faces(shelf, views.TOP)) == len(shelf.boards)
    assert sum(face.broad for face in views.faces(shelf, views.SIDE)) == len(shelf.walls) - 1  # all but the back


def test_pushed_configurations_touch_or_are_free(task):
    rng = np.random.default_rng(0)
    Y = task.inputs(200, rng)[:, :7] + 0.08 * rng.standard_normal((200, 7))
    blocked = Y[task.strata.index(Y) == INFEASIBLE]
    assert len(blocked) > 5
    assert (task.strata.index(views.pushed(task, blocked)) != INFEASIBLE).mean() > 0.8


@pytest.mark.parametrize("name", ["capture", "lucca"])
def test_only_members_of_a_region_are_drawn(task, caps, name, monkeypatch):
    seen, X = [], task.inputs(4, np.random.default_rng(5))  # which asks for jars too, so that it comes first
    monkeypatch.setattr(type(task), "jars", lambda self, Y: (seen.append(Y), np.zeros((len(Y), 4)))[1])
    for x in X:
        region = caps[name].region(x, 0.1, rng=0)
        cloud = views.jar_cloud(task, region, 40, np.random.default_rng(0))
        Y = seen.pop()
        assert len(Y) == len(cloud.points) > 0
        assert region.contains(Y).all()
        assert (task.strata.index(Y) == cloud.labels).all()
        assert np.bincount(cloud.labels + 1).max() <= 40


def test_a_cloud_of_whole_strata_is_finite(task, caps):
    x = task.inputs(1, np.random.default_rng(5))[0]
    region = caps["capture"].region(x, 0.1, rng=0)
    region.thresholds = np.full_like(region.thresholds, np.inf)
    cloud = views.jar_cloud(task, region, 30, np.random.default_rng(0))
    assert len(cloud.points)
    assert np.isfinite(cloud.points).all()


def test_the_touched_glass_is_found():
    task = ShelfOptions(shelves=("two-glasses",), threads=1).at("two-glasses")
    Y = task.starts(1)[:, :7]
    (nearest,) = views.touched_glasses(task, Y)
    assert 0 <= nearest < len(task.shelf.glasses)


# -- figures and films ----------------------------------------------------------------------------------------------------


def test_figures_are_written(task, caps, episode, tmp_path, monkeypatch):
    from capture_lab.tasks.shelf import drawing

    monkeypatch.setattr(drawing, "INPUTS", 60)
    monkeypatch.setattr(drawing, "OUTCOMES", 4)
    drawn = task.drawing()
    runs = [{"outcome": o, "path": episode.states[:, :7].tolist()} for o in ("success", "touched the glass", "timed out")]
    drawn.draw_spaces(tmp_path / "spaces.png")
    drawn.draw_regions(caps, 0.1, tmp_path / "regions.png")
    drawn.draw_trajectories({"open": task}, {("open", "capture"): runs}, tmp_path / "paths.png")
    assert all((tmp_path / f"{name}.png").stat().st_size > 5000 for name in ("spaces", "regions", "paths"))


@pytest.mark.parametrize("rendered", [True, False])
def test_every_step_of_a_film_is_another_picture_of_one_size(task, episode, rendered, monkeypatch):
    if not rendered:
        monkeypatch.setattr(film, "renderer_for", lambda *args: None)
    board = task.drawing().storyboard(episode)
    pictures = [board.draw(step) for step in range(episode.steps + 1)]
    assert len({picture.shape for picture in pictures}) == 1
    assert not any(size % 2 for size in pictures[0].shape[:2])
    assert all((a != b).any() for a, b in pairwise(pictures))


def test_a_touched_glass_is_red_in_the_last_picture_only(task, episode):
    board = task.drawing().storyboard(episode)
    assert board.touched(episode.steps) == [0]
    assert board.touched(episode.steps - 1) == []
    assert task.drawing().storyboard(replace(episode, outcome="success")).touched(episode.steps) == []


def test_an_episode_without_regions_is_filmed(task, episode):
    bare = replace(episode, particles=np.empty((0, 0, 0)), thresholds=np.empty((0, 0)), inside=np.empty(0, dtype=bool))
    assert task.drawing().storyboard(bare).draw(1).ndim == 3


# -- the live page --------------------------------------------------------------------------------------------------------


def test_the_jar_follows_the_gizmo(task):
    scene = task.scene()
    wanted = np.array([0.66, 0.15, 0.62])
    angles = scene.dragged(task.starts(1)[0], wanted)[:7]
    assert np.linalg.norm(task.jars(angles[None])[0, :3] - wanted) < 0.005
    assert (angles >= scene.corners()[0]).all()
    assert (angles <= scene.corners()[1]).all()


def test_what_is_placed_is_feasible(task):
    scene, rng = task.scene(), np.random.default_rng(1)
    for _ in range(30):
        state = np.concatenate([rng.uniform(*scene.corners()), np.zeros(7)])
        assert task.strata.index(scene.placed(state)[None, :7])[0] != INFEASIBLE


@pytest.mark.parametrize("methods", [("capture",), ("capture", "lucca")])
def test_flat_pictures_of_all_methods_have_one_size(task, caps, methods):
    scene = task.scene()
    state, action = scene.first_look()
    bare = Moment(state, state[None], np.zeros(1, dtype=bool), np.tile(action, (2, 1)))
    plans = {name: scene.ahead(caps[name], bare, 0.1, 0) for name in methods}
    snapshot = replace(bare, plans=plans)
    shapes = {scene.picture(snapshot, steps).shape for steps in plans.values()}
    enlarged = scene.enlarged(snapshot)
    assert len(shapes) == 1
    assert len(enlarged) == len(methods)
    assert len({one.shape for one in enlarged}) == 1
    assert "free" in scene.reading(snapshot)
    assert scene.picture(bare, []).ndim == 3


def test_there_is_a_slider_for_every_angle_and_action(task):
    sliders = task.scene().sliders
    assert [slider.entry for slider in sliders] == [*range(7), *range(14, 21)]
    assert len({slider.label for slider in sliders}) == 14


def test_a_painted_capsule_covers_its_pixels_as_a_slow_loop_says(task):
    flat = Flat(
        task, views.SIDE, np.array([-3.0, -3.0]), np.array([-2.0, -2.5]), 60, np.empty((0, 7)), 0
    )  # far from the shelf
    capsule = np.array([-2.7, 0.0, -2.8, -2.4, 0.0, -2.7, 0.05])
    flat.capsule(capsule, "#ff0000", 1.0, "#ff0000")
    a, b = capsule[[0, 2]], capsule[[3, 5]]
    for row in range(flat.picture.shape[0]):
        for column in range(flat.picture.shape[1]):
            point = np.array([-3.0 + (column + 0.5) / 60, -3.0 + (flat.picture.shape[0] - row - 0.5) / 60])
            share = np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
            away = np.linalg.norm(point - a - share * (b - a)) - 0.05
            if abs(away) > 2.5 / 60:
                assert (flat.picture[row, column] == ([255, 0, 0] if away < 0 else 255)).all()


def test_pictures_above_each_other_keep_their_width():
    a, b = np.zeros((4, 6, 3), np.uint8), np.ones((3, 6, 3), np.uint8)
    assert stacked([a, b], gap=2).shape == (9, 6, 3)
    assert as_high(a, 7).shape == (7, 6, 3)
