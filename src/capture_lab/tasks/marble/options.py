"""Options of the marble, which are those of the command line, and the rows of its planning table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.capture.methods import METHODS
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant, with_pits
from capture_lab.tasks.marble.planner import PLANNER, MarbleWeights
from capture_lab.tasks.marble.task import LEAVES, TRAINING, Design, Marble
from capture_lab.tasks.rows import planning_rows
from capture_lab.tasks.task import TaskOptions

#: Chosen on mirrored maps with moved pits, for the row that has everything. Rows with the uncorrected model keep the paper's
#: settings, so that only their regions differ from `capture`.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.02, elites=31), MarbleWeights(count_particles=True)

ROWS = planning_rows((PLANNER, MarbleWeights()), corrected=(OURS, OUR_WEIGHTS), oracle=True)

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


@dataclass(frozen=True)
class MarbleOptions(TaskOptions):
    """The marble labyrinth: a marble on a tilting board between pits; the true one accelerates twice as hard as modelled."""

    name = "marble"
    task: ClassVar[type[Marble]] = Marble
    paper = Path(__file__).with_name("paper.json")
    everywhere = "all maps"
    weights = MarbleWeights
    ladder = LADDER
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "coverage": {"mc": 10, "tree": "label", "min_leaf": 700, "max_leaves": None, "particles": 16},
        "horizon": {"calibration": 20_000, "test": 20_000, "volume": 1_000, "particles": 16},
        "plan": {
            "methods": (*METHODS, "capture-on-policy"),
            "samples": PLANNER.samples,
            "horizon": PLANNER.horizon,
            "max_leaves": LEAVES,
        },
        "view": {"planner": PLANNER, "max_leaves": LEAVES},
        "demo": {"maps": ("top-center",)},
        "certify": {"risks": ("fell",)},
    }

    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or your own .json files.")] = MAP_NAMES
    model_gain: Annotated[float, tyro.conf.arg(help="Acceleration gain of the model.")] = 1.0
    true_gain: Annotated[float, tyro.conf.arg(help="Acceleration gain of the true marble.")] = dynamics.TRUE_GAIN
    noise: Annotated[float, tyro.conf.arg(help="Standard deviation of the action noise.")] = dynamics.NOISE
    pit_radius: Annotated[float | None, tyro.conf.arg(help="Radius of all pits (mm); each map's own by default.")] = None
    training: Annotated[int, tyro.conf.arg(help="Transitions used to correct the model, in -residual rows.")] = TRAINING
    training_drag: Annotated[float, tyro.conf.arg(help="Fraction of speed lost per step in those transitions.")] = 0.0
    absorb: Annotated[bool, tyro.conf.arg(help="Pits and goal stop the marble in calibration and test data too.")] = False
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, for choosing settings.")] = False
    design: Annotated[Design, tyro.conf.arg(help="Calibration inputs: the paper's grid, or random feasible ones.")] = "grid"
    test_design: Annotated[
        Literal["same", "grid", "random"], tyro.conf.arg(help="Test inputs: the same as for calibration, grid or random.")
    ] = "same"

    def places(self) -> dict[str, Marble]:
        """The maps by the given names."""
        if not self.maps:
            raise CaptureError("no maps are given; name at least one, or leave --maps out.")
        return {str(name): self.at(name) for name in self.maps}

    @property
    def place_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.maps))

    @property
    def in_paper(self) -> bool:
        asked = self.true_gain, self.noise, self.pit_radius
        return not self.variant and asked == (dynamics.TRUE_GAIN, dynamics.NOISE, None)

    def at(self, place: str) -> Marble:
        whole_number("training", self.training, 0)
        if not (0.0 <= self.training_drag < 1.0 and 0.0 <= self.noise < inf and 0.0 < self.true_gain < inf):
            raise CaptureError(
                f"true gain, noise and training drag are {self.true_gain}, {self.noise} and {self.training_drag}; expected "
                "a positive number, a number of at least 0, and a fraction of the speed from 0 to less than 1."
            )
        found, test = load_map(place), None if self.test_design == "same" else self.test_design
        board = tuning_variant(found) if self.variant else found
        board = board if self.pit_radius is None else with_pits(board, self.pit_radius)
        return Marble(
            board, self.absorb, self.model_gain, design=self.design, test_design=test, true_gain=self.true_gain,
            noise=self.noise, training=self.training, training_drag=self.training_drag,
        )  # fmt: skip
