"""Large logs: what takes long is done on some of the transitions, and says the same."""

from __future__ import annotations

import json

import numpy as np

from capture_cp import write_transitions
from capture_cp.cli import main
from capture_cp.commands import calibrate
from capture_lab.tasks.box import Box

COLUMNS = ("--state", "x", "y", "--action", "push_x", "push_y", "--next", "next_x", "next_y")


def test_cells_of_many_regions_are_counted_for_some(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_transitions("log.npz", Box().transitions(4000, np.random.default_rng(0)))
    rows = []
    for measured in (5_000, 300):
        monkeypatch.setattr(calibrate, "MEASURED", measured)
        main(["calibrate", "log.npz", *COLUMNS, "--json", "rows.json"])
        rows.append(json.loads((tmp_path / "rows.json").read_text())["rows"])
    assert [row["coverage"] for row in rows[0]] == [row["coverage"] for row in rows[1]]
    for one, other in zip(*rows):
        assert one["volume"] != other["volume"]
        assert 0.9 < one["volume"] / other["volume"] < 1.1
