"""What the commands for a log say is true, and in the words of the person who reads it."""

from __future__ import annotations

import html
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from capture_cp import read_transitions, write_transitions
from capture_cp.capture.artifact import read, write
from capture_lab.tasks.box import Box
from commands import refused
from logs.common import COLUMNS, NAMES, PUSHES, said

CALIBRATE = ("calibrate", "pushes.csv", *COLUMNS)
MODULE = """
import numpy as np
from capture_cp import FunctionStrata

def model(X, n_particles, rng):
    return X[:, None, :2] + X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))

def certain(X, n_particles, rng):
    return np.repeat(X[:, None, :2] + X[:, None, 2:], n_particles, axis=1)

def undefined(X, n_particles, rng):
    return np.where(X[:, None, :1] > 0.5, np.nan, model(X, n_particles, rng))

class Learnt:
    def __init__(self, seen):
        self.seen = seen
    def __call__(self, X, n_particles, rng):
        return model(X, n_particles, rng)
    def trained_on(self, X, Y):
        return X[:, 0] == self.seen
    def gaussian(self, X):
        raise ZeroDivisionError("no spread")

unseen, first_row = Learnt(7.0), Learnt(0.63696)
rare = FunctionStrata(lambda Y: (abs(Y[:, 0] - 0.4) < 0.004).astype(int), ["usual", "rare"])
halves = FunctionStrata(lambda Y: np.where(Y[:, 0] < 0.002, -1, 0), ["feasible"])
"""


@pytest.fixture
def here(folder):
    shutil.copy(PUSHES, folder)
    (folder / "robot_words.py").write_text(MODULE)
    return folder


@pytest.fixture
def log(here):
    return read_transitions("pushes.csv", *NAMES)


def test_infeasible_rows_are_those_of_the_file(log, capsys):
    """Not of the part of the log, in whose order they would be others."""
    outside = np.flatnonzero(log.Y[:, 0] < 0.002)
    printed = refused(capsys, *CALIBRATE, "--strata", "robot_words:halves")
    assert f"{len(outside)} of 2000 transitions end in infeasible space" in printed
    rows = [int(row) for row in re.search(r"first in data rows ([0-9, ]+),", printed).group(1).split(",")]
    assert rows == (outside[:5] + 1).tolist()
    assert float(PUSHES.read_text().splitlines()[rows[0]].split(",")[4]) < 0.002


def test_particles_that_are_no_numbers_are_reported_with_their_input(here, capsys):
    printed = refused(capsys, *CALIBRATE, "--model", "robot_words:undefined")
    assert "returned NaN or infinite particles for" in printed
    assert float(re.search(r"such as \[ *([0-9.e-]+)", printed).group(1)) > 0.5


def test_a_rare_stratum_is_not_helped_by_larger_leaves(here, capsys):
    printed = said(capsys, *CALIBRATE, "--strata", "robot_words:rare", "--min-leaf", "100", "--min-stratum", "0")
    assert "too few calibration points for alpha = 0.1: rare has" in printed
    assert "log more transitions that end there, or raise --alpha" in printed
    assert "min-leaf" not in printed
    assert printed.count("too few calibration points") == 1
    printed = said(capsys, *CALIBRATE, "--min-leaf", "12")
    assert "calibrate with a larger --min-leaf, or raise --alpha" in printed


def test_a_model_without_noise_needs_an_option(here, capsys):
    certain = *CALIBRATE, "--model", "robot_words:certain"
    printed = refused(capsys, *certain)
    assert "give --deterministic-model if it is meant to have no noise" in printed
    assert "deterministic_model" not in printed
    said(capsys, *certain, "--deterministic-model")
    (here / "robot.toml").write_text('data = "pushes.csv"\ndeterministic-model = "yes"\n')
    assert "deterministic-model in robot.toml is 'yes'; expected true or false" in refused(capsys, "calibrate", "robot.toml")


@pytest.mark.parametrize("own", [(), ("--model", "robot_words:model", "--strata", "robot_words:rare")], ids=["plain", "own"])
@pytest.mark.parametrize("place", [".", "my modules"])
def test_the_line_of_the_report_can_be_pasted(here, capsys, own, place):
    if place != ".":
        (here / place).mkdir()
        shutil.move(here / "robot_words.py", here / place)
    said(capsys, *CALIBRATE, *own, "--folder", place, "--out", "a b.capture")
    write_transitions("new.csv", Box().transitions(300, np.random.default_rng(9)))
    page = html.unescape((here / "a b.html").read_text())
    line = re.search(r"<pre><code>(capture check .*?)</code>", page).group(1)
    assert "No evidence against the calibration" in said(capsys, *shlex.split(line)[1:])


def test_whether_the_model_knows_its_training_is_reported(here, capsys):
    note = "has no method trained_on(X, Y), so its training data is unknown"
    assert f"robot_words:model {note}" in said(capsys, *CALIBRATE, "--model", "robot_words:model")
    assert note not in said(capsys, *CALIBRATE, "--model", "robot_words:unseen")
    assert note not in said(capsys, *CALIBRATE)  # trained on a part of its own
    assert "was trained on 1 of these 2000 transitions" in refused(capsys, *CALIBRATE, "--model", "robot_words:first_row")


def test_any_method_of_a_model_may_fail(here, capsys):
    printed = refused(capsys, *CALIBRATE, "--model", "robot_words:unseen", "--method", "lucca")
    assert "--model robot_words:unseen failed with ZeroDivisionError: no spread for an array of shape (64, 4)" in printed


def test_an_episode_without_a_name_is_a_row_of_the_file(here, capsys):
    lines = Path("pushes.csv").read_text().splitlines()
    rows = [f"{line},{i // 10 if i != 7 else 'nan'}" for i, line in enumerate(lines[1:])]
    np.savez("log.npz", **{name: np.array([float(row.split(",")[i]) for row in rows]) for i, name in enumerate("abcdefg")})
    printed = refused(capsys, "calibrate", "log.npz", "--state", "a", "--action", "b", "--next", "c", "--episode", "g")
    assert "g has no value in 1 of 2000 rows, first in data row 8" in printed


# -- whose code runs ------------------------------------------------------------------------------------------------------

SHADOWS = ("sklearn", "jinja2", "matplotlib", "scipy", "pyarrow", "pandas", "secrets", "shlex", "base64")


@pytest.mark.parametrize("own", [(), ("--model", "robot_words:model")], ids=["none named", "one named"])
def test_files_in_the_folder_that_nobody_named_do_not_run(here, own):
    """In a process of its own, where nothing is imported yet."""
    for name in (*SHADOWS, "no_such_package"):
        (here / f"{name}.py").write_text(f"open('ran-{name}', 'w')")
    command = [sys.executable, "-P", "-c", "from capture_cp.cli import main; main()", *CALIBRATE, *own]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert not list(here.glob("ran-*"))


def test_a_module_may_import_what_lies_beside_it(here, capsys):
    (here / "robot_walls.py").write_text("HIGH = 1.0")
    (here / "robot_late.py").write_text("LOW = 0.0")
    (here / "robot_parts.py").write_text(
        "import numpy as np\nfrom robot_walls import HIGH\n\n"
        "def model(X, n_particles, rng):\n    from robot_late import LOW\n"
        "    return np.clip(X[:, None, :2] + rng.normal(0, 0.1, (len(X), n_particles, 2)), LOW, HIGH)\n"
    )
    before = list(sys.path)
    said(capsys, *CALIBRATE, "--model", "robot_parts:model")
    assert sys.path == before


def test_an_installed_module_comes_first_and_is_named(here, capsys):
    (here / "colorsys.py").write_text("model = len")
    printed = refused(capsys, *CALIBRATE, "--model", "colorsys:model")
    assert "colorsys (" in printed
    assert "colorsys.py) has no model" in printed
    assert str(here) not in printed


FORGED = [
    {"columns": 3},
    {"columns": {"state": "x"}},
    {"columns": {"state": [["x"]]}},
    {"episode": 3},
    {"alpha": "x"},
    {"alpha": None},
    {"confidence": "y"},
    {"linear": {}},
    {"linear": {"coefficients": [[0.0, 0.0]], "residuals": [[0.0, 0.0]]}},
    {"grid": "x"},
    {"grid": {"origin": [0], "spacing": [1], "shape": [10**9]}},
]


def test_forged_facts_of_a_calibration_are_one_sentence(here, capsys):
    said(capsys, *CALIBRATE)
    write_transitions("new.csv", Box().transitions(50, np.random.default_rng(9)))
    header, arrays = read("robot.capture")
    for forged in FORGED:
        data = header["data"] | {"robot": header["data"]["robot"] | forged}
        write("robot.capture", header | {"data": data}, arrays)
        assert "should not have happened" not in refused(capsys, "check", "robot.capture", "new.csv")
