"""Pictures of the shelf: what they show is where the arm and the jar are, and only members of regions are drawn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")
pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra view)")

from capture_cp.planning.episode import Episode
from capture_cp.report.solids import SIDE, TOP
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.moment import Moment, recorded_moment
from capture_lab.tasks.shelf import views
from capture_lab.tasks.shelf.options import ShelfOptions


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


def test_the_bodies_of_the_arm_are_where_mujoco_has_them(task, poses):
    for y in poses:
        bodies = views.shelf_bodies(task, y)
        assert np.allclose(bodies["jar"].place, task.jars(y[None])[0, :3], atol=1e-9)
        assert not any(body.kind == "plane" for body in bodies.values())


def test_boards_are_broad_from_above_and_side_walls_from_the_side(task):
    bodies = views.shelf_bodies(task, np.array(task.shelf.start)).values()
    broad = {
        view.name: sum(views.seen_through(body, view).opacity == views.BROAD for body in bodies) for view in (SIDE, TOP)
    }
    assert broad == {"side view": len(task.shelf.walls) - 1, "top view": len(task.shelf.boards)}  # all walls but the back


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


def test_every_step_of_a_film_is_another_picture_of_one_size(task, episode):
    board = task.drawing().film(episode)
    pictures = [board.draw(step) for step in range(episode.steps + 1)]
    assert len({picture.shape for picture in pictures}) == 1
    assert not any(size % 2 for size in pictures[0].shape[:2])
    assert all((a != b).any() for a, b in pairwise(pictures))


def test_a_touched_glass_is_red_in_the_last_picture_only(task, episode):
    drawn = task.drawing()
    assert drawn.touched(recorded_moment(episode, episode.steps)) == [0]
    assert drawn.touched(recorded_moment(episode, episode.steps - 1)) == []
    assert drawn.touched(recorded_moment(replace(episode, outcome="success"), episode.steps)) == []


def test_an_episode_without_regions_is_filmed(task, episode):
    bare = replace(episode, particles=np.empty((0, 0, 0)), thresholds=np.empty((0, 0)), inside=np.empty(0, dtype=bool))
    assert task.drawing().film(bare).draw(1).ndim == 3


# -- the live page --------------------------------------------------------------------------------------------------------


def test_the_jar_follows_the_gizmo(task):
    scene = task.drawing()
    wanted = np.array([0.66, 0.15, 0.62])
    angles = scene.dragged(task.starts(1)[0], wanted)[:7]
    assert np.linalg.norm(task.jars(angles[None])[0, :3] - wanted) < 0.005
    assert (angles >= scene.corners()[0]).all()
    assert (angles <= scene.corners()[1]).all()


def test_what_is_placed_is_feasible(task):
    scene, rng = task.drawing(), np.random.default_rng(1)
    for _ in range(30):
        state = np.concatenate([rng.uniform(*scene.corners()), np.zeros(7)])
        assert task.strata.index(scene.placed(state)[None, :7])[0] != INFEASIBLE


@pytest.mark.parametrize("methods", [("capture",), ("capture", "lucca")])
def test_the_page_has_two_views_of_every_method_and_close_ups_of_one_size(task, caps, methods):
    scene = task.drawing()
    state, action = scene.first_look()
    bare = Moment(state, state[None], np.zeros(1, dtype=bool), np.tile(action, (2, 1)))
    plans = {name: scene.ahead(caps[name], bare, 0.1, 0) for name in methods}
    snapshot = replace(bare, plans=plans)
    whole, near = scene.page_panels(snapshot)
    assert [len(panels) for panels in whole] == [2] * len(methods)
    assert len({tuple(panel.high - panel.low) for panel in near}) == 1
    assert all(panel.dots for panel in near)
    assert "free" in scene.reading(snapshot)
    assert scene.page_panels(bare)[1] == []
    assert len(scene.scene(snapshot).points["region"].at)
