"""The page and the videos of one's own calibration, without a browser: what they show and say, and what they refuse."""

from __future__ import annotations

import io
import math
import re
import string
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from capture_cp import CaptureError, write_transitions
from capture_cp.cli import main
from capture_cp.commands.robot import Robot
from capture_cp.commands.view import LogSession, View
from capture_cp.commands.view_parts import facts, thresholds_table
from capture_cp.viewer.texts import as_text
from commands import refused
from robots import moves

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
KINDS = ("box", "wheel", "pose", "arm")


@pytest.fixture
def here(robots, monkeypatch):
    monkeypatch.chdir(robots)
    return robots


def view(folder, kind, log="-new.csv", **changes):
    file = None if log is None else folder / f"{kind}{log}"
    return View(folder / f"{kind}.capture", file, trust=True, folder=folder, port=8951, **changes)


def session(folder, kind, log="-new.csv", **changes):
    """A session whose model has been asked."""
    found = view(folder, kind, log, **changes).session()
    while found.prepare():
        pass
    return found


def held(frame):
    """Steps inside their region, and steps in all."""
    return tuple(map(int, re.search(r"\| all \| (\d+) / (\d+) =", frame.tables).groups()))


# -- stepping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_one_steps_through_a_log(robots, kind):
    found = session(robots, kind)
    assert (found.time, held(found.frame())[1]) == (0, 1)
    found.advance()
    found.seek(found.time + 2)
    frame = found.frame()
    assert (found.time, held(frame)[1]) == (3, 4)
    assert f"step 4 of {found.last + 1}: outcome" in frame.status
    found.back()
    assert found.time == 2
    found.seek(10**9)
    assert found.time == found.last
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
    assert found.frame().waiting  # the model has not been asked about it
    assert "predicting episode run 4" in found.frame().status
    assert found.prepare()
    assert not found.prepare()
    assert "run 4, step 1 of 12" in found.frame().status


def test_a_larger_alpha_holds_no_more(robots):
    found = session(robots, "box")
    found.seek(10**6)
    counts = []
    for alpha in (0.05, 0.2, 0.5):
        found.change("alpha", alpha)
        counts.append(held(found.frame())[0])
    assert counts == sorted(counts, reverse=True)


# -- by hand ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_log_inputs_are_chosen_within_the_kept_quantiles(robots, kind):
    found = session(robots, kind, log=None)
    values = found.robot.input_quantiles()
    low, high = values.min(axis=1), values.max(axis=1)
    assert ((found.x >= low) & (found.x <= high)).all()
    found.aim(0, float(high[0]))
    frame = found.frame()
    assert frame.x[0] == high[0]
    assert "Coverage" not in frame.tables
    assert "by hand: move the sliders" in frame.status
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
    x = found.frame().x
    found.aim(3, 0.1)
    frame = found.frame()
    assert (frame.x[:3] == x[:3]).all()
    assert frame.x[3] == 0.1
    assert "by hand" in frame.status


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
    table = found.frame().tables
    assert table.count("whole stratum") == 3
    assert "are needed at this α, so the region covers all of it" in table
    nothing = thresholds_table(found.robot, np.full(3, np.inf), np.zeros(3, dtype=np.int64), 0.01)
    assert "No calibration transition from such an input ended in free, edge, corner" in nothing


def test_strata_without_steps_have_none_yet(robots):
    table = session(robots, "box").frame().tables
    assert "none yet" in table
    assert "these intervals are too narrow" in table
    assert "no test" not in table
    assert "no test" in session(robots, "box", log=".csv").frame().tables


def test_what_a_file_names_is_never_markup(robots, monkeypatch):
    evil = "![a](http://evil.invalid/x.png) <script>{1}</script> | `b` \x1b[31m"
    shown = as_text(evil)
    bare = "".join(part for part in shown.replace("\\\\", "").split("\\"))
    assert not any(mark in shown.replace(f"\\{mark}", "") for mark in string.punctuation if mark != "\\"), bare
    assert "\x1b" not in shown
    found = session(robots, "box")
    monkeypatch.setattr(Robot, "strata", property(lambda robot: (evil, "b", "c")))
    robot = replace(found.robot, inputs=(evil, *found.robot.inputs[1:]), name=evil, axes=(evil, "y"))
    page = LogSession(robot, replace(found.runs, rows={evil: found.runs.rows["run 1"]}), (0, 1))
    page.prepare()
    frame = page.frame()
    for text in (frame.status, frame.tables, facts(robot, 1, 1), page.legend):
        assert "<script>" not in text
    for text in (frame.status, frame.tables, page.facts):
        assert "![a](" not in text


def test_many_episodes_are_listed_in_part(robots, monkeypatch):
    monkeypatch.setattr("capture_cp.commands.view_parts.LISTED", 2)
    found = session(robots, "box", episode="run 4")
    assert list(found.recordings) == ["run 1", "run 2", "run 4"]
    assert "parts of the log; --episode NAME shows another" in found.facts


# -- videos -------------------------------------------------------------------------------------------------------------


def test_an_episode_becomes_a_video_at_the_pace_of_its_log(here, capsys):
    main(["view", "box.capture", "box-new.csv", "--trust", "--episode", "run 2", "--save", "run.gif"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Video of episode run 2," in said
    assert "of 12 steps inside their regions: run.gif" in said
    assert "Steps of one episode are not" in said
    with Image.open("run.gif") as film:
        assert film.n_frames == 12
        film.seek(1)
        film.load()
        assert film.info["duration"] == 100


@pytest.mark.parametrize(
    ("kind", "more"), [("wheel", ()), ("pose", ("--axes", "q0", "q2")), ("arm", ("--axes", "q4", "q1"))]
)
def test_any_number_of_axes_becomes_a_video(here, capsys, kind, more):
    rows = () if kind == "wheel" else ("--rows", "3:5")
    main(["view", f"{kind}.capture", f"{kind}-new.csv", *more, *rows, "--save", f"{kind}.gif"])
    assert ("Video of episode 0," if kind == "wheel" else "Video of rows 3 to 5,") in capsys.readouterr().out
    with Image.open(f"{kind}.gif") as film:
        assert film.n_frames == (20 if kind == "wheel" else 3)


def test_whole_strata_and_the_same_log_are_said_in_words(here, capsys):
    main(["view", "box.capture", "box.csv", "--trust", "--rows", "1:1", "--alpha", "0.001", "--save", "one.gif"])
    said = " ".join(capsys.readouterr().out.split())
    assert "The calibration was made from this log" in said
    assert "cover all of free, edge, corner: too few calibration transitions" in said


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


FILM = ("--save", "film.gif")
PAGES = [
    (("none.capture",), "none.capture does not exist"),
    (("pusher.py",), "pusher.py is not a capture-cp calibration"),
    (("box.capture",), "was made with --model pusher:model; give that (or --trust"),
    (("box.capture", "wheel-new.csv", "--trust"), "unknown column in wheel-new.csv 'x'"),
    (("box.capture", "none.csv", "--trust"), "none.csv does not exist"),
    (("box.capture", "box-new.csv", "--trust", "--episode", "9"), "no episode '9' in the log; there are run 1, run 2"),
    (("box.capture", "--trust", "--episode", "9"), "give the log too"),
    (("arm.capture", "--axes", "q0", "q7"), "unknown axis 'q7'"),
    (("arm.capture", "--port", "99999"), "port is 99999"),
    (("arm.capture", "--alpha", "0"), "alpha is 0"),
    (("box.capture", *FILM), "needs a log as well as the calibration"),
    (("box.capture", "box-new.csv", "--trust", "--rows", "5:500", *FILM), "rows are 5:500; expected two of the log's rows"),
    (("box.capture", "box-new.csv", "--rows", "1:2", "--episode", "a", *FILM), "both --episode and --rows"),
    (("box.capture", "box-new.csv", "--save", "film.avi"), "a video ends in"),
    (("box.capture", "box-new.csv", "--film-speed", "0", *FILM), "expected a number from 0.01 to 10"),
    (("pose.capture", "pose-new.csv", "--episode", "3", *FILM), "the log has no episodes"),
]


@pytest.mark.parametrize(("arguments", "sentence"), PAGES)
def test_bad_input_is_one_sentence(here, capsys, arguments, sentence):
    pytest.importorskip("viser")
    assert sentence in refused(capsys, "view", *arguments)


def test_a_log_with_other_numbers_is_refused(here, capsys):
    write_transitions("two.csv", moves(10, 2, 0))
    columns = "--state", "q0", "q1", "--next", "next_q0", "next_q1"
    said = refused(capsys, "view", "pose.capture", "two.csv", *FILM, *columns)
    assert "name the columns that it was calibrated with" in said


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
