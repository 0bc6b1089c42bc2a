"""Logs of what nobody drives, several steps ahead, and few episodes: the doors of `calibrate` that `gap` has too."""

import json
from contextlib import suppress

import numpy as np
import pytest

from capture_cp import load_calibration
from capture_cp.cli import main
from commands import refused

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Episodes of a ball that slows down, in two logs."""
    for name, seed in (("old", 0), ("new", 1)):
        rng = np.random.default_rng(seed)
        rows = []
        for episode in range(60):
            x, v, slow = 0.0, rng.uniform(1, 2), rng.uniform(0.9, 1.0)
            for _ in range(30):
                rows.append((episode, x, v))
                x, v = x + 0.1 * v, v * slow
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="episode,x,v", comments="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


CALIBRATE = ("calibrate", "old.csv", "--state", "x", "v", "--following", "x", "--episode", "episode")


def test_a_log_without_actions_is_calibrated_several_steps_ahead_and_checked(here, capsys):
    main([*CALIBRATE, "--steps", "5"])
    cap = load_calibration("robot.capture")
    assert (cap.n_inputs_, cap.n_outputs_) == (2, 1)
    with suppress(SystemExit):  # of an alarm, which is possible
        main(["check", "robot.capture", "new.csv", "--json", "check.json"])
    assert json.loads((here / "check.json").read_text())["rows"][0]["n"] == 60
    assert "the last 5 of each episode have no next configuration" in capsys.readouterr().out


def test_few_episodes_have_one_threshold_per_stratum_unless_a_tree_is_asked_for(here):
    main([*CALIBRATE])
    alone = load_calibration("robot.capture")
    assert alone.calibration_.sizes.tolist() == [30]  # all of the episodes that neither train nor check set the threshold
    main([*CALIBRATE, "--groups", "tree"])
    assert load_calibration("robot.capture").calibration_.sizes.tolist() == [9]  # the others would grow a tree


def test_several_steps_need_following(here, capsys):
    said = refused(capsys, "calibrate", "old.csv", "--state", "x", "--next", "v", "--steps", "2")
    assert "one step ahead; use following" in said
