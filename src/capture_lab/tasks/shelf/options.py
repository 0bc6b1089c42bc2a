"""Options of the shelf, which are those of the command line, and the rows of its planning table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import tyro

from capture_cp.base.checks import CaptureError
from capture_cp.capture.methods import METHODS
from capture_lab.tasks.rows import planning_rows
from capture_lab.tasks.shelf.mjcf import Physics
from capture_lab.tasks.shelf.planner import PLANNER, ShelfWeights
from capture_lab.tasks.shelf.shelves import SHELF_NAMES, load_shelf, tuning_variant
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.task import TaskOptions

ROWS = planning_rows((PLANNER, ShelfWeights()), corrected=(PLANNER, ShelfWeights()))


@dataclass(frozen=True)
class ShelfOptions(TaskOptions):
    """A seven-joint arm that puts a jar into a shelf, past a glass. Needs MuJoCo: pip install 'capture-cp[sim]'."""

    name = "shelf"
    task: ClassVar[type[ShelfTask]] = ShelfTask
    everywhere = "all shelves"
    weights = ShelfWeights
    ladder: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {"method": name} for name in ("capture-residual", "capture", "particles")
    }
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "coverage": {"mc": 4, "tree": "per-stratum", "min_leaf": 300, "particles": 8, "test": 5_000, "volume": 200},
        "horizon": {"calibration": 5_000, "test": 2_000, "volume": 50, "particles": 8},
        "plan": {
            "methods": METHODS,
            "samples": PLANNER.samples,
            "horizon": PLANNER.horizon,
            "particles": 8,
            "episodes": 100,
        },
        "view": {"planner": PLANNER, "particles": 8, "k": 4},
        "certify": {"risks": ("touched the glass",)},
    }

    shelves: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of shelves, or your own .json files.")] = SHELF_NAMES
    payload: Annotated[float, tyro.conf.arg(help="Mass of the jar (kg), unknown to the model.")] = 2.0
    stiffness: Annotated[float, tyro.conf.arg(help="Stiffness of the true controller, relative to the arm's file.")] = 1.0
    friction: Annotated[float, tyro.conf.arg(help="Friction of the true contacts; the model has none.")] = 0.6
    noise: Annotated[float, tyro.conf.arg(help="Standard deviation of the disturbance of each joint (rad).")] = 0.012
    bound: Annotated[float, tyro.conf.arg(help="Largest action of a joint (rad).")] = 0.12
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored shelves with moved glasses, for choosing settings.")] = False
    threads: Annotated[int | None, tyro.conf.arg(help="Simulator threads, all cores by default; same results.")] = None

    def places(self) -> dict[str, ShelfTask]:
        """The shelves by the given names."""
        if not self.shelves:
            raise CaptureError("no shelves are given; name at least one, or leave --shelves out.")
        return {str(name): self.at(name) for name in self.shelves}

    @property
    def place_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.shelves))

    def at(self, place: str) -> ShelfTask:
        found = load_shelf(place)
        physics = Physics(self.payload, self.stiffness, self.friction, self.noise)
        return ShelfTask(tuning_variant(found) if self.variant else found, physics, self.bound, threads=self.threads)
