"""Films of one's own log: `capture view robot.capture LOG --save FILE`."""

from __future__ import annotations

import warnings

import pytest
from PIL import Image

from capture_cp import CaptureWarning, write_transitions
from capture_cp.cli import main
from commands import refused
from robots import made, moves

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        yield made(tmp_path_factory.mktemp("films"))


@pytest.fixture
def here(robots, monkeypatch):
    monkeypatch.chdir(robots)
    return robots


def test_an_episode_becomes_a_film_at_the_pace_of_its_log(here, capsys):
    main(["view", "box.capture", "box-new.csv", "--trust", "--episode", "run 2", "--save", "run.gif"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Video of episode run 2," in said
    assert "of 12 steps inside their regions: run.gif" in said
    assert "those of one episode are not" in said
    with Image.open("run.gif") as film:
        assert film.n_frames == 12
        film.seek(1)
        film.load()
        assert film.info["duration"] == 100


@pytest.mark.parametrize(("kind", "more"), [("wheel", ()), ("pose", ("--axes", "q0", "q2")), ("arm", ("--axes", "4", "1"))])
def test_any_number_of_axes_becomes_a_film(here, capsys, kind, more):
    rows = () if kind == "wheel" else ("--rows", "3:5")
    main(["view", f"{kind}.capture", f"{kind}-new.csv", *more, *rows, "--save", f"{kind}.gif"])
    assert ("Video of episode 0," if kind == "wheel" else "Video of rows 3 to 5,") in capsys.readouterr().out
    with Image.open(f"{kind}.gif") as film:
        assert film.n_frames == (20 if kind == "wheel" else 3)


def test_mp4_is_written_too(here):
    pytest.importorskip("imageio_ffmpeg")
    main(["view", "pose.capture", "pose-new.csv", "--rows", "1:2", "--save", "pose-new.mp4"])
    assert b"ftyp" in (here / "pose-new.mp4").read_bytes()[:16]


def test_whole_strata_and_the_same_log_are_said_in_words(here, capsys):
    main(["view", "box.capture", "box.csv", "--trust", "--rows", "1:1", "--alpha", "0.001", "--save", "one.gif"])
    said = " ".join(capsys.readouterr().out.split())
    assert "this is the log that the calibration was made from" in said
    assert "cover all of free, edge, corner: too few calibration transitions" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("box.capture",), "needs a log as well as the calibration"),
        (("box.capture", "box-new.csv"), "was made with --model pusher:model; give that (or --trust"),
        (("box.capture", "box-new.csv", "--trust", "--episode", "run 7"), "no episode 'run 7' in the log; there are run 1"),
        (("box.capture", "wheel-new.csv", "--trust"), "unknown column in wheel-new.csv 'x'"),
        (("box.capture", "box-new.csv", "--trust", "--axes", "x", "7"), "axis 7 is out of range"),
        (("box.capture", "box-new.csv", "--trust", "--axes", "x", "z"), "unknown axis 'z'"),
        (("box.capture", "box-new.csv", "--trust", "--rows", "5:500"), "rows are 5:500; expected two of the log's rows"),
        (("box.capture", "box-new.csv", "--rows", "1:2", "--episode", "a"), "both --episode and --rows"),
        (("box.capture", "box-new.csv", "--save", "film.avi"), "a video ends in"),
        (("box.capture", "box-new.csv", "--alpha", "2"), "alpha is 2"),
        (("box.capture", "box-new.csv", "--film-speed", "0"), "expected a number from 0.01 to 10"),
        (("pose.capture", "pose-new.csv", "--episode", "3"), "the log has no episodes"),
        (("pusher.py", "box-new.csv"), "pusher.py is not a capture-cp calibration"),
        (("none.capture", "box-new.csv"), "none.capture does not exist"),
        (("box.capture", "none.csv", "--trust"), "none.csv does not exist"),
    ],
)
def test_bad_input_is_one_sentence(here, capsys, arguments, sentence):
    named = () if "--save" in arguments else ("--save", "film.gif")
    assert sentence in refused(capsys, "view", *arguments, *named)


def test_a_log_with_other_numbers_is_refused(here, capsys):
    write_transitions("two.csv", moves(10, 2, 0))
    said = refused(
        capsys, "view", "pose.capture", "two.csv", "--save", "a.gif", "--state", "q0", "q1", "--next", "next_q0", "next_q1"
    )
    assert "name the columns that it was calibrated with" in said
