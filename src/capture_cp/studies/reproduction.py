"""What `capture reproduce` makes: the paper's tables and figures as parts, each a study of this package with its sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.planning import PlanningStudy
from capture_cp.tasks.marble.maps import MAP_NAMES
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.peg.options import PegOptions
from capture_cp.tasks.peg.task import SystemName

ALL_MAPS = MarbleOptions.everywhere

PartName = Literal["marble-coverage", "marble-planning", "peg-coverage", "peg-planning"]
Study = CoverageStudy | PlanningStudy

#: Settings that do not change what a study finds.
_UNIMPORTANT = ("jobs", "threads", "state", "json", "record", "figures", "data")


@dataclass(frozen=True)
class Sizes:
    """How large the studies are."""

    outcomes: int
    marble_maps: tuple[str, ...]
    marble_episodes: int
    peg_systems: tuple[SystemName, ...]
    peg_calibration: int
    peg_test: int
    peg_volumes: int
    peg_episodes: int


QUICK = Sizes(20, MAP_NAMES, 3, ("planar",), 20_000, 20_000, 500, 8)
FULL = Sizes(10_000, MAP_NAMES, 30, ("planar", "arm"), 70_000, 90_000, 3_000, 50)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: the rows of a part that belong to it."""

    number: int
    title: str
    holds: Callable[[dict[str, Any]], bool]

    @property
    def file(self) -> str:
        return f"table-{self.number}.json"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper, told by how the file's name ends."""

    ending: str
    beside: str
    caption: str


@dataclass(frozen=True)
class Part:
    """One part of the reproduction: studies, and the tables and figures that come of them."""

    name: PartName
    title: str
    studies: tuple[Study, ...]
    tables: tuple[PaperTable, ...]
    figures: tuple[PaperFigure, ...]

    @property
    def needs_mujoco(self) -> bool:
        return self.name.startswith("peg")

    def settings(self) -> list[dict[str, Any]]:
        """Settings of the studies that change what they find."""
        return [{key: value for key, value in asdict(study).items() if key not in _UNIMPORTANT} for study in self.studies]

    def identity(self, figures: bool) -> dict[str, Any]:
        """What a finished part must have been made with to be used again."""
        return {"studies": self.settings(), "figures": figures, "version": version("capture-cp")}

    def placed(self, state: Path, figures: Path | None) -> list[Study]:
        """The studies with their folders and result files."""
        files = [state / f"{self.name}-{number}.json" for number in range(len(self.studies))]
        return [replace(study, state=state, json=file, figures=figures) for study, file in zip(self.studies, files)]

    def figure_of(self, file: Path) -> PaperFigure | None:
        """Which of the part's figures a file is."""
        return next((figure for figure in self.figures if file.stem.endswith(figure.ending)), None)


def all_parts(sizes: Sizes, jobs: int, seed: int) -> list[Part]:
    """The parts of the reproduction, in the paper's order."""
    return [
        Part(
            "marble-coverage",
            "Marble labyrinth: does the region hold?",
            (CoverageStudy.of(MarbleOptions(maps=sizes.marble_maps), mc=sizes.outcomes, jobs=jobs, seed=seed),),
            (
                PaperTable(1, "Coverage and volume over all maps", lambda row: row["map"] == ALL_MAPS),
                PaperTable(5, "Coverage and volume by map", lambda row: row["map"] != ALL_MAPS),
            ),
            _MARBLE_COVERAGE,
        ),
        Part(
            "marble-planning",
            "Marble labyrinth: planning",
            (PlanningStudy.of(MarbleOptions(maps=sizes.marble_maps), episodes=sizes.marble_episodes, jobs=jobs, seed=seed),),
            (PaperTable(2, "Planning by map", _any),),
            _MARBLE_PLANNING,
        ),
        Part(
            "peg-coverage",
            "Peg insertion: does the region hold?",
            tuple(_peg_coverage(sizes, system, seed) for system in sizes.peg_systems),
            (PaperTable(3, "Coverage and volume", _any),),
            _PEG_COVERAGE,
        ),
        Part(
            "peg-planning",
            "Peg insertion: planning",
            tuple(
                PlanningStudy.of(
                    PegOptions(system=system),
                    episodes=sizes.peg_episodes,
                    calibration=sizes.peg_calibration,
                    jobs=jobs,
                    seed=seed,
                )
                for system in sizes.peg_systems
            ),
            (PaperTable(4, "Planning from Halton starts", _any),),
            _PEG_PLANNING,
        ),
    ]


def _peg_coverage(sizes: Sizes, system: SystemName, seed: int) -> CoverageStudy:
    calibration, test, volume = sizes.peg_calibration, sizes.peg_test, sizes.peg_volumes
    return CoverageStudy.of(PegOptions(system=system), calibration=calibration, test=test, volume=volume, seed=seed)


def _any(row: dict[str, Any]) -> bool:
    return True


_MARBLE_COVERAGE = (
    PaperFigure("-spaces", "Figures 3 and 6", "Workspace, and the space of the marble's centre with its strata."),
    PaperFigure("-regions", "Figure 2", "Regions of every method in free space, on an edge, in a corner and near a pit."),
)
_MARBLE_PLANNING = (PaperFigure("trajectories", "Figure 7", "Paths of all methods on all maps."),)
_PEG_COVERAGE = (
    PaperFigure("-spaces", "Figures 4 and 8", "Workspace, and slices of the configuration space at several angles."),
    PaperFigure("-contacts", "Figure 9", "One landing of every contact stratum, and the regime it is reported in."),
    PaperFigure("-starts", "Figure 10", "The first feasible poses of a Halton sequence, from which planning starts."),
    PaperFigure("-regions", "Figure 2", "Regions of every method for a landing of each regime."),
)
_PEG_PLANNING = (
    PaperFigure("-paths", "Table 4", "Paths of the peg's base, all methods."),
    PaperFigure("-horizon", "Figure 5", "Particles of the model along a plan."),
)
