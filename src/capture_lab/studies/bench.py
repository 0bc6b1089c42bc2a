"""`capture bench`: the benchmarks, which are part of the source tree and not of the installed package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

import capture_cp
from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.files import check_writable
from capture_cp.cuda.device import Device
from capture_lab.studies.study import RowsFile, Seed


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios: each job next to its obvious alternative, interleaved in one run. Needs the source tree.

    A run takes a few minutes, warns of ratios that have fallen by a third, and adds its ratios to benchmarks/history.csv.
    """

    history: Annotated[bool, tyro.conf.arg(help="Print the ratios of past runs; nothing is timed.")] = False
    plot: Annotated[Path | None, tyro.conf.arg(help="With --history, also draw the ratios to this picture.")] = None
    quick: Annotated[
        bool, tyro.conf.arg(help="Time only what takes seconds, and warn of ratios that have fallen; add nothing.")
    ] = False
    rounds: Annotated[int, tyro.conf.arg(help="How often each pair of jobs is timed, alternating; 3 with --quick.")] = 7
    transitions: Annotated[int, tyro.conf.arg(help="Transitions to score and fit; the paper has 147,000 per map.")] = 147_000
    calls: Annotated[int, tyro.conf.arg(help="Calls of a compiled calibration in the latency report.")] = 200_000
    device: Annotated[
        Device, tyro.conf.arg(help="What to measure: cuda times the planner on an NVIDIA GPU, auto does if there is one.")
    ] = "cpu"
    seed: Seed = 0
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Time every pair, or print the record of past runs."""
        for name, least in (("transitions", 1000), ("rounds", 1), ("calls", 1000)):
            whole_number(name, getattr(self, name), least)
        if self.plot is not None and not self.history:
            raise CaptureError("plot draws past runs; use it with --history.")
        check_writable(self.json)
        check_writable(self.plot)
        root = Path(capture_cp.__file__).parents[2]
        if not (root / "benchmarks" / "bench.py").is_file():
            raise CaptureError(
                "the benchmarks are in the source tree, not in the installed package; run `make bench` in a clone of it."
            )
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        if self.history:
            import_module("benchmarks.history").show(console, picture=self.plot)
        else:
            import_module("benchmarks.bench").Benchmarks(self).run(console)
