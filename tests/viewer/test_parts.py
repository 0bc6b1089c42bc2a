"""The parts of the page that need no browser: controls from dataclasses, pictures, background loops, ports, bad input."""

import socket
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.report.canvas import Canvas, rgb
from capture_cp.report.style import OUTSIDE, STRATA_COLOURS
from capture_cp.viewer.controls import Choices, Range
from capture_cp.viewer.serve import free_port
from capture_cp.viewer.worker import Worker
from capture_lab.studies.live import TaskSession
from capture_lab.studies.live_texts import counts_table, inside_line, regions_table, status_line
from capture_lab.studies.view import TaskView, page_controls, replaced
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.peg.options import PegOptions
from commands import refused
from viewer.sessions import calibrated, ready

# -- controls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [TaskView.of(kind()).resolved() for kind in (MarbleOptions, PegOptions)])
def test_every_setting_of_the_command_line_has_a_control_with_help(view):
    found = page_controls(view)
    assert {"method", "beside", "alpha", "k", "planner.horizon", "planner.samples", "planner.temperature"} <= set(found)
    assert all(control.help for control in found.values())
    assert isinstance(found["alpha"].marks, Range)
    assert isinstance(found["method"].marks, Choices)


def test_a_nested_setting_is_replaced_without_touching_the_rest():
    before = TaskView.of(MarbleOptions())
    view = replaced(before, "planner.horizon", 3)
    assert view.planner.horizon == 3
    assert replaced(view, "planner.horizon", 6) == before


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    session = ready()
    session.put([0.05, 0.1, 0.06, -0.1, 0.12, 0.12])
    return session.shown()


def test_the_picture_has_the_strata_where_they_are(frame):
    strata = frame.scene.task.strata
    canvas = Canvas(strata, np.zeros(2), np.array(frame.scene.task.map.size) * 1e-3, 200)
    labels, picture = canvas.ground(np.zeros(2))
    points = canvas.points(slice(None), slice(None), np.zeros(2))
    np.testing.assert_array_equal(labels.ravel(), strata.index(points))
    np.testing.assert_allclose(canvas.pixel(points), np.indices(canvas.shape).reshape(2, -1).T, atol=1e-9)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4


def test_painted_pixels_are_those_of_the_region_in_the_colours_of_the_figures(frame):
    region = frame.now.plans["capture"][0].region
    canvas = Canvas(frame.scene.task.strata, np.zeros(2), np.array(frame.scene.task.map.size) * 1e-3, 200)
    labels, ground = canvas.ground(np.zeros(2))
    picture = ground.copy()
    canvas.region(picture, region, np.zeros(2), 1.0)
    painted = (picture != ground).any(axis=2)
    inside = region.contains(canvas.points(slice(None), slice(None), np.zeros(2))).reshape(canvas.shape)
    np.testing.assert_array_equal(painted, inside)
    for m in range(3):
        assert (picture[inside & (labels == m)] == rgb(STRATA_COLOURS[m])).all()


def test_texts_and_trail_say_where_steps_ended_and_what_regions_are_calibrated_on():
    """On runs of the planner at its own settings they are exchangeable with new runs; otherwise they are not."""
    session = calibrated(TaskSession(TaskView.of(MarbleOptions(), place="bottom-right")))
    assert "press Play" in status_line(session.shown())
    assert "| stratum | capture |" in regions_table(session.shown())
    for _ in range(3):
        session.advance()
    shown = session.shown()
    assert "episode 1, step 2" in status_line(shown)
    assert "| success | 0 / 0 |" in counts_table(shown)
    assert "Calibrated on 500 runs" in counts_table(shown)
    assert inside_line(shown).endswith("2 steps inside their region (100%, target 90%)")
    missed = replace(session.now, missed=np.array([False, True, False]))
    plain, marked = (session.scene.page_panels(moment)[0][0][0].marks for moment in (session.now, missed))
    assert not any(mark is OUTSIDE and len(at) for mark, at in plain)
    assert [len(at) for mark, at in marked if mark is OUTSIDE] == [1]
    session.change("alpha", 0.2)
    session.advance()
    assert "not exchangeable" in counts_table(session.shown())


# -- the background ---------------------------------------------------------------------------------------------------


def test_a_worker_survives_an_error_and_does_the_latest_work():
    done, failed, calls = threading.Event(), [], []

    def work():
        calls.append(1)
        if len(calls) == 1:
            raise CaptureError("once")
        done.set()

    worker = Worker("test", work, failed.append)
    worker.wake()
    for _ in range(100):
        if failed:
            break
        done.wait(0.05)
    worker.wake()
    assert done.wait(5)
    worker.stop()
    assert [str(error) for error in failed] == ["once"]


# -- bad input --------------------------------------------------------------------------------------------------------


def test_a_taken_port_gives_the_next_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port


def test_a_host_that_is_not_ours_is_refused():
    with pytest.raises(CaptureError, match=r"cannot serve the page on host '192\.0\.2\.1'"):
        free_port("192.0.2.1", 8080)


def test_a_missing_extra_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    assert "pip install 'capture-cp[view]'" in refused(capsys, "view", "--task", "marble")


def test_an_unreadable_episode_is_one_sentence(capsys, tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"no episode")
    assert "bad.npz is not a capture-cp episode" in refused(
        capsys, "view", "--task", "marble", "--replay", tmp_path / "bad.npz"
    )
    assert "no-such.npz" in refused(capsys, "view", "--task", "marble", "--replay", "no-such.npz")


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--port", "70000", "port is 70000"),
        ("--beside", "pcpp", "Did you mean 'pcp'?"),
        ("--calibration", "0", "calibration is 0"),
    ],
)
def test_bad_flags_are_one_sentence(capsys, option, value, sentence):
    assert sentence in refused(capsys, "view", "--task", "marble", option, value)
