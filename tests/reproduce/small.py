"""A reproduction small enough for tests: one map of our own, a handful of everything."""

from __future__ import annotations

from pathlib import Path

from capture_cp.studies import reproduce
from capture_cp.studies.reproduction import Sizes
from capture_cp.tasks.marble import task as marble_task
from capture_cp.tasks.marble.task import Marble
from capture_cp.tasks.peg.task import Peg


def shrink(patch, map: Path) -> None:
    """Make `capture reproduce` tiny; `patch` sets attributes, as pytest's monkeypatch does."""
    sizes = Sizes(2, (str(map),), 1, ("planar",), 400, 300, 20, 1)
    patch.setattr(reproduce, "QUICK", sizes)
    patch.setattr(Marble, "max_steps", 2)
    patch.setattr(Peg, "max_steps", 2)
    patch.setattr(marble_task, "GRID_POSITIONS", 3)  # three parts of coverage
