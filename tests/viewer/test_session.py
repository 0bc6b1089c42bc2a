"""The session behind the page: what is shown by hand, live and in replay, and what is counted."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.planning.episode import Episode
from capture_cp.planning.settings import PlannerSettings
from capture_lab.studies.live import TaskSession
from capture_lab.studies.view import TaskView
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.task import POSITION
from viewer import sessions
from viewer.sessions import VIEW, calibrated, played, ready

SMALL = PlannerSettings(horizon=3, samples=8, temperature=0.1)


@pytest.fixture(scope="module")
def session():
    return ready(beside="pcp")


@pytest.fixture(scope="module")
def recorded(session):
    return sessions.recorded(session)


@pytest.fixture(autouse=True)
def _fresh(session):
    for name in ("place", "method", "beside", "alpha", "k", "planner", "from_state_shown"):
        session.change(name, getattr(replace(VIEW, beside="pcp"), name))
    session.reset()


def cells(frame, method="capture"):
    return frame.now.plans[method][0].region.cells()


def test_a_method_is_shown_once_it_is_calibrated():
    session = TaskSession(VIEW)
    assert session.shown().waiting == ("capture",)
    assert session.prepare()
    assert not session.prepare()
    assert session.shown().waiting == ()
    assert list(session.shown().now.plans) == ["capture"]


def test_the_region_follows_state_action_alpha_and_method(session):
    session.put([0.05, 0.1, 0.06, -0.1, 0.12, 0.12])
    before = cells(session.shown())
    assert len(before)
    session.change("alpha", 0.3)
    assert len(cells(session.shown())) < len(before)
    session.change("alpha", 0.1)
    session.put([0.06, 0.1, 0.06, -0.1, 0.12, 0.12])
    assert not np.array_equal(cells(session.shown()), before)
    assert not np.array_equal(cells(session.shown(), "pcp"), cells(session.shown()))


def test_a_marble_dragged_into_a_wall_stays_outside(session):
    clearance = session.task.map.clearance
    for place in np.random.default_rng(0).uniform(-0.05, 0.15, (50, 2)):
        session.put([place[0], 0, place[1], 0, 0.5, 0])
        assert clearance(session.state[POSITION][None])[0] >= 0
        assert abs(session.state[4]) <= 0.175


def test_an_episode_on_the_page_is_that_of_the_study(session, recorded):
    assert played(session) == recorded.outcome
    np.testing.assert_array_equal(session.now.trail, recorded.states)


def test_steps_and_episodes_are_counted(session):
    outcomes = [played(session) for _ in range(2)]
    tally = session.shown().tallies["capture"]
    assert sum(tally.outcomes.values()) == 2
    assert tally.outcomes[outcomes[0]] >= 1
    assert tally.landed.sum() >= len(session.now.trail) - 1
    assert (tally.held <= tally.landed).all()
    session.reset()
    assert session.shown().tallies == {}


def test_a_plan_shows_a_cloud_and_a_region_a_step(session):
    session.advance()
    steps = session.shown().now.plans["capture"]
    assert len(steps) == VIEW.planner.horizon
    assert all(step.cloud.shape == (16, 2) and step.region is not None for step in steps)


def test_settings_changed_on_the_way_take_effect_but_are_not_counted(session):
    session.advance()
    session.advance()
    session.change("planner.horizon", 3)
    session.advance()
    assert len(session.now.plan) == 3
    assert played(session)
    assert sum(session.shown().tallies["capture"].outcomes.values()) == 0


def test_an_episode_may_start_from_the_state_shown(session):
    session.put([0.05, 0.1, 0.06, 0.0, 0.0, 0.0])
    session.change("from_state_shown", True)
    session.advance()
    np.testing.assert_array_equal(session.now.trail[0], session.state)
    assert session.state[1] == 0.1


def test_a_recording_is_shown_step_by_step(session, recorded, tmp_path):
    recorded.save(tmp_path / "episode.npz")
    session.show("episode.npz", Episode.load(tmp_path / "episode.npz"))
    assert session.mode == "replay"
    session.seek(4)
    frame = session.shown()
    np.testing.assert_array_equal(frame.now.state, recorded.states[4])
    np.testing.assert_array_equal(frame.now.plans["capture"][0].cloud, recorded.particles[4])
    assert frame.tallies["capture"].held.sum() == recorded.inside[:4].sum()
    session.seek(10_000)
    assert session.shown().now.outcome == recorded.outcome
    assert session.shown().now.plans["capture"] == []
    session.play()
    session.advance()
    assert (session.time, session.playing) == (1, True)


def test_a_recording_of_another_map_or_task_is_refused(session, recorded):
    elsewhere = MarbleOptions(variant=True).at("bottom-right").starts(len(recorded.states))
    with pytest.raises(CaptureError, match="recorded on another map"):
        session.show("episode.npz", replace(recorded, info={"task": "marble", "options": {}, "map": "center"}))
    with pytest.raises(CaptureError, match=r"recorded in 'Bottom Right \(variant\)', and this page shows 'Bottom Right'"):
        session.show("episode.npz", replace(recorded, states=elsewhere, info=recorded.info | {"options": {"variant": True}}))
    with pytest.raises(CaptureError, match="not of the marble"):
        session.show("episode.npz", replace(recorded, states=recorded.states[:, :3]))
    assert session.mode == "by hand"
    assert session.settings.place == "bottom-right"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("k", 17, "choose k from 1 to 16"),
        ("alpha", 0.0, "alpha is 0.0"),
        ("method", "captur", "Did you mean 'capture'"),
        ("place", "centre", "Did you mean 'center'"),
        ("planner.horizon", 0, "horizon is 0"),
        ("planner.temperature", 0.0, "temperature is 0.0"),
    ],
)
def test_bad_settings_are_refused_and_change_nothing(session, path, value, sentence):
    before = session.settings
    with pytest.raises(CaptureError, match=sentence):
        session.change(path, value)
    assert session.settings == before


def test_an_episode_of_another_task_or_of_none_is_refused(session, recorded):
    with pytest.raises(CaptureError, match="expected task, options and map among them"):
        session.show("episode.npz", replace(recorded, info={}))
    box = replace(recorded, states=recorded.states[:, :2], info={"task": "box", "options": {}, "map": "box"})
    with pytest.raises(CaptureError, match="the episode's task is 'box'; this page shows 'marble'"):
        session.show("episode.npz", box)


def test_a_task_that_shows_nothing_of_its_own_has_a_page():
    """Regions, a live episode, pictures, sliders and a scene in 3D for the box, which has none of these."""
    session = calibrated(TaskSession(TaskView.of(Box(), place="box", beside="lucca", planner=SMALL, calibration=2000)))
    session.put([0.65, 0.45])  # in the pillar
    assert session.task.strata.index(session.state[None])[0] >= 0
    session.advance()
    session.advance()
    frame, scene = session.shown(), session.scene
    steps = frame.now.plans["capture"]
    assert all(step.region is not None for name in ("capture", "lucca") for step in frame.now.plans[name])
    assert len(steps) == SMALL.horizon
    drawn = session.frame()
    assert (drawn.scene.picture != scene.flat_picture(replace(frame.now, plans={}))[0]).any()
    assert [caption for caption, _ in drawn.pictures] == ["capture (left), lucca (right)", "Close-up of the next step"]
    assert scene.reading(frame.now).endswith(("free", "edge", "corner"))
    assert [slider.label for slider in session.sliders] == ["x", "y", "push_x", "push_y"]
    assert all(slider.low < slider.high for slider in session.sliders)
    assert {"weights.away", "weights.patch", "k"} <= set(session.controls)


def test_what_is_dragged_in_the_flat_scene_is_the_configuration():
    session = TaskSession(TaskView.of(Box()))
    for point in ([0.2, 0.9], [0.5, 0.5]):
        session.put(point)
        session.drag(session.scene.scene(session.now).handle.place)
        np.testing.assert_allclose(session.state, point)


def test_only_the_next_step_of_the_peg_has_a_region_and_steps_are_counted_by_regime(monkeypatch):
    session = calibrated(TaskSession(sessions.peg_view(monkeypatch)))
    for _ in range(4):
        session.advance()
    steps, tally = session.shown().now.plans["capture"], session.shown().tallies["capture"]
    assert [step.region is not None for step in steps] == [True, False, False, False]
    assert all(step.cloud.shape == (8, 3) for step in steps)
    assert steps[0].cells.sum() == len(steps[0].region.cells())
    assert tally.landed.sum() == 3
    assert len(tally.landed) == len(session.task.regimes) == 4
    assert {"left", "right", "table"} <= session.frame().scene.bodies.keys()
    session.put([0.015, -0.01, 0.3])  # in the receptacle
    assert session.task.strata.index(session.state[None])[0] >= 0
