"""The rows of the marble's planning table, and the settings that its studies vary."""

from __future__ import annotations

from dataclasses import replace

from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.planner import PLANNER, MarbleWeights
from capture_lab.tasks.marble.task import LEAVES, TRAINING
from capture_lab.tasks.rows import (
    Axis,
    Row,
    Setting,
    Worth,
    corrected_rows,
    method_rows,
    oracle_rows,
    own_rows,
    practice_rows,
)
from capture_lab.tasks.task import VARIED

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

SETTINGS = VARIED | {
    "leaves": Setting("max_leaves", "maximum leaves per tree", (5, 7, 9, 20, 80), LEAVES),
    "horizon": Setting("horizon", "steps of the horizon", (4, 6, 8, 10), 6),
}

#: Two axes that a correction can or cannot learn, and three of the uncorrected model. The narrowest gap, at Center, is
#: 15.6 mm minus the radius of the pits. Particles in pits count with either planner, as in the oracle's row.
WORTH = Worth(
    axes={
        "training": Axis(
            "training",
            "transitions that correct the model",
            (0, 50, 200, 1_000, TRAINING),
            TRAINING,
            corrected=True,
            as_is=0,
        ),
        "training_drag": Axis(
            "training_drag", "drag where the model was corrected", (0.0, 0.05, 0.15, 0.3), 0.0, corrected=True
        ),
        "true_gain": Axis(
            "true_gain", "true acceleration, times the model's", (1.0, 1.5, 2.0, 2.5, 3.0), dynamics.TRUE_GAIN
        ),
        "noise": Axis("noise", "noise on actions", (0.0125, 0.025, 0.05, 0.1, 0.2), dynamics.NOISE),
        "pit_radius": Axis(
            "pit_radius", "pit radius, mm (gap at Center: 15.6 minus it)", (8.0, 10.0, 12.0, 13.0, 14.0), 12.0
        ),
    },
    planners={
        "averaging": replace(ROWS["capture"], weights=OUR_WEIGHTS),
        "second-look": ROWS["capture-residual"],
    },
)
