"""The rows of the peg's planning table, and the choices that the paper leaves open, varied by the sensitivity study."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from capture_lab.tasks.peg.planner import PLANNER, PegWeights
from capture_lab.tasks.rows import Row, Setting, corrected_rows, method_rows, own_rows, practice_rows

#: Chosen on random starts, for the row with the corrected model.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.03), PegWeights(effort=0.002, outside=2.0, caution=0.0)

ROWS: dict[str, Row] = (
    method_rows(PLANNER, PegWeights())
    | practice_rows(PLANNER, PegWeights())
    | own_rows(OURS, OUR_WEIGHTS)
    | corrected_rows(OURS, OUR_WEIGHTS)
)

SETTINGS = {
    "bound": Setting("bound", "largest action (mm, mm, degrees)", (2.0, 3.0, 4.0, 5.0), 3.0),
    "frequency": Setting("frequency", "controller frequency (rad/s)", (60.0, None, 300.0), None, none="default"),
    "width": Setting("width", "width of the receptacle (mm)", (30.0, inf), inf),
    "bonuses": Setting("bonuses", "bonuses in the insertion cost", (False, True), False),
    "infeasible": Setting("infeasible", "LUCCa's infeasible cells", ("outside", "worst", "nothing"), "outside"),
}
