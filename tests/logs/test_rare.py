"""Rare strata, and bounds on what is possible, on the command line and in settings files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capture_cp import load_calibration
from logs.common import said

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # infinite thresholds are wanted here

MODULE = """
import numpy as np
from capture_cp import FunctionStrata

def model(X, n_particles, rng):
    moved = X[:, None, :1] + X[:, None, 2:] + 0.02 * rng.standard_normal((len(X), n_particles, 1))
    return np.concatenate([moved, np.zeros_like(moved)], axis=2)

strata = FunctionStrata(lambda Y: np.rint(Y[:, 1] * 1000).astype(int), ["free", "wall", "floor", "corner", "never"])
"""
COLUMNS = ("--state", "x", "kind", "--action", "push", "--next", "next_x", "next_kind")
OWN = ("--model", "robot_rare:model", "--strata", "robot_rare:strata")
CALIBRATE = ("calibrate", "log.csv", *COLUMNS, *OWN)


def write_log(file, n, seed):
    """Outcomes are free or at the wall; few on the floor and in the corner. Their kind, in thousandths, is the stratum."""
    rng = np.random.default_rng(seed)
    x, push = rng.random(n), rng.uniform(-0.2, 0.2, n)
    kind = rng.choice(4, n, p=[0.6, 0.38, 0.012, 0.008])
    after = x + push + 0.02 * (1 + kind) * rng.standard_normal(n)
    table = np.column_stack([x, 0 * x, push, after, 1e-3 * kind, 0.1 * rng.standard_normal(n)])
    np.savetxt(file, table, delimiter=",", header="x,kind,push,next_x,next_kind,turn", comments="")


@pytest.fixture
def here(folder):
    write_log(folder / "log.csv", 4000, 0)
    (folder / "robot_rare.py").write_text(MODULE)
    return folder


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
