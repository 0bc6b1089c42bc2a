"""The rows of the shelf's planning table."""

from __future__ import annotations

from capture_lab.tasks.rows import Row, corrected_rows, method_rows, own_rows, practice_rows
from capture_lab.tasks.shelf.planner import PLANNER, ShelfWeights

ROWS: dict[str, Row] = (
    method_rows(PLANNER, ShelfWeights())
    | practice_rows(PLANNER, ShelfWeights())
    | own_rows(PLANNER, ShelfWeights())
    | corrected_rows(PLANNER, ShelfWeights())
)
