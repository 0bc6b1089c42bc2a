"""The online study: coverage when the true system changes during an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, Floats, known_name, positive_number
from capture_cp.base.progress import progress_bar
from capture_cp.base.streams import stream
from capture_cp.capture.adaptive import Adaptive, AdaptiveAlpha, AdaptiveScale
from capture_cp.capture.capture import Capture
from capture_cp.data.parts import run_parts
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.episode import episode_seeds, run_episode
from capture_cp.report.output import output_folder, write_rows
from capture_cp.spaces.plotting import pyplot
from capture_lab.studies.online_report import online_figure, online_rows, print_online
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.study import (
    Calibration,
    FigureFolder,
    Jobs,
    RowsFile,
    Seed,
    StateFolder,
    Study,
    check_settings,
)
from capture_lab.tasks.rows import FittedRow, Row, fit_row, part_of
from capture_lab.tasks.task import Task

#: fixed: the calibration unchanged; alpha: its failure rate adapts; scale: its thresholds do; scale-up: they never shrink
Mode = Literal["fixed", "alpha", "scale", "scale-up"]
#: Different starts of the episodes, where the task has that many; then they come again.
STARTS = 100


@dataclass(frozen=True)
class OnlineStudy(Study):
    """Measure coverage in closed loop while the true system changes: fixed regions against regions that adapt.

    The planner uses the current regions. At a random step, in the middle of an episode, the true gain is multiplied; the
    model and the calibration stay the same. Adaptation continues from one episode to the next.
    """

    command: ClassVar[str] = "online"

    modes: Annotated[tuple[Mode, ...], tyro.conf.arg(help="How regions adapt: fixed, alpha, scale or scale-up.")] = get_args(
        Mode
    )
    steps: Annotated[int, tyro.conf.arg(help="Executed steps after the change; up to a fifth as many come before it.")] = (
        10_000
    )
    gain: Annotated[float, tyro.conf.arg(help="Factor on the true gain at the change.")] = 1.5
    drag: Annotated[float, tyro.conf.arg(help="Fraction of the speed that is lost at each step after the change.")] = 0.0
    gamma: Annotated[float, tyro.conf.arg(help="Step size of the mode alpha.")] = 0.05
    eta: Annotated[float, tyro.conf.arg(help="Step size of the modes scale and scale-up.")] = 0.2
    samples: Annotated[int, tyro.conf.arg(help="Sampled action sequences per plan; capture plan may use more.")] = 256
    calibration: Calibration = 1.0
    alpha: Annotated[float, tyro.conf.arg(help="Target failure rate.")] = 0.1
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    figures: FigureFolder = None

    def run(self, console: Console) -> None:
        """Run the loops, print their tables."""
        tasks = self.tasks()
        runs = self.results(tasks)
        regimes = next(iter(tasks.values())).regimes
        rows = online_rows(runs, regimes, self)
        print_online(console, rows, regimes, self)
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            for place, task in tasks.items():
                file = output_folder(self.figures) / f"online-{task.slug}.png"
                figure = online_figure({mode: runs[place, mode] for mode in self.modes}, regimes, self.alpha)
                figure.savefig(file, dpi=120)
                pyplot().close(figure)
                console.print(f"Figure: {file}", markup=False)

    def tasks(self) -> dict[str, Task]:
        """The tasks by the names of their places, all settings checked."""
        tasks = dict(self.task.places())
        if not self.modes:
            raise CaptureError("no modes are given; name at least one, or leave --modes out.")
        for mode in self.modes:
            known_name("mode", mode, get_args(Mode))
        for name in ("gain", "gamma", "eta"):
            positive_number(name, getattr(self, name))
        if not 0.0 <= self.drag < 1.0:
            raise CaptureError(f"drag is {self.drag}; expected a fraction of the speed, from 0 to below 1.")
        for task in tasks.values():
            task.changed(self.gain, self.drag)
            part_of(task.calibration_size, self.calibration)
        check_settings(self, ("steps", "samples", "jobs"), (self.figures, self.state))
        return tasks

    def results(self, tasks: Mapping[str, Task]) -> dict[tuple[str, str], Any]:
        """The results of every step, by place and mode."""
        names: list[tuple[str, str]] = [(place, mode) for place in tasks for mode in self.modes]
        made_with = {place: self.identity(task) | {"row": repr(self._row(task))} for place, task in tasks.items()}
        store = PartStore(self.state, "online", made_with)
        done = store.load()
        missing = [part for part in range(len(names)) if part not in done]
        work = partial(self._part, tasks, names)
        with progress_bar() as progress:
            bar = progress.add_task(f"runs of at least {self.steps:,} steps", total=len(missing))
            for part, result in run_parts(work, missing, self.jobs):
                done[part] = result
                store.add(part, result)
                progress.advance(bar)
        return {names[part]: done[part] for part in range(len(names))}

    def _row(self, task: Task) -> Row:
        return task.rows["capture"].changed({"samples": self.samples})

    def _part(self, tasks: Mapping[str, Task], names: list[tuple[str, str]], part: int) -> dict[str, Any]:
        """All steps of one place and mode: how each of them ended, and where the dials stood."""
        place, mode = names[part]
        task = tasks[place]
        fitted = fit_row(self._row(task), task, self.seed, calibration=self.calibration)
        assert isinstance(fitted.cap, Capture)
        step = int(stream(task.seed_here(self.seed), "change").integers(self.steps // 10, self.steps // 5 + 1))
        system = Changing(task, task.changed(self.gain, self.drag), step)
        particles = stream(self.seed, "watched", task.place)
        watched = Adapting(system, fitted.cap, task.axes, particles, self._adaptive(mode, fitted.cap, task), self.alpha)
        ends, outcomes = self._episodes(fitted, system, watched, step + self.steps)
        return {
            "change": step,
            "ends": ends,
            "outcomes": outcomes,
            "regime": task.stratum_regimes[watched.strata].tolist(),
            "held": [int(held) for held in watched.held],
            "dials": [by_regime(dials, task).round(4).tolist() for dials in watched.dials],
            "infinite": [int(np.isinf(q).any()) for q in watched.thresholds],
        }

    def _episodes(self, fitted: FittedRow, system: Changing, watched: Adapting, total: int) -> tuple[list[int], list[str]]:
        """Episode after episode, until `total` steps are executed: at which of them each ended, and how."""
        task, ends, outcomes = fitted.task, list[int](), list[str]()
        starts = task.starts(STARTS)
        while len(watched.held) < total:
            episode = len(ends)
            seed, noise_seed = episode_seeds(self.seed, task.place, episode)  # the same for every mode
            planner, start = fitted.planner(self.alpha, seed), starts[episode % STARTS]
            watched.guide(planner.checked_rollout())
            system.begin(start)
            run = run_episode(planner, watched, start, min(task.max_steps, total - len(watched.held)), noise_seed)
            ends.append(len(watched.held))
            outcomes.append(run.outcome)
        return ends, outcomes

    def _adaptive(self, mode: str, cap: Capture, task: Task) -> Adaptive | None:
        if mode == "fixed":
            return None
        if mode == "alpha":
            return AdaptiveAlpha(cap, self.alpha, self.gamma)
        return AdaptiveScale(cap, self.alpha, self.eta, floor=task.cell, never_smaller=mode == "scale-up")


class Changing:
    """A true system until a number of executed steps, and the changed one from then on."""

    def __init__(self, task: Task, changed: Task, step: int) -> None:
        self.task, self.changed, self.step, self.executed = task, changed, step, 0

    def begin(self, start: Floats) -> None:
        """A new episode, from a state (ds,)."""
        self._act = (self.task if self.executed < self.step else self.changed).closed_loop(start)

    def __call__(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        """Execute an action (da,) from a state (ds,); the next state, and the outcome once the episode has ended."""
        if self.executed == self.step:
            self._act = self.changed.closed_loop(state)
        self.executed += 1
        return self._act(state, action, rng)


def by_regime(dials: Floats, task: Task) -> Floats:
    """Mean of the dials (M,) in each regime; none if there are none."""
    if not len(dials):
        return dials
    return np.array([dials[task.stratum_regimes == regime].mean() for regime in range(len(task.regimes))])
