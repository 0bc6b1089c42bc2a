"""The commands for people with a log: what they print, save and refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from capture_cp import Transitions, load_calibration, read_transitions, write_transitions
from capture_cp.cli import main
from capture_cp.commands.bundle import LinearModel
from capture_lab.tasks.box import Box
from commands import refused
from logs.common import COLUMNS, NAMES, said

OWN = ("--model", "pusher:model", "--strata", "pusher:strata", "--min-leaf", "100")


def write_new(folder, name="new.csv", n=500, seed=9, **changes):
    write_transitions(folder / name, Box(**changes).transitions(n, np.random.default_rng(seed)))


def with_runs(folder, name="runs.csv", length=10, seed=0, noise=0.05, runs=60):
    """A log of runs, each with a slip of its own: its steps err together."""
    rng = np.random.default_rng(seed)
    run = np.repeat(np.arange(runs), length)
    slip = rng.normal(1.0, 0.2, runs)[run][:, None]
    state, push = rng.random((len(run), 2)), rng.uniform(-0.3, 0.3, (len(run), 2))
    after = state + slip * push + noise * 0.1 * rng.standard_normal((len(run), 2))
    time = np.tile(np.arange(length), runs)
    log = Transitions.from_arrays(state, push, after, *NAMES, episode=run, time=time, episode_name="run", time_name="t")
    write_transitions(folder / name, log)


# -- calibrate ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pictures")
def test_a_csv_becomes_a_calibration_and_a_report_in_one_command(pushed, capsys):
    printed = said(capsys, "calibrate", "pushes.csv", *COLUMNS)
    assert "500 to train, 1,000 to calibrate, 500 to check" in printed
    assert "target 90%" in printed
    assert sorted(file.name for file in pushed.iterdir()) == ["pusher.py", "pushes.csv", "robot.capture", "robot.html"]
    cap = load_calibration("robot.capture")
    assert isinstance(cap.model, LinearModel)
    region = cap.region([0.4, 0.5, 0.1, 0.1])
    assert region.volume() > 0
    page = (pushed / "robot.html").read_text()
    assert "Calibration of pushes.csv" in page
    assert page.count("data:image/png;base64,") == 1
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_model_and_strata_of_ones_own(pushed, capsys):
    printed = said(capsys, "calibrate", "pushes.csv", *COLUMNS, *OWN, "--json", "rows.json", "--out", "own.capture")
    assert "corner" in printed
    assert "push_x" in printed  # groups are printed in the words of the log
    content = json.loads((pushed / "rows.json").read_text())
    assert [row["stratum"] for row in content["rows"]] == ["all", "free", "edge", "corner"]
    assert 0.85 < content["rows"][0]["coverage"] < 0.97
    assert sum(group["calibration"] for group in content["groups"]) == 450  # the 30% of 1,500 that grow no tree
    assert content["config"]["alpha"] == 0.1
    assert "corner" in (pushed / "own.html").read_text()


TOML = """data = "pushes.csv"
state = ["x", "y"]
action = ["push_x", "push_y"]
next = ["next_x", "next_y"]
"""


def test_the_same_from_a_toml_file_anywhere(pushed, capsys, tmp_path_factory, monkeypatch):
    more = 'angles = ["next_x"]\nweights = [1.0, 2]\nmin-stratum = 30\nfarthest = 2.5\nmin-leaf = 100\nseed = 3\n'
    (pushed / "robot.toml").write_text(f'{TOML}model = "pusher:model"\nstrata = "pusher:strata"\n{more}')
    by_hand = ["--angles", "next_x", "--weights", "1", "2", "--min-stratum", "30", "--farthest", "2.5", "--seed", "3"]
    said(capsys, "calibrate", "pushes.csv", *COLUMNS, *OWN, *by_hand, "--out", "by-hand.capture")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    said(capsys, "calibrate", pushed / "robot.toml")
    assert list(Path.cwd().iterdir()) == []
    own = [np.sort(load(pushed / name)) for name in ("robot.capture", "by-hand.capture")]
    assert np.array_equal(*own)
    said(capsys, "calibrate", pushed / "robot.toml", "--weights", "1", "3")  # what comes after the file has the last word
    assert not np.array_equal(np.sort(load(pushed / "robot.capture")), own[0])
    write_new(pushed)
    assert "No evidence against the calibration" in said(capsys, "check", pushed / "robot.toml", pushed / "new.csv")


def load(path):
    from safetensors.numpy import load_file

    return load_file(path)["scores"]


def test_episodes_are_kept_whole_and_counted(pushed, capsys):
    with_runs(pushed)
    printed = said(capsys, "calibrate", "runs.csv", *COLUMNS, "--episode", "run", "--time", "t", "--json", "rows.json")
    assert "transitions of whole episodes" in printed
    assert "episodes" in printed
    cap = load_calibration("robot.capture")
    assert cap.data_["episodes"] == 30  # 60 less a quarter to train and a quarter to check
    assert json.loads((pushed / "rows.json").read_text())["rows"][0]["n"] == 15
    with_runs(pushed, "later.csv", seed=1)
    assert "No evidence against" in said(capsys, "check", "robot.capture", "later.csv")  # columns are remembered


def test_warnings_are_told_and_kept(pushed, capsys):
    log = read_transitions("pushes.csv", *NAMES)
    twice = np.repeat(np.arange(len(log)), 2)
    after = log.next * [1.0, 1e-8]
    names = log.state_names, log.action_names, log.next_names
    write_transitions("odd.csv", Transitions.from_arrays(log.state, log.action, after, *names).rows(twice))
    printed = " ".join(said(capsys, "calibrate", "odd.csv", *COLUMNS, "--alpha", "0.0005", "--json", "rows.json").split())
    assert "mixed units? Of the next configuration, next_x spreads by 0.3" in printed
    assert "transitions to check on are exact duplicates of those to calibrate on" in printed
    assert "too few calibration points for alpha = 0.0005" in printed
    content = json.loads((pushed / "rows.json").read_text())
    assert len(content["warnings"]) >= 3
    assert content["groups"][0]["threshold"] is None
    assert "mixed units?" in (pushed / "robot.html").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "nowhere:model"), "cannot import nowhere (ModuleNotFoundError"),
        (
            ("--model", "pusher:modell"),
            "has no modell; expected a callable model(X, n_particles, rng) -> (n, L, dc). Did you",
        ),
        (("--model", "pusher:strata"), "is a FunctionStrata; expected a callable model(X, n_particles, rng) -> (n, L, dc)"),
        (("--model", "pusher:two_arguments"), "failed with TypeError: two_arguments() takes 2 positional arguments but 3"),
        (("--model", "pusher:flat"), "the model's particles has shape (64, 2), expected (n, L, dc)"),
        (("--model", "pusher:failing"), "failed with IndexError: index 99 is out of bounds"),
        (("--model", "pusher"), "expected module:object"),
        (("--strata", "pusher:model"), "--strata pusher:model is a function; expected an object with names and index(Y)"),
        (("--strata", "pusher:broken_strata"), "failed with RuntimeError: no map loaded"),
        (("--method", "captur"), "Did you mean 'capture'?"),
        (("--method", "particles"), "unknown method 'particles'"),
        (("--check-share", "0.9"), "leave part of the log to calibrate on"),
        (("--alpha", "0"), "alpha is 0.0"),
        (("--out", "nowhere/robot.capture"), "cannot write nowhere/robot.capture"),
        (("--episode", "rnu"), "unknown column in pushes.csv 'rnu'"),
        (("--time", "x"), "x goes backwards within an episode in data row 2: 0.04097 after 0.63696 in data row 1"),
        (("--k", "40"), "k is 40, but the model returns 16 particles"),
        (("--min-stratum", "-1"), "min-stratum is -1; expected a whole number of at least 0"),
        (("--farthest", "nan"), "farthest is nan; expected a positive number"),
        (("--farthest", "0.01"), "transitions have larger scores, up to"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_leaves_nothing(pushed, capsys, options, sentence):
    assert sentence in refused(capsys, "calibrate", "pushes.csv", *COLUMNS, *options)
    assert sorted(file.name for file in pushed.iterdir() if file.name != "__pycache__") == ["pusher.py", "pushes.csv"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alhpa = 0.1", "unknown setting in robot.toml 'alhpa'; known: data, state"),
        ("alhpa = 0.1", "Did you mean 'alpha'?"),
        ("state = x", "settings file robot.toml is not TOML"),
        ("state = true", "expected text, a number or a list of them"),
        ("alpha = 0.1", 'names no data; add a line such as data = "log.csv"'),
        (f'{TOML}weights = ["a", "b"]', "Error parsing --weights"),
        (f"{TOML}weights = [1.0]", "--weights has 1 numbers; give one for each of next_x, next_y"),
        ("distances = 1", "unknown setting in robot.toml 'distances'"),
        ("[robot]\nalpha = 0.1", "unknown setting in robot.toml 'robot'"),
    ],
)
def test_a_toml_file_that_cannot_be_used_is_one_sentence(pushed, capsys, text, sentence):
    (pushed / "robot.toml").write_text(text)
    assert sentence in refused(capsys, "calibrate", "robot.toml")


# -- check ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def calibrated(pushed, capsys):
    said(capsys, "calibrate", "pushes.csv", *COLUMNS, *OWN)
    return pushed


def test_a_batch_that_has_changed_ends_with_status_one(calibrated, capsys):
    write_new(calibrated, noise=0.08)
    with pytest.raises(SystemExit) as stop:
        main(["check", "robot.capture", "new.csv", *OWN[:4], "--json", "found.json"])
    assert stop.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "The coverage guarantee no longer holds: order (all, over time)" in printed
    content = json.loads((calibrated / "found.json").read_text())
    assert content["alarm"] is True
    assert {finding["question"] for finding in content["findings"]} == {"order", "scores", "coverage", "inputs"}
    inputs = [finding["about"] for finding in content["findings"] if finding["question"] == "inputs"]
    assert inputs == ["x", "y", "push_x", "push_y"]


def test_a_history_goes_on_from_batch_to_batch(calibrated, capsys):
    for night in range(3):
        write_new(calibrated, f"night{night}.csv", seed=20 + night)
    check = "check", "robot.capture"
    options = *OWN[:4], "--history", "nights.state"
    assert "for this batch alone. To check batch after batch, give --history FILE" in " ".join(
        said(capsys, *check, "night0.csv", *OWN[:4]).split()
    )
    assert not (calibrated / "nights.state").exists()
    for night in range(2):
        printed = " ".join(said(capsys, *check, f"night{night}.csv", *options, "--json", "found.json").split())
        assert f"for all batches of nights.state together, of which this is number {night + 1}" in printed
        assert json.loads((calibrated / "found.json").read_text())["batch"] == night + 1
    before = (calibrated / "nights.state").read_bytes()
    assert "these transitions are batch 2 of the history" in refused(capsys, *check, "night1.csv", *options)
    assert "was begun with --alarm 0.01" in refused(capsys, *check, "night2.csv", *options, "--alarm", "0.05")
    assert (calibrated / "nights.state").read_bytes() == before
    write_new(calibrated, "slippery.csv", noise=0.08)
    for data, sentence in (("slippery.csv", "order (all, over time)"), ("night2.csv", "since batch 3 of nights.state")):
        with pytest.raises(SystemExit) as stop:
            main([*check, data, *options, "--json", "found.json"])
        assert stop.value.code == 1
        assert sentence in " ".join(capsys.readouterr().out.split())
        assert json.loads((calibrated / "found.json").read_text())["alarm"] is True


def test_a_history_that_cannot_be_used_is_one_sentence(calibrated, capsys):
    write_new(calibrated)
    check = "check", "robot.capture", "new.csv", *OWN[:4], "--history"
    (calibrated / "nights.state").write_bytes(b"something else")
    assert "nights.state is not a capture-cp monitor state" in refused(capsys, *check, "nights.state")
    assert "cannot write nowhere/nights.state" in refused(capsys, *check, "nowhere/nights.state")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("robot.capture", "pushes.csv", *OWN[:4]), "pushes.csv is a log that the calibration was made from"),
        (("robot.capture", "new.csv", *OWN[:2]), "was made with --strata pusher:strata; give that (or --trust to"),
        (("robot.capture", "new.csv", *OWN[:4], "--alarm", "2"), "alarm is 2.0; expected a number strictly between 0 and 1"),
        (("robot.capture", "missing.csv", *OWN[:4]), "missing.csv does not exist"),
        (("pusher.py", "new.csv"), "pusher.py is not a capture-cp calibration"),
    ],
)
def test_a_check_of_the_wrong_things_ends_with_status_two(calibrated, capsys, arguments, sentence):
    write_new(calibrated)
    assert sentence in refused(capsys, "check", *arguments)


def test_a_calibration_of_the_library_is_checked_too(calibrated, capsys):
    from capture_cp import Capture

    sys.path.insert(0, str(calibrated))
    import pusher

    log = read_transitions("pushes.csv", *NAMES)
    Capture(pusher.model, pusher.strata).fit(log.X, log.Y).save("plain.capture")
    write_new(calibrated)
    assert "remembers no columns; name them with --state, --action, --next" in refused(
        capsys, "check", "plain.capture", "new.csv", *OWN[:4]
    )
    assert "No evidence against" in said(capsys, "check", "plain.capture", "new.csv", *COLUMNS, *OWN[:4])
