"""The horizon study on the peg: do regions several steps ahead hold, in and out of contact?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import Progress

from capture_cp.base.checks import confidence_level, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import as_step
from capture_cp.conformal.coverage import HorizonCoverage
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.data.rollouts import Rollouts
from capture_cp.studies.horizon import CALIBRATION, TEST
from capture_cp.studies.horizon_methods import compare, report
from capture_cp.studies.parts import kernel_threads
from capture_cp.studies.study import RowsFile, check_settings
from capture_cp.tasks.peg.data import peg_data
from capture_cp.tasks.peg.rollouts import peg_rollouts
from capture_cp.tasks.peg.task import PARTICLES, Peg, SystemName

#: Roll-outs simulated between two steps of the progress bar; it also fixes their random numbers, so it is no setting.
PART = 1000


@dataclass(frozen=True)
class PegHorizonStudy:
    """Coverage of regions along a horizon on peg insertion: the paper's recursion, and regions calibrated on roll-outs.

    Starts as in the coverage study, actions uniform and new each step; the simulator keeps its velocities between steps. The
    recursion has as many transitions as the roll-outs hold, and the same score and trees. Needs MuJoCo:
    pip install 'capture-cp[sim]'.
    """

    task: Annotated[Literal["peg"], tyro.conf.Suppress] = "peg"
    system: Annotated[SystemName, tyro.conf.arg(help="The true system: a peg on rails, or in the hand of a Panda arm.")] = (
        "planar"
    )
    horizon: Annotated[int, tyro.conf.arg(help="Steps H of a roll-out.")] = 6
    calibration: Annotated[int, tyro.conf.arg(help="Calibration roll-outs.")] = 10_000
    test: Annotated[int, tyro.conf.arg(help="Test roll-outs.")] = 5_000
    volume: Annotated[int, tyro.conf.arg(help="Test roll-outs whose region cells are counted; 0 for no volumes.")] = 50
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest roll-outs in a leaf while the trees grow.")] = 300
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Most leaves a tree.")] = 20
    particles: Annotated[int, tyro.conf.arg(help="Particles L; the k-th nearest is L/2.")] = PARTICLES
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate.")] = 0.1
    confidence: Annotated[
        float | None,
        tyro.conf.arg(help="Share of calibration sets that must not undercover, such as 0.95; none unless told."),
    ] = None
    threads: Annotated[int | None, tyro.conf.arg(help="Threads, all cores unless told; the results do not change.")] = None
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    data: Annotated[Path | None, tyro.conf.arg(help="Folder that keeps single transitions, your cache unless told.")] = None
    json: RowsFile = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for a figure of coverage against the step.")] = None

    def run(self, console: Console) -> None:
        """Run the study and print its table."""
        task = self.checked_task()
        with kernel_threads(self.threads):
            found = {str(self.system): self.measure(task, console)}
        report(self, found, console)

    def checked_task(self) -> Peg:
        """The task, all settings checked."""
        counts = ("horizon", "calibration", "test", "min_leaf", "particles")
        check_settings(self, counts if self.threads is None else (*counts, "threads"), (self.figures,))
        whole_number("volume", self.volume, 0)
        confidence_level(self.confidence)
        task = Peg(system=self.system)
        task.true_system(self.threads)  # missing MuJoCo is told now
        return task

    def measure(self, task: Peg, console: Console) -> dict[str, HorizonCoverage]:
        """The three kinds of regions."""
        score = NearestParticles(max(1, self.particles // 2), task.metric)
        tree = Tree(min_leaf=self.min_leaf, max_leaves=self.max_leaves)
        parts = score, tree, self.particles, self.seed
        transitions = self.calibration * self.horizon
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("simulating", total=(self.calibration + self.test) * self.horizon + transitions)
            advance = partial(progress.advance, bar)
            single = peg_data(task, transitions, self.seed, threads=self.threads, folder=self.data, advance=advance)
            calibration = self._simulate(task, self.calibration, CALIBRATION, advance)
            test = self._simulate(task, self.test, TEST, advance)
        with console.status("calibrating and counting cells"):
            cap = HorizonCapture(as_step(task.model), task.strata, task.axes, *parts).fit(calibration)
            one = Capture(task, task.strata, *parts).fit(single.transitions.X, single.transitions.Y)
            return compare(one, cap, test, self.alpha, self.confidence, self.volume, stream(self.seed, "predictions"))

    def _simulate(self, task: Peg, n: int, purpose: str, advance: Callable[[int], object]) -> Rollouts:
        """n roll-outs of the true system; fewer are always the first of more."""
        system, parts = task.true_system(self.threads), []
        for number, first in enumerate(range(0, n, PART)):
            part = peg_rollouts(task, PART, self.horizon, stream(self.seed, "peg", purpose, number), system)
            parts.append(part[: n - first])
            advance(len(parts[-1]) * self.horizon)
        return Rollouts.concatenate(parts)
