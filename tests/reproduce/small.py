"""A reproduction small enough for tests: one map of our own, a handful of everything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from capture_lab.tasks.marble import options as marble_options
from capture_lab.tasks.marble import task as marble_task
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.peg.task import Peg

#: What the quick studies of each task are made with, by study.
SIZES = {
    MarbleOptions: {"coverage": {"mc": 2}, "plan": {"episodes": 1}},
    PegOptions: {
        "coverage": {"calibration": 400, "test": 300, "volume": 20},
        "plan": {"episodes": 1, "calibration": 400},
    },
}


def shrink(patch, map: Path) -> None:
    """Make `capture reproduce` tiny; `patch` sets attributes, as pytest's monkeypatch does."""
    for options, sizes in SIZES.items():
        printed = json.loads(options.paper.read_text(encoding="utf-8"))
        for part in printed["reproduce"]:
            place = {"maps": [str(map)]} if options is MarbleOptions else {"system": "planar"}
            part["quick"] = [place | sizes[part["study"]]]
        file = map.parent / f"paper-{options.name}.json"
        file.write_text(json.dumps(printed), encoding="utf-8")
        patch.setattr(options, "paper", file)
    patch.setattr(marble_task.Marble, "max_steps", 2)
    patch.setattr(Peg, "max_steps", 2)
    patch.setattr(marble_task, "GRID_POSITIONS", 3)  # three parts of coverage
    shorten_practice(patch, marble_options.ROWS)


def shorten_practice(patch, rows) -> None:
    """Let rows of a task that practise do so in a dozen runs."""
    for name, row in rows.items():
        patch.setitem(rows, name, replace(row, practice=min(row.practice, 12)))
