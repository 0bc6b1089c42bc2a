"""The rows of the peg's planning table."""

from __future__ import annotations

from dataclasses import replace

from capture_lab.tasks.peg.planner import PLANNER, PegWeights
from capture_lab.tasks.rows import Row, corrected_rows, method_rows, own_rows, practice_rows

#: Chosen on random starts, for the row with the corrected model.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.03), PegWeights(effort=0.002, outside=2.0, caution=0.0)

ROWS: dict[str, Row] = (
    method_rows(PLANNER, PegWeights())
    | practice_rows(PLANNER, PegWeights())
    | own_rows(OURS, OUR_WEIGHTS)
    | corrected_rows(OURS, OUR_WEIGHTS)
)
