"""How much planning with the peg hangs on what the paper leaves open: bound, stiffness, receptacle, bonuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.capture.methods import METHODS
from capture_cp.report.output import write_rows
from capture_cp.studies import paper
from capture_cp.studies.peg_planning import PegPlanningStudy
from capture_cp.studies.study import Jobs, RowsFile, Seed, StateFolder
from capture_cp.tasks.peg.task import SystemName

#: One choice at a time differs from the study's own settings, which come first.
CHOICES: dict[str, dict[str, Any]] = {
    "as chosen: bound 3, wide receptacle, stiff, no bonuses": {},
    "bound 2": {"bound": 2.0},
    "bound 4": {"bound": 4.0},
    "bound 5": {"bound": 5.0},
    "controller at 60 rad/s": {"frequency": 60.0},
    "controller at 300 rad/s": {"frequency": 300.0},
    "receptacle 30 mm wide": {"width": 30.0},
    "bonuses in the cost": {"bonuses": True},
    "LUCCa's infeasible cells: all contacts wrong": {"infeasible": "worst"},
    "LUCCa's infeasible cells: left out": {"infeasible": "nothing"},
}


@dataclass(frozen=True)
class PegSensitivity:
    """Success of every method when one of the choices that the paper leaves open is made differently.

    The methods are calibrated anew wherever the choice changes the true system or the space.
    """

    task: Annotated[Literal["peg"], tyro.conf.Suppress] = "peg"
    system: Annotated[SystemName, tyro.conf.arg(help="The true system: the peg on rails, or in a Panda's hand.")] = "planar"
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}.")] = paper.PLANNING_METHODS
    episodes: Annotated[int, tyro.conf.arg(help="Halton starts a method and choice.")] = 20
    calibration: Annotated[int, tyro.conf.arg(help="Calibration transitions a choice.")] = 70_000
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Run every choice and print one table."""
        study = PegPlanningStudy(
            system=self.system, methods=self.methods, episodes=self.episodes, calibration=self.calibration,
            jobs=self.jobs, seed=self.seed, state=self.state, json=self.json,
        )  # fmt: skip
        study.check()
        rows: list[dict[str, Any]] = []
        table = Table(title=self._title(), box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("success, %")
        for name in self.methods:
            table.add_column(name, justify="right")
        for choice, changes in CHOICES.items():
            console.print(f"[dim]{choice}[/dim]")
            variant = replace(study, **changes)
            found = {name: variant.row(name, runs) for name, runs in variant.results(console)[1].items()}
            table.add_row(choice, *(_cell(found[name]) for name in self.methods))
            rows += [row | {"choice": choice} for row in found.values()]
        console.print(table)
        if self.json is not None:
            write_rows(self.json, rows, self)

    def _title(self) -> str:
        return f"Peg insertion, {self.system}: {self.episodes} Halton starts a method (95 % intervals below)"


def _cell(row: dict[str, Any]) -> str:
    low, high = row["success_ci95"]
    return f"{100 * row['success']:.0f}\n[dim]{100 * low:.0f}-{100 * high:.0f}[/dim]"
