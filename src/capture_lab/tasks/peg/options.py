"""Options of the peg, which are those of the command line, and the rows of its planning table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import tyro

from capture_cp.base.checks import known_name
from capture_lab.tasks.peg.planner import PLANNER, PegWeights
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.task import PARTICLES, Peg, SystemName
from capture_lab.tasks.rows import planning_rows
from capture_lab.tasks.task import TaskOptions

#: Chosen on random starts, for the row with the corrected model.
OURS, OUR_WEIGHTS = replace(PLANNER, temperature=0.03), PegWeights(effort=0.002, outside=2.0, caution=0.0)

ROWS = planning_rows((PLANNER, PegWeights()), own=(OURS, OUR_WEIGHTS), corrected=(OURS, OUR_WEIGHTS))


@dataclass(frozen=True)
class PegOptions(TaskOptions):
    """Tight peg insertion, on rails or in the hand of a Panda arm. Needs MuJoCo: pip install 'capture-cp[sim]'."""

    name = "peg"
    task: ClassVar[type[Peg]] = Peg
    paper = Path(__file__).with_name("paper.json")
    weights = PegWeights
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "coverage": {"mc": 1, "tree": "per-stratum", "min_leaf": 1000, "max_leaves": None, "particles": 8, "volume": 3_000},
        "horizon": {"calibration": 10_000, "test": 5_000, "volume": 50, "particles": 8},
        "plan": {
            "episodes": 50,
            "samples": PLANNER.samples,
            "horizon": PLANNER.horizon,
            "max_leaves": None,
            "particles": PARTICLES,
        },
        "view": {"planner": PLANNER, "particles": PARTICLES, "k": PARTICLES // 2, "max_leaves": None, "calibration": 20_000},
    }

    system: Annotated[SystemName, tyro.conf.arg(help="The true system: the peg on rails, or in a Panda's hand.")] = "planar"
    bound: Annotated[float, tyro.conf.arg(help="Largest action per component (mm, mm, degrees).")] = 3.0
    hole: Annotated[float, tyro.conf.arg(help="Width of the hole (mm).")] = 9.0
    width: Annotated[float, tyro.conf.arg(help="Width of the receptacle (mm).")] = inf
    noise: Annotated[float, tyro.conf.arg(help="Standard deviation of the disturbance (mm, mm, degrees).")] = 1.5
    gain: Annotated[float, tyro.conf.arg(help="Factor of the true system on actions; the model assumes 1.")] = 1.5
    friction: Annotated[float, tyro.conf.arg(help="Friction of the true contacts; the model has none.")] = 0.75
    frequency: Annotated[float | None, tyro.conf.arg(help="Controller frequency (rad/s); the system's by default.")] = None
    trim: Annotated[float, tyro.conf.arg(help="Length by which tubes are cut at both ends (mm).")] = 0.0
    threads: Annotated[int | None, tyro.conf.arg(help="Simulator threads, all cores by default; same results.")] = None

    def places(self) -> dict[str, Peg]:
        """The peg, by the name of its true system; a missing MuJoCo or impossible sizes raise an error here."""
        task = self.at(self.system)
        task.true_system()
        task.starts(1)
        return {self.system: task}

    def at(self, place: str) -> Peg:
        settings = PegSettings(
            hole_width=self.hole / 1e3, block_width=self.width / 1e3, bound=self.bound, noise=self.noise, gain=self.gain,
            friction=self.friction, frequency=self.frequency,
        )  # fmt: skip
        system: Any = known_name("system", place, get_args(SystemName))
        return Peg(settings, system, self.trim / 1e3, threads=self.threads)
