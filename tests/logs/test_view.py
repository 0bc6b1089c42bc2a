"""The page of one's own calibration, without a browser: what it shows, what it says, and what it refuses."""

from __future__ import annotations

import io
import math
import string
import warnings
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureError, CaptureWarning
from capture_cp.commands.runs import read_runs
from capture_cp.commands.view import LogSession, View
from capture_cp.commands.view_frame import counts_table, facts, legend_of, status, thresholds_table
from capture_cp.viewer.texts import as_text
from commands import refused
from robots import made

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
KINDS = ("box", "wheel", "pose", "arm")


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        yield made(tmp_path_factory.mktemp("pages"))


def view(folder, kind, log="-new.csv", **changes):
    file = None if log is None else folder / f"{kind}{log}"
    return View(folder / f"{kind}.capture", file, trust=True, folder=folder, port=8951, **changes)


def session(folder, kind, log="-new.csv", **changes):
    """A session whose model has been asked."""
    settings = view(folder, kind, log, **changes)
    robot = settings.robot(settings.alpha)
    found = LogSession(robot, read_runs(settings, robot), robot.shown(settings.axes), settings.episode)
    while found.prepare():
        pass
    return found


def texts(frame):
    return status(frame) + thresholds_table(frame) + counts_table(frame)


# -- stepping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_one_steps_through_a_log(robots, kind):
    found = session(robots, kind)
    first = found.moment()
    assert (first.step, first.counts[0].steps) == (0, 1)
    found.advance()
    found.seek(found.time + 2)
    frame = found.moment()
    assert (frame.step, frame.counts[0].steps) == (3, 4)
    assert (frame.look.went == frame.replay.Y[3]).all()
    assert f"step 4 of {len(frame.replay)}" in status(frame)
    found.back()
    assert found.moment().step == 2
    found.seek(10**9)
    assert (found.time, found.last) == (len(frame.replay) - 1,) * 2
    found.seek(-5)
    found.play()
    for _ in range(found.last + 1):
        found.advance()
    assert (found.playing, found.time) == (False, found.last)
    found.play()
    assert (found.playing, found.time) == (True, 0)


def test_another_episode_begins_at_its_first_step(robots):
    found = session(robots, "box")
    found.seek(5)
    found.open("run 4")
    assert found.moment().look is None  # the model has not been asked about it
    assert "predicting episode run 4" in status(found.moment())
    assert found.prepare()
    assert not found.prepare()
    assert found.moment().step == 0


def test_a_larger_alpha_holds_no_more(robots):
    found = session(robots, "box")
    found.seek(10**6)
    held = []
    for alpha in (0.05, 0.2, 0.5):
        found.change("alpha", alpha)
        held.append(found.moment().counts[0].held)
    assert held == sorted(held, reverse=True)


# -- by hand ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_log_inputs_are_chosen_within_the_kept_quantiles(robots, kind):
    found = session(robots, kind, log=None)
    values = found.robot.input_quantiles()
    low, high = values.min(axis=1), values.max(axis=1)
    assert ((found.x >= low) & (found.x <= high)).all()
    found.aim(0, float(high[0]))
    frame = found.moment()
    assert frame.look.x[0] == high[0]
    assert (frame.look.went, frame.look.inside, frame.counts) == (None, None, [])
    assert "by hand: move the sliders" in status(frame)
    for value in (float(high[0]) + 1, math.nan, math.inf, "1", None, True):
        with pytest.raises(CaptureError, match="expected a number"):
            found.slide(found.sliders[0], value)
    with pytest.raises(CaptureError, match="there is no log"):
        found.open("run 1")
    with pytest.raises(CaptureError, match="nothing to play by hand"):
        found.play()


def test_a_slider_takes_over_from_the_log_where_it_was(robots):
    found = session(robots, "box")
    found.seek(4)
    x = found.moment().look.x
    found.aim(3, 0.1)
    look = found.moment().look
    assert (look.x[:3] == x[:3]).all()
    assert (look.x[3], look.went) == (0.1, None)


# -- axes ---------------------------------------------------------------------------------------------------------------


def test_axes_change_places_rather_than_being_the_same(robots):
    found = session(robots, "arm", axes=("q0", "q4"))
    assert (found.settings.across, found.settings.up) == ("q0", "q4")
    found.change("across", "q4")
    assert (found.settings.across, found.settings.up) == ("q4", "q0")
    assert found.space.shown == (4, 0)
    assert set(found.controls) == {"alpha", "across", "up"}
    assert set(session(robots, "box").controls) == {"alpha"}
    assert set(session(robots, "wheel").controls) == {"alpha"}


# -- words --------------------------------------------------------------------------------------------------------------


def test_whole_and_empty_strata_are_said_in_words(robots):
    found = session(robots, "box")
    found.change("alpha", 0.01)
    frame = found.moment()
    assert np.isinf(frame.look.region.thresholds).all()
    table = thresholds_table(frame)
    assert table.count("whole stratum") == 3
    assert "are needed at this α, so the region covers all of it" in table
    nothing = thresholds_table(replace(frame, sizes=np.zeros(3, dtype=np.int64)))
    assert "No calibration transition from such an input ended in free, edge, corner" in nothing


def test_strata_without_steps_have_none_yet(robots):
    table = counts_table(session(robots, "box").moment())
    assert "none yet" in table
    assert "these intervals are too narrow" in table
    assert "no test" not in table
    assert "no test" in counts_table(session(robots, "box", log=".csv").moment())


def test_what_a_file_names_is_never_markup(robots):
    evil = "![a](http://evil.invalid/x.png) <script>{1}</script> | `b` \x1b[31m"
    shown = as_text(evil)
    bare = "".join(part for part in shown.replace("\\\\", "").split("\\"))
    assert not any(mark in shown.replace(f"\\{mark}", "") for mark in string.punctuation if mark != "\\"), bare
    assert "\x1b" not in shown
    found = session(robots, "box")
    frame = found.moment()
    robot = replace(found.robot, state_names=(evil, "y"), name=evil, axes=(evil, "y"))
    frame = replace(frame, robot=robot, name=evil)
    for text in (texts(frame), facts(robot)):
        assert "<script>" not in text
        assert "![a](" not in text
    strata = type("Named", (), {"names": (evil, "b", "c")})
    cap = type("Cap", (), {"strata": strata})
    assert "<script" not in legend_of(replace(robot, cap=cap), False)


def test_many_episodes_are_listed_in_part(robots, monkeypatch):
    monkeypatch.setattr("capture_cp.commands.view.LISTED", 2)
    found = session(robots, "box", episode="run 4")
    assert list(found.recordings) == ["run 1", "run 2", "run 4"]
    assert "parts of the log; --episode NAME shows another" in facts(found.robot, len(found.recordings), 4)


# -- trouble ------------------------------------------------------------------------------------------------------------


def test_a_model_that_fails_is_asked_once(robots, monkeypatch):
    found = session(robots, "box")

    def failing(X, rng=None):
        raise CaptureError("no simulator")

    monkeypatch.setattr(found.robot.cap, "predict", failing)
    found.open("run 2")
    with pytest.raises(CaptureError, match="no simulator"):
        found.prepare()
    assert not found.prepare()
    assert found.name is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("none.capture",), "none.capture does not exist"),
        (("pusher.py",), "pusher.py is not a capture-cp calibration"),
        (("box.capture",), "was made with --model pusher:model; give that (or --trust"),
        (("box.capture", "wheel-new.csv", "--trust"), "unknown column in wheel-new.csv 'x'"),
        (("box.capture", "box-new.csv", "--trust", "--episode", "9"), "no episode '9' in the log; there are run 1"),
        (("box.capture", "--trust", "--episode", "9"), "give the log too"),
        (("arm.capture", "--axes", "q0", "q7"), "unknown axis 'q7'"),
        (("arm.capture", "--axes", "0", "5"), "axis 5 is out of range"),
        (("arm.capture", "--port", "99999"), "port is 99999"),
        (("arm.capture", "--alpha", "0"), "alpha is 0"),
        (("peggy",), "peggy does not exist"),
    ],
)
def test_bad_input_is_one_sentence(robots, capsys, monkeypatch, arguments, sentence):
    pytest.importorskip("viser")
    monkeypatch.chdir(robots)
    assert sentence in refused(capsys, "view", *arguments)


# -- the served page ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", ["-new.csv", None])
def test_a_page_is_served_and_drawn(robots, kind, log):
    pytest.importorskip("viser", reason="viser is not installed (extra view)")
    from capture_cp.viewer.serve import open_page

    page = open_page(view(robots, kind, log), Console(file=io.StringIO()))
    try:
        page._working.stop()
        page._drawing.stop()  # which alone may draw: two threads would share a figure
        while page.session.prepare():
            pass
        assert page._show() is False
        assert [image.image.shape[2] for image in page._images] == [3, 3]
        assert ("step 1 of" if log else "by hand") in page._status.content
        page.session.seek(3)
        before = page._images[0].image
        page._show()
        assert (page._images[0].image != before).any() == (log is not None)
    finally:
        page.stop()
