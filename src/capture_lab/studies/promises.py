"""Coverage guarantees on a planner's own episodes, and how often they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, Floats, known_name, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.base.streams import derived_seed
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.conformal.coverage import CoverageRow
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.parts import run_parts
from capture_cp.planning.braking import BrakingFilter
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.output import write_rows
from capture_lab.studies.study import Calibration, Jobs, RowsFile, Seed, Study, check_settings
from capture_lab.tasks.practice import play_from, played
from capture_lab.tasks.promises import Played, Promise, Promises, can_branch
from capture_lab.tasks.rows import FittedRow, Row, fit_row, part_of
from capture_lab.tasks.task import Advance, Task

#: How an episode may end, by the key of its share in a row.
OUTCOMES = {"success": "success", "fell": "fell", "timed_out": TIMED_OUT}


class Found(NamedTuple):
    """The results of one place: the guarantees, and the test episodes without and with the brake, if there is one."""

    promises: list[Promise]
    tests: dict[str, Sequence[Episode]]
    passed: bool  # whether there are plans that passed the brake


@dataclass(frozen=True)
class PromisesStudy(Study):
    """Measure coverage guarantees on a planner's own episodes: ordinary regions, and regions calibrated for the guarantee.

    The planner is fixed. Executed steps and chosen plans of its calibration episodes are calibrated on; its test episodes
    are fresh. With the brake, plans whose regions touch a hazard are not executed, and the plans that pass are calibrated on
    in turn.
    """

    command: ClassVar[str] = "promises"
    figures: ClassVar[None] = None

    method: Annotated[str, tyro.conf.arg(help="A method of capture plan with one-step regions.")] = "capture"
    episodes: Annotated[int, tyro.conf.arg(help="Episodes to calibrate on; as many again with the brake.")] = 500
    test: Annotated[int, tyro.conf.arg(help="Fresh episodes to test on; as many again with the brake.")] = 500
    brake: Annotated[bool, tyro.conf.arg(help="Also plan with the brake, where the task has one.")] = True
    brake_steps: Annotated[
        int | None, tyro.conf.arg(help="Number of steps of a plan that the brake checks, by default all.")
    ] = None
    samples: Annotated[int, tyro.conf.arg(help="Sampled action sequences per plan; capture plan may use more.")] = 1024
    calibration: Calibration = 1.0
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    device: Annotated[Device, tyro.conf.arg(help="Where plans are computed, as in capture plan.")] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Play the episodes, print how often the guarantees held."""
        rows: list[dict[str, Any]] = []
        for place, task in self._checked().items():
            found = self._found(task, console)
            console.print(self._table(place, found))
            for line in self._lines(task, found):
                console.print(line)
            rows += self._rows(place, found)
        if self.json is not None:
            write_rows(self.json, rows, self)

    def _checked(self) -> dict[str, Task]:
        tasks = dict(self.task.places())
        check_settings(self, ("episodes", "test", "samples", "jobs"), ())
        if self.brake_steps is not None:
            whole_number("brake_steps", self.brake_steps, 1)
        for task in tasks.values():
            row = task.rows[known_name("method", self.method, task.rows)]
            if row.horizon or row.online:
                raise CaptureError(f"{self.method} adapts or has regions for a horizon; name a row with one-step regions.")
            part_of(task.calibration_size, self.calibration)
        return tasks

    # -- the work -----------------------------------------------------------------------------------------------------

    def _found(self, task: Task, console: Console) -> Found:
        row: Row = task.rows[self.method].changed({"samples": self.samples})
        fitted = fit_row(row, task, self.seed, calibration=self.calibration)
        with progress_bar() as progress:
            said = advancing(progress, f"{task.place}: episodes", (self.episodes + self.test) * (1 + self._brakes(task)))
            runs, kept = self._played(fitted, "plain", None, said), Promises(fitted, self.alpha, task.seed_here(self.seed))
            promises = [kept.executed_step(runs), kept.all_executed_steps(runs)]
            tests, passed = {"without the brake": runs.tests}, None
            if can_branch(task):
                ahead = fit_row(replace(row, horizon=True), task, self.seed, calibration=self.calibration).cap
                assert isinstance(ahead, HorizonCapture)
                promise, cap = kept.chosen_plan(runs, ahead)
                promises.append(promise)
                if self._brakes(task):
                    braking = fitted.braking(cap, self.alpha, steps=self.brake_steps)
                    filtered = self._played(fitted, "braking", braking, said)
                    passed, tests["with the brake"] = kept.passed_plan(filtered, cap), filtered.tests
                    promises += [] if passed is None else [passed[0]]
        return Found(promises, tests, passed is not None)

    def _brakes(self, task: Task) -> bool:
        return self.brake and task.has_brake and can_branch(task)

    def _played(self, fitted: FittedRow, purpose: str, braking: BrakingFilter | None, said: Advance) -> Played:
        def play(part: str, n: int) -> Sequence[Episode]:
            seeds = [derived_seed(self.seed, "promises", fitted.task.place, purpose, part, run) for run in range(n)]
            device = chosen_device(self.device)
            if device != "cpu" and braking is None and fitted.task.closed_loops() is not None:
                return played(fitted, seeds, self.alpha, device, said)
            work = partial(_run, fitted, fitted.task.starts(n), seeds, self.alpha, braking)
            runs: list[Episode] = []
            for _, run in run_parts(work, range(n), self.jobs):
                runs.append(run)
                said(1)
            return runs

        return Played(play("calibration", self.episodes), play("test", self.test))

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _table(self, place: str, found: Found) -> Table:
        caption = (
            "How often the guarantee held in fresh episodes, %, with 95% intervals; an episode is one trial.\n"
            "ordinary: regions calibrated on random inputs or actions; for all executed steps, the regions of one executed\n"
            "step; for plans that passed, the brake's own regions."
        )
        title = f"{place}: {self.method}"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("promise", "target", "ordinary", "calibrated for it"):
            table.add_column(column, justify="left" if column == "promise" else "right")
        for promise in found.promises:
            figures = _cell(promise.ordinary), _cell(promise.calibrated)
            table.add_row(promise.name, f"{100 * promise.target:g}", *figures)
        return table

    def _lines(self, task: Task, found: Found) -> Iterator[str]:
        """How the test episodes ended, and what has no guarantee."""
        for name, runs in found.tests.items():
            shares = (f"{label.replace('_', ' ')} {100 * share:.1f}%" for label, share in _shares(runs).items())
            yield f"{name}, {len(runs):,} test episodes: {', '.join(shares)}"
        if not can_branch(task):
            yield f"{task.name}: no plans, because its true system cannot go on from a state of an episode."
        elif len(found.tests) > 1 and not found.passed:
            yield "not one plan has passed the brake; let it look at fewer steps, with --brake-steps."

    def _rows(self, place: str, found: Found) -> list[dict[str, Any]]:
        labels = {"task": self.task.name, "map": place, "method": self.method}
        rows = [row for promise in found.promises for row in promise.rows(**labels, alpha=self.alpha)]
        return rows + [labels | {"runs": name, "n": len(runs)} | _shares(runs) for name, runs in found.tests.items()]


def _run(
    fitted: FittedRow, starts: Floats, seeds: list[int], alpha: float, braking: BrakingFilter | None, part: int
) -> Episode:
    """The run of one of these seeds."""
    return play_from(fitted, starts[part], seeds[part], alpha, braking=braking)


def _shares(runs: Sequence[Episode]) -> dict[str, float]:
    """Fractions of outcomes and, with a filter, of steps that braked; every episode is weighted equally."""
    found = {key: float(np.mean([run.outcome == outcome for run in runs])) for key, outcome in OUTCOMES.items()}
    braked = [run.braked.mean() for run in runs if len(run.braked)]
    return found | ({"steps_braked": float(np.mean(braked))} if braked else {})


def _cell(row: CoverageRow) -> str:
    if not row.n:
        return "-"
    low, high = row.ci95
    return f"{100 * row.coverage:.1f}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"
