"""Rare strata, and bounds on what is possible, on the command line and in settings files."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from capture_cp import FunctionStrata, Product, load_calibration
from capture_cp.cli import main
from commands import refused

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # infinite thresholds are wanted here

MODULE = """
import numpy as np
from capture_cp import FunctionStrata

def model(X, n_particles, rng):
    moved = X[:, None, :1] + X[:, None, 2:] + 0.02 * rng.standard_normal((len(X), n_particles, 1))
    return np.concatenate([moved, np.zeros_like(moved)], axis=2)

def certain(X, n_particles, rng):
    return np.repeat(np.stack([X[:, 0] + X[:, 2], 0 * X[:, 0]], axis=1)[:, None], n_particles, axis=1)

strata = FunctionStrata(lambda Y: np.rint(Y[:, 1] * 1000).astype(int), ["free", "wall", "floor", "corner", "never"])
"""
COLUMNS = ("--state", "x", "kind", "--action", "push", "--next", "next_x", "next_kind")
OWN = ("--model", "robot_rare:model", "--strata", "robot_rare:strata")
CALIBRATE = ("calibrate", "log.csv", *COLUMNS, *OWN)
TOML = (
    'data = "log.csv"\nstate = ["x", "kind"]\naction = ["push"]\nnext = ["next_x", "next_kind"]\n'
    'model = "robot_rare:model"\nstrata = "robot_rare:strata"\n'
)


def write_log(file, n, seed):
    """Outcomes are free or at the wall; few on the floor and in the corner. Their kind, in thousandths, is the stratum."""
    rng = np.random.default_rng(seed)
    x, push = rng.random(n), rng.uniform(-0.2, 0.2, n)
    kind = rng.choice(4, n, p=[0.6, 0.38, 0.012, 0.008])
    after = x + push + 0.02 * (1 + kind) * rng.standard_normal(n)
    table = np.column_stack([x, 0 * x, push, after, 1e-3 * kind, 0.1 * rng.standard_normal(n)])
    np.savetxt(file, table, delimiter=",", header="x,kind,push,next_x,next_kind,turn", comments="")


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_log(tmp_path / "log.csv", 4000, 0)
    (tmp_path / "robot_rare.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "robot_rare", raising=False)
    return tmp_path


def said(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return " ".join(capsys.readouterr().out.split())


def loaded(path="robot.capture"):
    import robot_rare

    return load_calibration(path, robot_rare.model, robot_rare.strata)


# -- rare strata ----------------------------------------------------------------------------------------------------------


def test_rare_strata_are_merged_and_named(here, capsys):
    printed = said(capsys, *CALIBRATE, "--json", "rows.json")
    sentence = "rare strata are merged: floor, corner share their thresholds"
    assert sentence in printed
    assert "because fewer than 18 calibration transitions are expected in each" in printed
    assert "Coverage is guaranteed for them together" in printed
    assert "too few calibration points for alpha = 0.1: never has 0" in printed
    content = json.loads((here / "rows.json").read_text())
    assert set(content["merged"]) == {"floor", "corner"}
    assert sum(sentence in one for one in content["warnings"]) == 1
    assert [group["group"] for group in content["groups"] if "rare: floor, corner" in group["group"]]
    assert sentence in " ".join((here / "robot.html").read_text().split())
    cap = loaded()
    assert set(cap.merged_) == {"floor", "corner"}
    q = cap.thresholds([[0.5, 0.0, 0.1]])[0]
    assert np.isfinite(q[:4]).all()
    assert np.isinf(q[4])


def test_rare_strata_can_be_kept_apart(here, capsys):
    printed = said(capsys, *CALIBRATE, "--min-stratum", "0")
    assert "merged" not in printed
    assert "corner has" in printed
    assert loaded().merged_ == {}
    assert np.isinf(loaded().thresholds([[0.5, 0.0, 0.1]])[0, 3])


def test_what_is_rare_follows_from_alpha(here, capsys):
    """An alpha of 0.01 needs 99 scores, so that a stratum should expect 198."""
    assert "fewer than 198 calibration transitions" in said(capsys, *CALIBRATE, "--alpha", "0.01")
    assert "fewer than 15 calibration transitions" in said(capsys, *CALIBRATE, "--min-stratum", "15")


def test_checks_are_about_what_is_promised(here, capsys):
    said(capsys, *CALIBRATE)
    write_log(here / "new.csv", 1500, 1)
    printed = said(capsys, "check", "robot.capture", "new.csv", *OWN, "--json", "check.json")
    assert "No evidence against the calibration" in printed
    about = {
        one["about"] for one in json.loads((here / "check.json").read_text())["findings"] if one["question"] == "coverage"
    }
    assert any("rare: floor, corner" in name for name in about)


@pytest.mark.parametrize("method", ["pcp", "no-strata", "capture-k1"])
def test_every_method_takes_it(here, capsys, method):
    printed = said(capsys, *CALIBRATE, "--method", method)
    assert ("rare strata are merged" in printed) == (method == "capture-k1")


@pytest.mark.parametrize("given", ["-1", "2.5"])
def test_a_number_that_is_none_is_refused(here, capsys, given):
    assert "min-stratum" in refused(capsys, *CALIBRATE, "--min-stratum", given)


# -- a bound on what is possible --------------------------------------------------------------------------------------------


def test_infinite_pieces_end_at_the_farthest(here, capsys):
    printed = said(capsys, *CALIBRATE, "--min-stratum", "0", "--farthest", "0.6")
    assert "Only --farthest 0.6 limits a region there" in printed
    assert "infinite" not in printed
    cap = loaded()
    assert cap.farthest == 0.6
    assert cap.thresholds([[0.5, 0.0, 0.1]])[0, 4] == 0.6
    write_log(here / "new.csv", 1500, 1)
    printed = said(capsys, "check", "robot.capture", "new.csv", *OWN)
    assert "No evidence against the calibration" in printed
    assert "limits a region there" in printed
    assert "farther from their prediction" not in printed


def test_new_transitions_beyond_the_bound_are_pointed_out(here, capsys):
    said(capsys, *CALIBRATE, "--farthest", "0.6")
    write_log(here / "new.csv", 1500, 1)
    lines = (here / "new.csv").read_text().splitlines()
    cells = lines[5].split(",")
    cells[3] = "9.0"
    (here / "new.csv").write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]) + "\n")
    printed = said(capsys, "check", "robot.capture", "new.csv", *OWN)
    assert "1 of 1500 transitions are farther from their prediction than 0.6" in printed


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("-1", "farthest is -1.0; expected a positive number"),
        ("0", "farthest is 0.0; expected a positive number"),
        ("inf", "farthest is inf; expected a positive number"),
        ("nan", "farthest is nan; expected a positive number"),
        ("0.01", "transitions have larger scores, up to"),
        ("far", "far"),
    ],
)
def test_a_bound_that_is_none_is_refused(here, capsys, given, sentence):
    assert sentence in refused(capsys, *CALIBRATE, f"--farthest={given}")
    assert not (here / "robot.capture").exists()


# -- settings files -------------------------------------------------------------------------------------------------------


def test_everything_can_be_set_in_a_file(here, capsys):
    (here / "robot.toml").write_text(
        TOML + 'angles = ["next_x"]\nweights = [1.0, 2]\nmin-stratum = 30\nfarthest = 2.5\nseed = 3\n'
    )
    assert "fewer than 30 calibration transitions" in said(capsys, "calibrate", "robot.toml")
    cap = loaded()
    assert isinstance(cap.score_.metric, Product)
    assert cap.score_.metric.metrics[1].weights[0] == 2.0
    assert cap.farthest == 2.5
    by_hand = (
        *CALIBRATE,
        "--angles",
        "next_x",
        "--weights",
        "1",
        "2",
        "--min-stratum",
        "30",
        "--farthest",
        "2.5",
        "--seed",
        "3",
    )
    said(capsys, *by_hand, "--out", "hand.capture")
    assert loaded("hand.capture").digest() == cap.digest()
    write_log(here / "new.csv", 500, 1)
    assert "No evidence against" in said(capsys, "check", "robot.toml", "new.csv")
    said(capsys, "calibrate", "robot.toml", "--weights", "1", "3")  # what comes after the file has the last word
    assert loaded().score_.metric.metrics[1].weights[0] == 3.0


def test_poses_can_be_set_in_a_file(here, capsys):
    """A made-up pose: what matters is that the settings arrive."""
    (here / "robot.toml").write_text(
        'data = "log.csv"\nstate = ["x", "kind"]\naction = ["push"]\nnext = ["next_x", "next_kind", "turn"]\n'
        'metric = "se2"\nlength = 0.5\n'
    )
    said(capsys, "calibrate", "robot.toml")
    metric = load_calibration("robot.capture", strata=FunctionStrata(lambda Y: np.zeros(len(Y), int), ["all"])).score_.metric
    assert type(metric).__name__ == "SE2"
    assert metric.length == 0.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('weights = ["a", "b"]', "expected a list of numbers"),
        ("weights = [true, false]", "expected a list of numbers"),
        ("weights = [1.0]", "--weights has 1 numbers; give one for each of next_x, next_kind"),
        ("angles = [1]", "expected text, a number or a list of column names"),
        ('angles = ["z"]', "unknown column among --angles 'z'"),
        ('metric = "se4"', "metric"),
        ('metric = "se2"', "--metric se2 needs --length"),
        ("farthest = -2.0", "farthest is -2.0; expected a positive number"),
        ("min-stratum = -1", "min-stratum is -1; expected a whole number of at least 0"),
        ("lenght = 1.0", "Did you mean 'length'?"),
        ("distances = 1", "unknown setting in robot.toml 'distances'"),
    ],
)
def test_settings_that_will_not_do_are_one_sentence(here, capsys, text, sentence):
    (here / "robot.toml").write_text(f"{TOML}{text}\n")
    assert sentence in refused(capsys, "calibrate", "robot.toml")


def test_a_model_without_noise_is_checked_as_it_was_calibrated(here, capsys):
    certain = "--model", "robot_rare:certain", "--strata", "robot_rare:strata"
    said(capsys, "calibrate", "log.csv", *COLUMNS, *certain, "--deterministic-model")
    write_log(here / "new.csv", 500, 1)
    assert "No evidence against" in said(capsys, "check", "robot.capture", "new.csv", *certain)
    (here / "robot.toml").write_text(TOML.replace(":model", ":certain") + "deterministic-model = true\n")
    said(capsys, "calibrate", "robot.toml")
    assert "No evidence against" in said(capsys, "check", "robot.toml", "new.csv")
