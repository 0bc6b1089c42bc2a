"""Measures and prints the quality of the simulated peg."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.progress import stage
from capture_cp.report.output import write_rows
from capture_lab.tasks.peg.quality import Measure, compare, measure
from capture_lab.tasks.peg.simulator import PegSystem
from capture_lab.tasks.peg.systems import SYSTEMS, make_system


@dataclass(frozen=True)
class SimulatorStudy:
    """Measure the accuracy of the peg's simulator: contact, settling, motion out of the plane, repeatability, speed.

    Each is measured over random control steps: free ones, and ones that start within 2 mm of contact. With both systems,
    also the distance between their landings from the same inputs. Needs MuJoCo: pip install 'capture-cp[sim]'.
    """

    system: Annotated[Literal["planar", "arm", "both"], tyro.conf.arg(help="On rails, in a Panda's hand, or both.")] = "both"
    steps: Annotated[int, tyro.conf.arg(help="Random control steps behind each measure.")] = 2000
    threads: Annotated[int | None, tyro.conf.arg(help="Threads of the simulator, by default all cores.")] = None
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same steps.")] = 0
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the measures to this file.")] = None

    def run(self, console: Console) -> None:
        """Measure and print."""
        whole_number("steps", self.steps, 2)
        if whole_number("seed", self.seed, 0) >= 2**63:
            raise CaptureError(f"seed is {self.seed}; expected a whole number below 2^63.")
        check_writable(self.json)
        names = list(SYSTEMS) if self.system == "both" else [self.system]
        systems = [make_system(name, threads=self.threads) for name in names]
        with stage("simulating the peg"):
            measures = [found for system in systems for found in measure(system, self.steps, self.seed)]
            apart = compare(systems[0], systems[1], self.steps, self.seed) if len(systems) == 2 else []
        console.print(self._table(systems, measures))
        if apart:
            console.print(_differences(apart))
        if self.json is not None:
            write_rows(self.json, [{"task": "peg"} | asdict(found) for found in measures + apart], self)

    def _table(self, systems: list[PegSystem], measures: list[Measure]) -> Table:
        title = f"The simulator of the peg, over {self.steps:,} random control steps"
        table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("measure")
        for system in systems:
            table.add_column(system.name, justify="right")
        table.add_column("unit")
        values = {(found.name, found.system): found.value for found in measures}
        for found in measures[: len(measures) // len(systems)]:
            cells = (_number(values[found.name, system.name]) for system in systems)
            table.add_row(found.name, *cells, found.unit)
        return table


def _differences(apart: list[Measure]) -> Table:
    table = Table(
        title="Distance between the landings of the two systems, from the same inputs",
        caption="||(x, z, radius · theta)||. Near contact, where friction decides, tiny differences may grow large.",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in ("measure", "value", "unit"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for found in apart:
        table.add_row(found.name, _number(found.value), found.unit)
    return table


def _number(value: float) -> str:
    """Three digits, without exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"
