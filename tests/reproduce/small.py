"""A reproduction small enough for tests: one map of our own, a handful of everything."""

from __future__ import annotations

from pathlib import Path

from capture_cp.studies import reproduce
from capture_cp.studies.reproduction import Sizes
from capture_cp.tasks.marble import task as marble_task


def shrink(patch, map: Path) -> None:
    """Make `capture reproduce` tiny; `patch` sets attributes, as pytest's monkeypatch does."""
    sizes = Sizes(2, (str(map),), 1, ("planar",), 400, 300, 20, 1)
    patch.setattr(reproduce, "QUICK", sizes)
    patch.setattr("capture_cp.studies.planning_rows.MAX_STEPS", 2)
    patch.setattr("capture_cp.studies.peg_planning.MAX_STEPS", 2)
    patch.setattr(marble_task, "GRID_POSITIONS", 3)  # three parts of coverage
