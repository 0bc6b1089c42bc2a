"""The horizon study on the marble: do regions several steps ahead hold?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import track

from capture_cp.base.checks import confidence_level, whole_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.conformal.coverage import HorizonCoverage
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.studies.horizon_methods import compare, report
from capture_cp.studies.parts import run_parts
from capture_cp.studies.study import RowsFile, check_settings
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.tasks.marble.rollouts import marble_rollouts
from capture_cp.tasks.marble.task import Marble

CALIBRATION, TEST, SINGLE = "calibration", "test", "single"


@dataclass(frozen=True)
class HorizonStudy:
    """Coverage of regions along a horizon on the marble: the paper's recursion, and regions calibrated on roll-outs.

    Starts and actions are drawn as in the "random" design of the coverage study, a new action each step unless held; pits
    are floor. Calibration and test roll-outs are different ones of the true system. The recursion has as many transitions
    as the roll-outs hold, and the same score and trees.
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = MAP_NAMES
    horizon: Annotated[int, tyro.conf.arg(help="Steps H of a roll-out.")] = 6
    calibration: Annotated[int, tyro.conf.arg(help="Calibration roll-outs a map.")] = 20_000
    test: Annotated[int, tyro.conf.arg(help="Test roll-outs a map.")] = 20_000
    volume: Annotated[int, tyro.conf.arg(help="Test roll-outs whose region cells are counted; 0 for no volumes.")] = 1_000
    hold: Annotated[int, tyro.conf.arg(help="Steps for which an action is held; 1 draws each anew.")] = 1
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest roll-outs in a leaf while the trees grow.")] = 300
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Most leaves a tree.")] = 20
    particles: Annotated[int, tyro.conf.arg(help="Particles L; the k-th nearest is L/2.")] = 16
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate.")] = 0.1
    confidence: Annotated[
        float | None,
        tyro.conf.arg(help="Share of calibration sets that must not undercover, such as 0.95; none unless told."),
    ] = None
    jobs: Annotated[int, tyro.conf.arg(help="Processes, a map each; the results are the same for any number.")] = 1
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    json: RowsFile = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for a figure of coverage against the step.")] = None

    def run(self, console: Console) -> None:
        """Run the study and print its table."""
        tasks = self.checked_tasks()
        work = run_parts(partial(self._measure_part, list(tasks.values())), range(len(tasks)), self.jobs)
        done = track(work, "maps", total=len(tasks), console=console, transient=True)
        found = dict(zip(tasks, (result for _, result in done)))
        report(self, found, console)

    def checked_tasks(self) -> dict[str, Marble]:
        """The maps by name, all settings checked."""
        counts = ("horizon", "calibration", "test", "hold", "min_leaf", "particles", "jobs")
        check_settings(self, counts, (self.figures,))
        whole_number("volume", self.volume, 0)
        confidence_level(self.confidence)
        return {str(name): Marble(load_map(name)) for name in self.maps}

    def measure(self, task: Marble) -> dict[str, HorizonCoverage]:
        """The three kinds of regions on one map."""
        score, tree = NearestParticles(max(1, self.particles // 2)), Tree(min_leaf=self.min_leaf, max_leaves=self.max_leaves)
        seed = derived_seed(self.seed, "marble", task.map.name)  # two maps share no random numbers
        rng = {purpose: stream(seed, purpose) for purpose in (CALIBRATION, TEST, SINGLE)}
        cap = HorizonCapture(task.model_step, task.strata, POSITION, score, tree, self.particles, seed)
        cap.fit(marble_rollouts(task, self.calibration, self.horizon, rng[CALIBRATION], self.hold))
        single = marble_rollouts(task, self.calibration * self.horizon, 1, rng[SINGLE])
        one = Capture(task, task.strata, score, tree, self.particles, seed).fit(*single.transitions())
        test = marble_rollouts(task, self.test, self.horizon, rng[TEST], self.hold)
        return compare(one, cap, test, self.alpha, self.confidence, self.volume, stream(seed, "predictions"))

    def _measure_part(self, tasks: list[Marble], number: int) -> dict[str, HorizonCoverage]:
        return self.measure(tasks[number])
