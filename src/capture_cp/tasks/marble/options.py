"""What the command line asks of the marble: which maps, and how they are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from capture_cp.base.checks import CaptureError
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant
from capture_cp.tasks.marble.planner import PLANNER, MarbleWeights
from capture_cp.tasks.marble.rows import SETTINGS
from capture_cp.tasks.marble.task import Design, Marble
from capture_cp.tasks.task import TaskOptions


@dataclass(frozen=True)
class MarbleOptions(TaskOptions):
    """The marble labyrinth: a marble on a tilting board between pits, which accelerates twice as hard as believed."""

    name = "marble"
    task: ClassVar[type[Marble]] = Marble
    paper = Path(__file__).with_name("paper.json")
    everywhere = "all maps"
    weights = MarbleWeights
    varied = SETTINGS
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "coverage": {"mc": 10, "tree": "label", "min_leaf": 700, "max_leaves": None, "particles": 16},
        "horizon": {"calibration": 20_000, "test": 20_000, "volume": 1_000, "particles": 16},
        "plan": {"samples": PLANNER.samples, "horizon": PLANNER.horizon},
        "view": {"planner": PLANNER},
        "demo": {"maps": ("top-center",)},
        "sensitivity": {"maps": ("bottom-left", "center", "top-center"), "methods": ("capture", "capture-horizon-residual")},
        "rounds": {"maps": ("bottom-left", "center-right", "top-center")},
    }

    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = MAP_NAMES
    model_gain: Annotated[float, tyro.conf.arg(help="Acceleration that the model believes in; the truth is 2.")] = 1.0
    absorb: Annotated[bool, tyro.conf.arg(help="Pits and goal stop the marble, as they always do in planning.")] = False
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, made for choosing settings.")] = False
    design: Annotated[Design, tyro.conf.arg(help="Calibration inputs: the paper's grid, or random feasible ones.")] = "grid"
    test_design: Annotated[
        Literal["same", "grid", "random"], tyro.conf.arg(help="Test inputs: as for calibration, or one of the two.")
    ] = "same"

    def places(self, planning: bool = False) -> dict[str, Marble]:
        """The maps by the names that were given."""
        if not self.maps:
            raise CaptureError("no maps are given; name at least one, or leave --maps out.")
        return {str(name): self._on(name, self.absorb or planning) for name in self.maps}

    @property
    def place_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.maps))

    def at(self, place: str) -> Marble:
        return self._on(place, absorb=True)

    @property
    def in_paper(self) -> bool:
        return not self.variant

    def _on(self, name: str, absorb: bool) -> Marble:
        found, test = load_map(name), None if self.test_design == "same" else self.test_design
        board = tuning_variant(found) if self.variant else found
        return Marble(board, absorb, self.model_gain, design=self.design, test_design=test)
