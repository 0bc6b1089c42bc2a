"""One data set in every format: the same calibration to the last bit, and what is odd is said or refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capture_cp import load_calibration
from capture_cp.cli import main
from capture_cp.data.logged import LoggedTransitions
from logs.recordings import Runs

pytest.importorskip("rosbags")
pytest.importorskip("h5py")

LEROBOT = {"state": "observation.state", "action": "action", "following": "observation.state", "episode": "episode_index"}
BAG = {"state": "/joint_states.position", "action": "/cmd.data", "following": "/joint_states.position", "episode": "file"}
DEMOS = {"state": "obs/robot0_eef_pos", "action": "actions", "following": "obs/robot0_eef_pos", "episode": "demo"}

CSV = {"state": ["x", "y"], "action": ["push_x", "push_y"], "next": ["next_x", "next_y"], "episode": "run"}

#: What the formats call a run, before its number.
NAMES = {"episode_index": "", "file": "run_", "demo": "demo_"}

FORMATS = {
    "lerobot v3": (lambda runs, at: runs.lerobot(at, "v3.0"), LEROBOT),
    "lerobot v2": (lambda runs, at: runs.lerobot(at, "v2.1"), LEROBOT),
    "mcap": (lambda runs, at: runs.bags(at, "MCAP"), BAG),
    "mcap, packed": (lambda runs, at: runs.bags(at, "MCAP", packed=True), BAG),
    "sqlite": (lambda runs, at: runs.bags(at, "SQLITE3"), BAG),
    "robomimic": (lambda runs, at: runs.robomimic(at.with_suffix(".hdf5")), DEMOS),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_rows_come_out_of_every_format(tmp_path, kind):
    runs = Runs.made()
    write, columns = FORMATS[kind]
    path, expected = write(runs, tmp_path / "log"), runs.transitions()
    logged = LoggedTransitions(path, **columns)
    found = logged.read()
    for part in ("state", "action", "next"):
        assert getattr(found, part).tobytes() == getattr(expected, part).tobytes()
    assert logged.dropped == 8
    assert logged.notes() == ["8 rows dropped: the last of each episode has no next configuration."]
    assert np.array_equal(logged.episodes(), expected.episodes())
    assert np.array_equal(found.episodes(), expected.episodes())
    assert found.next_names == tuple(f"next_{name}" for name in found.state_names)
    again = pickle.loads(pickle.dumps(logged))
    middle = list(again.pieces(37, 203))
    assert np.array_equal(np.concatenate([piece.X for piece in middle]), expected.X[37:203])
    assert np.array_equal(np.concatenate([piece.episode for piece in middle]), found.episode[37:203])


def options(columns):
    return [
        word for name, given in columns.items() for word in (f"--{name}", *([given] if isinstance(given, str) else given))
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_calibrated_alike_to_the_last_bit(tmp_path, kind, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs, (write, columns) = Runs.made(runs=40, steps=30), FORMATS[kind]
    path = write(runs, tmp_path / "log")
    settings = ["--alpha", "0.2", "--min-leaf", "50"]
    csv = runs.csv(tmp_path / "log.csv", NAMES[columns["episode"]])
    main(["calibrate", str(csv), *options(CSV), *settings, "--out", "csv.capture"])
    capsys.readouterr()
    main(["calibrate", str(path), *options(columns), *settings, "--out", "other.capture"])
    printed = capsys.readouterr().out
    assert "note: 40 rows dropped: the last of each episode has no next configuration." in printed
    one, other = (load_calibration(f"{name}.capture") for name in ("csv", "other"))
    assert np.isfinite(one.threshold_table(0.2).thresholds).any()
    assert one.threshold_table(0.2).thresholds.tobytes() == other.threshold_table(0.2).thresholds.tobytes()
    assert one.data_["sha256"] == other.data_["sha256"]
    new = write(Runs.made(runs=20, steps=30, seed=1), tmp_path / "new")  # the calibration remembers how to read it
    main(["check", "other.capture", str(new)])
    assert "note: 20 rows dropped" in capsys.readouterr().out
