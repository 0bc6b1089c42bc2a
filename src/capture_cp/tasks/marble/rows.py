"""The rows of the marble's planning table, and what its sensitivity study varies."""

from __future__ import annotations

from dataclasses import replace

from capture_cp.tasks.marble.planner import PLANNER, MarbleWeights
from capture_cp.tasks.marble.task import LEAVES
from capture_cp.tasks.rows import Row, Setting, corrected_rows, method_rows, oracle_rows, own_rows
from capture_cp.tasks.task import VARIED

#: Chosen on mirrored maps with moved pits, for the row that has everything. Rows on the model as it is keep the paper's, so
#: that only their regions differ from `capture`.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.02, elites=31), MarbleWeights(count_particles=True)

ROWS: dict[str, Row] = (
    method_rows(PLANNER, MarbleWeights())
    | own_rows(PLANNER, MarbleWeights())
    | corrected_rows(OURS, OUR_WEIGHTS)
    | oracle_rows(OURS, OUR_WEIGHTS)
)

SETTINGS = VARIED | {
    "leaves": Setting("max_leaves", "most leaves per tree", (5, 7, 9, 20, 80), LEAVES),
    "horizon": Setting("horizon", "steps of the horizon", (4, 6, 8, 10), 6),
}
