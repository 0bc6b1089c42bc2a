"""On-policy calibration: coverage on the planner's own episodes, round after round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import Floats, failure_rate, whole_number
from capture_cp.base.progress import stage
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.capture.on_policy import Round, on_policy_rounds
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.parts import run_parts
from capture_cp.planning.episode import Episode
from capture_cp.report.output import output_folder, write_rows
from capture_cp.spaces.plotting import pyplot
from capture_lab.studies.study import Calibration, FigureFolder, Jobs, RowsFile, Seed, Study, check_settings
from capture_lab.tasks.practice import on_episodes, play_from, played
from capture_lab.tasks.rows import FittedRow, fit_row, part_of
from capture_lab.tasks.task import Task

#: Steps of the episode from here on are shown together with those before the next.
STEP_BINS = (1, 4, 8, 12, 16, 24)


@dataclass(frozen=True)
class RoundsStudy(Study):
    """Recalibrate on the planner's own episodes, in rounds, and measure coverage by stratum and step.

    Round 0 is calibrated on the task's calibration data. Each later round is calibrated on the episodes of the round before,
    with whole episodes as the unit, and measured on fresh episodes. `--rounds 0` only measures.
    """

    command: ClassVar[str] = "rounds"

    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}.")] = ("capture",)
    rounds: Annotated[int, tyro.conf.arg(help="Number of recalibrations.")] = 3
    episodes: Annotated[int, tyro.conf.arg(help="Episodes per round that the next round is calibrated on.")] = 80
    test: Annotated[int, tyro.conf.arg(help="Further episodes per round to test the guarantee on.")] = 30
    samples: Annotated[int, tyro.conf.arg(help="Sampled action sequences per plan; capture plan may use more.")] = 1024
    calibration: Calibration = 1.0
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    charged_alpha: Annotated[
        float | None, tyro.conf.arg(help="Failure rate of the regions in the planner's cost, by default the same.")
    ] = None
    device: Annotated[Device, tyro.conf.arg(help="Where plans are computed, as in capture plan.")] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    json: RowsFile = None
    figures: FigureFolder = None

    def run(self, console: Console) -> None:
        """Play the rounds, print their coverage."""
        found: dict[tuple[str, str], list[Round[Episode]]] = {}
        for place, task in self._checked().items():
            for name in self.methods:
                with stage(f"{task.place}: {name}, {self.rounds} rounds"):
                    found[place, name] = self._rounds(task, name)
                console.print(self._table(place, name, found[place, name]))
                console.print(self._steps_table(place, name, found[place, name]))
        rows = [row for (place, name), rounds in found.items() for row in self._rows(place, name, rounds)]
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            file = output_folder(self.figures) / "on-policy-rounds.png"
            figure = rounds_figure(rows, self.alpha)
            figure.savefig(file, dpi=120)
            pyplot().close(figure)
            console.print(f"Figure: {file}", markup=False)

    def _checked(self) -> dict[str, Task]:
        tasks = dict(self.task.places())
        whole_number("rounds", self.rounds, 0)
        whole_number("test", self.test, 0)
        if self.charged_alpha is not None:
            failure_rate(self.charged_alpha)
        for task in tasks.values():
            part_of(task.calibration_size, self.calibration)
        check_settings(self, ("episodes", "samples", "jobs"), (self.figures,))
        return tasks

    def _rounds(self, task: Task, name: str) -> list[Round[Episode]]:
        row = task.rows[name].changed({"samples": self.samples})
        first, here = fit_row(row, task, self.seed, calibration=self.calibration), task.seed_here(self.seed)
        assert isinstance(first.cap, Capture)

        sizes = self.rounds, self.episodes, self.test
        fit = partial(on_episodes, first.task, first.cap)
        return on_policy_rounds(first.cap, partial(self._play, first), fit, task.axes, *sizes, self.alpha, here)

    def _play(self, first: FittedRow, cap: Capture, seeds: list[int]) -> list[Episode]:
        fitted, device = replace(first, cap=cap), chosen_device(self.device)
        charged = self.alpha if self.charged_alpha is None else self.charged_alpha
        if device != "cpu" and first.task.closed_loops() is not None:
            return played(fitted, seeds, charged, device)
        work = partial(_run, fitted, fitted.task.starts(len(seeds)), seeds, charged)
        return [run for _, run in run_parts(work, range(len(seeds)), self.jobs)]

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _table(self, place: str, name: str, rounds: list[Round[Episode]]) -> Table:
        caption = (
            "Executed steps inside their region, %, every episode weighted equally, with 95% intervals.\n"
            "in use: fresh episodes with this calibration. promised: fresh episodes of the planner that gave its data."
        )
        title = f"{place}: {name}"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        names = [rows[0].name for rows in zip(*(one.in_use for one in rounds)) if any(row.n for row in rows)]
        for column in ("round", "", *names, "success"):
            table.add_column(column, justify="left" if column in ("round", "") else "right")
        for number, one in enumerate(rounds):
            success = np.mean([run.outcome == "success" for run in one.episodes])
            label = f"{number}, offline" if number == 0 else str(number)
            if one.promised is not None:
                table.add_row(label, "promised", *(_cell(row) for row in one.promised if row.name in names), "")
                label = ""
            table.add_row(label, "in use", *(_cell(row) for row in one.in_use if row.name in names), f"{100 * success:.0f}")
        return table

    def _steps_table(self, place: str, name: str, rounds: list[Round[Episode]]) -> Table:
        table = Table(title=f"{place}: {name}, in use, by step of the episode", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("round")
        for label, _ in _binned(rounds[0].in_use.steps):
            table.add_column(label, justify="right")
        for number, one in enumerate(rounds):
            table.add_row(str(number), *(_plain(held, n) for _, (held, n) in _binned(one.in_use.steps)))
        return table

    def _rows(self, place: str, name: str, rounds: list[Round[Episode]]) -> Iterator[dict[str, Any]]:
        for number, one in enumerate(rounds):
            labels = {"task": self.task.name, "map": place, "method": name, "round": number}
            yield from one.in_use.rows(**labels, kind="in use")
            if one.promised is not None:
                yield from one.promised.rows(**labels, kind="promised")
            for step, coverage in enumerate(one.in_use.steps, start=1):
                yield from coverage.rows(**labels, kind="in use", step=step)


def _run(fitted: FittedRow, starts: Floats, seeds: list[int], alpha: float, part: int) -> Episode:
    """The run of one of these seeds."""
    return play_from(fitted, starts[part], seeds[part], alpha)


def _binned(steps: Sequence[Coverage]) -> Iterator[tuple[str, tuple[float, int]]]:
    """Labels, covered steps and steps between the bounds of `STEP_BINS`."""
    for low, high in zip(STEP_BINS, (*STEP_BINS[1:], None)):
        rows = [one.all for one in steps[low - 1 : None if high is None else high - 1]]
        label = f"{low} on" if high is None else f"{low} to {high - 1}"
        yield label, (sum(row.covered for row in rows), sum(row.n for row in rows))


def _cell(row: CoverageRow) -> str:
    if not row.n:
        return "-"
    low, high = row.ci95
    return f"{100 * row.coverage:.1f}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"


def _plain(held: float, n: int) -> str:
    return f"{100 * held / n:.1f}\n[dim]{n:,}[/dim]" if n else "-"


def rounds_figure(rows: Sequence[dict[str, Any]], alpha: float) -> Any:
    """Coverage against the step of the episode, one line per round, one panel per place and method: from JSON rows."""
    plt = pyplot()
    steps = [row for row in rows if "step" in row and row["stratum"] == "all"]
    panels = list(dict.fromkeys((row["map"], row["method"]) for row in steps))
    rounds = max(row["round"] for row in steps) + 1
    shape = {"figsize": (3.4 * len(panels), 3.0), "squeeze": False, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(1, len(panels), **shape)
    for axis, (place, name) in zip(axes[0], panels):
        for number in range(rounds):
            here = [row for row in steps if (row["map"], row["method"], row["round"]) == (place, name, number)]
            # steps that few episodes reach are left out
            here = [row for row in here if row["n"] >= max(10, here[0]["n"] // 3)]
            shade = plt.get_cmap("viridis")(0.85 * number / max(rounds - 1, 1))
            label = "round 0, offline" if number == 0 else f"round {number}"
            axis.plot([row["step"] for row in here], [100 * row["coverage"] for row in here], color=shade, label=label)
        axis.axhline(100 * (1 - alpha), color="black", lw=0.8, ls="--")
        axis.set(title=f"{place}: {name}", xlabel="step of the episode", ylim=(-2, 102))
        axis.locator_params(axis="x", integer=True)
    axes[0, 0].set_ylabel("inside, %")
    axes[0, -1].legend(fontsize=8, loc="lower right")
    return figure
