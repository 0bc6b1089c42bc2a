"""One data set in every format: the same calibration to the last bit, and what is odd is said or refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capture_cp import CaptureError, load_calibration, read_transitions
from capture_cp.cli import main
from capture_cp.data.logged import LoggedTransitions
from logs.recordings import Runs

pytest.importorskip("pyarrow")
pytest.importorskip("rosbags")
pytest.importorskip("h5py")

LEROBOT = {"state": "observation.state", "action": "action", "following": "observation.state", "episode": "episode_index"}
BAG = {"state": "/joint_states.position", "action": "/cmd.data", "following": "/joint_states.position", "episode": "file"}
DEMOS = {"state": "obs/robot0_eef_pos", "action": "actions", "following": "obs/robot0_eef_pos", "episode": "demo"}

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
    assert logged.notes() == ["8 rows dropped, the last of each episode: nothing follows."]
    assert np.array_equal(logged.episodes(), expected.episodes())
    assert np.array_equal(found.episodes(), expected.episodes())
    assert found.next_names == tuple(f"next_{name}" for name in found.state_names)
    again = pickle.loads(pickle.dumps(logged))
    middle = list(again.pieces(37, 203))
    assert np.array_equal(np.concatenate([piece.X for piece in middle]), expected.X[37:203])
    assert np.array_equal(np.concatenate([piece.episode for piece in middle]), found.episode[37:203])
