"""The rows of the marble's planning table, and settings of its planner to certify."""

from __future__ import annotations

from dataclasses import replace

from capture_lab.tasks.marble.planner import PLANNER, MarbleWeights
from capture_lab.tasks.rows import Row, corrected_rows, method_rows, oracle_rows, own_rows, practice_rows

#: Chosen on mirrored maps with moved pits, for the row that has everything. Rows with the uncorrected model keep the paper's
#: settings, so that only their regions differ from `capture`.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.02, elites=31), MarbleWeights(count_particles=True)

ROWS: dict[str, Row] = (
    method_rows(PLANNER, MarbleWeights())
    | practice_rows(PLANNER, MarbleWeights())
    | own_rows(PLANNER, MarbleWeights())
    | corrected_rows(OURS, OUR_WEIGHTS)
    | oracle_rows(OURS, OUR_WEIGHTS)
)

#: Candidates for certification, from slow to fast: costs of speed and tilt trade steps for falls. Chosen on mirrored maps
#: with moved pits. To pass the gap of Center, which is 3.6 mm wide, the board must tilt.
LADDER: dict[str, dict[str, float]] = {
    "speed 60, tilt 100": {"speed": 60.0, "tilt": 100.0},
    "speed 40, tilt 100": {"speed": 40.0, "tilt": 100.0},
    "speed 10, tilt 100": {"speed": 10.0, "tilt": 100.0},
    "speed 20, tilt 50": {"speed": 20.0, "tilt": 50.0},
    "speed 60": {"speed": 60.0},
    "speed 30": {"speed": 30.0},
    "speed 15": {"speed": 15.0},
    "as in the paper": {},
}
