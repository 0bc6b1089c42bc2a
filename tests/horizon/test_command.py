"""The horizon studies: their rows, the same however they are run, and bad input refused; rollouts of the two tasks."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest

from capture_cp.cli import main
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.peg.data import rolled_out
from capture_lab.tasks.peg.task import Peg
from commands import refused
from marble.boards import REAL, write_map

needs_mujoco = pytest.mark.skipif(find_spec("mujoco") is None, reason="needs MuJoCo")
pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here
SMALL = ["--calibration", "600", "--test", "300", "--horizon", "3", "--min-leaf", "50", "--volume", "20"]


@pytest.fixture
def run(tmp_path):
    maps = [str(write_map(tmp_path)), "top-left"]

    def rows(*options, maps=maps):
        output = tmp_path / "rows.json"
        main(["horizon", "marble", "--maps", *maps, *SMALL, "--json", str(output), *map(str, options)])
        return json.loads(output.read_text())["rows"]

    return rows


def test_rows_hold_every_step_stratum_and_method(run, tmp_path):
    rows = run("--figures", tmp_path / "figures", maps=["top-left"])
    assert (tmp_path / "figures" / "horizon-marble.png").stat().st_size > 10_000
    share = {(row["method"], row["step"], row["stratum"]): row["coverage"] for row in rows}
    assert len(share) == len(rows) == 3 * (1 + 3 * 4)
    assert share["all steps", "all", "all"] > 0.8 > 0.6 > share["recursion", "all", "all"]
    assert all(share["each step", h, "all"] > 0.8 for h in (1, 2, 3))
    assert all(row["volume"] > 0 for row in rows if row["stratum"] == "all")


def test_results_follow_the_seed_and_not_the_jobs(run):
    one = run("--seed", 1)
    assert run("--seed", 1, "--jobs", 2) == one
    assert run("--seed", 2) != one


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--maps", "centr"], "Did you mean 'center'?"),
        (["--test", "-1"], "test is -1"),
        (["--volume", "-1"], "volume is -1"),
        (["--hold", "0"], "hold is 0"),
        (["--confidence", "2"], "confidence is 2.0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_refused(options, said, capsys):
    assert said in refused(capsys, "horizon", "marble", *options)


def test_marble_actions_are_held(tmp_path):
    rollouts = REAL["center"].rollouts(0, "test", 50, 5, hold=2)
    a = rollouts.actions
    assert (a[:, 0] == a[:, 1]).all()
    assert (a[:, 2] == a[:, 3]).all()
    assert (a[:, 1] != a[:, 2]).all()
    assert np.abs(a).max() <= dynamics.MAX_ACTION
    np.testing.assert_array_equal(rollouts.configurations, rollouts.states[:, :, [0, 2]])


@needs_mujoco
def test_peg_roll_outs_are_closed_loop_steps_without_feedback():
    """One at a time through reset and step, with the same noise: the same poses."""
    task = Peg()
    rollouts = rolled_out(task, 4, 3, np.random.default_rng(0))
    system = task.true_system(threads=1)
    rng = np.random.default_rng(0)
    task.strata.sample_starts(4, rng)
    rng.uniform(size=(4, 3, 3))
    noise = np.random.default_rng(0)
    noise.bit_generator.state = rng.bit_generator.state
    moves = system.applied(rollouts.actions.reshape(-1, 3), noise).reshape(4, 3, 3)
    for i in range(4):
        system.reset(rollouts.starts[i])
        for h in range(3):
            system._advance(system.data, system._read(system.data) + moves[i, h])
            np.testing.assert_allclose(rollouts.configurations[i, h], system._read(system.data), atol=2e-4)
    again = rolled_out(task, 4, 3, np.random.default_rng(0), task.true_system(threads=2))
    np.testing.assert_array_equal(again.configurations, rollouts.configurations)


@needs_mujoco
def test_peg_study_runs(tmp_path):
    output = tmp_path / "rows.json"
    sizes = ["--calibration", "300", "--test", "100", "--horizon", "2", "--min-leaf", "50", "--volume", "2"]
    main(["horizon", "peg", *sizes, "--json", str(output), "--figures", str(tmp_path)])
    rows = json.loads(output.read_text())["rows"]
    share = {row["method"]: row["coverage"] for row in rows if row["step"] == "all"}
    assert share["all steps"] > 0.8 > share["recursion"]
    assert (tmp_path / "horizon-peg.png").exists()
