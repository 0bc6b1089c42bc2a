"""On-policy calibration on the marble: how often regions hold where the planner goes, round after round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import whole_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.online import Round, executed, on_policy_rounds
from capture_cp.capture.plotting import pyplot
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.conformal.groups import Tree
from capture_cp.planning.episode import Episode, run_episode
from capture_cp.report.output import output_folder, write_rows
from capture_cp.studies.parts import run_parts
from capture_cp.studies.planning_rows import MAX_STEPS
from capture_cp.studies.study import Jobs, RowsFile, Seed, check_settings
from capture_cp.tasks.marble.maps import load_map, tuning_variant
from capture_cp.tasks.marble.planner import PLANNER, POSITION, marble_planner, start_state, true_system
from capture_cp.tasks.marble.task import Marble

#: Steps of the episode from here on are shown together with those before the next.
STEP_BINS = (1, 4, 8, 12, 16, 24)


@dataclass(frozen=True)
class RoundsStudy:
    """On-policy coverage of the marble's planner, by stratum and step; then calibration on its own episodes, in rounds.

    Round 0 is calibrated on the paper's grid of states. Every later round is calibrated on the episodes of the round before,
    with whole episodes as the unit, and measured on fresh ones. `--rounds 0` only measures.
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = (
        "bottom-left", "center-right", "top-center",
    )  # fmt: skip
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(METHODS)}.")] = ("capture",)
    rounds: Annotated[int, tyro.conf.arg(help="Recalibrations.")] = 3
    episodes: Annotated[int, tyro.conf.arg(help="Episodes a round, to fit the next calibration to.")] = 80
    checks: Annotated[int, tyro.conf.arg(help="Further episodes a round, to measure what is promised.")] = 30
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan; the planning study has 4096.")] = 1024
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, made for choosing settings.")] = False
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    jobs: Jobs = 1
    seed: Seed = 0
    json: RowsFile = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for a figure of coverage by step.")] = None

    def run(self, console: Console) -> None:
        """Play the rounds, print their coverage."""
        tasks = self._checked()
        found: dict[tuple[str, str], list[Round[Episode]]] = {}
        for map_name, task in tasks.items():
            for name in self.methods:
                with console.status(f"{task.map.name}: {name}, {self.rounds} rounds"):
                    found[map_name, name] = self._rounds(task, name)
                console.print(self._table(map_name, name, found[map_name, name]))
                console.print(self._steps_table(map_name, name, found[map_name, name]))
        rows = [row for (map_name, name), rounds in found.items() for row in _rows(map_name, name, rounds)]
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            file = output_folder(self.figures) / "on-policy-rounds.png"
            figure = rounds_figure(rows, self.alpha)
            figure.savefig(file, dpi=120)
            pyplot().close(figure)
            console.print(f"Figure: {file}", markup=False)

    def _checked(self) -> dict[str, Marble]:
        check_settings(self, ("episodes", "samples", "jobs"), (self.figures,))
        whole_number("rounds", self.rounds, 0)
        whole_number("checks", self.checks, 0)
        maps = {str(name): load_map(name) for name in self.maps}
        return {name: Marble(tuning_variant(one) if self.variant else one, absorb=True) for name, one in maps.items()}

    def _rounds(self, task: Marble, name: str) -> list[Round[Episode]]:
        seed = derived_seed(self.seed, "marble", task.map.name)  # two maps share no random numbers
        data = task.design_transitions("grid", 2, stream(seed, "calibration"))
        grid = method(name, task, task.strata, tree=Tree(per_stratum=False), seed=seed).fit(data.X, data.Y)

        def fit(episodes: Sequence[Episode]) -> Capture:
            rows = executed(episodes, POSITION)
            # some thousand steps at most: few leaves, most episodes left for the thresholds, and a promise by stratum
            tree = Tree(partition_share=0.3, min_leaf=100)
            cap = method(name, task, task.strata, tree=tree, seed=seed)
            return cap.fit(rows.X, rows.Y, groups=rows.episodes)

        play = partial(self._play, task)
        return on_policy_rounds(grid, play, fit, POSITION, self.rounds, self.episodes, self.checks, self.alpha, seed)

    def _play(self, task: Marble, cap: Capture, seeds: list[int]) -> list[Episode]:
        work = partial(self._episode, task, cap, seeds)
        return [run for _, run in run_parts(work, range(len(seeds)), self.jobs)]

    def _episode(self, task: Marble, cap: Capture, seeds: list[int], part: int) -> Episode:
        seed = seeds[part]
        planner = marble_planner(cap, task, replace(PLANNER, samples=self.samples), self.alpha, seed)
        return run_episode(planner, true_system(task), start_state(task), MAX_STEPS, seed)

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _table(self, map_name: str, name: str, rounds: list[Round[Episode]]) -> Table:
        caption = (
            "Executed steps inside their region, per cent, every episode counted once, with 95 % intervals.\n"
            "in use: in fresh episodes played with this calibration. promised: in those of the planner that gave its data."
        )
        title = f"{map_name}: {name}"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        names = [row.name for row in rounds[0].in_use]
        for column in ("round", "", *names, "success"):
            table.add_column(column, justify="left" if column in ("round", "") else "right")
        for number, one in enumerate(rounds):
            success = np.mean([run.outcome == "success" for run in one.episodes])
            label = f"{number}, grid" if number == 0 else str(number)
            if one.promised is not None:
                table.add_row(label, "promised", *(_cell(row) for row in one.promised), "")
                label = ""
            table.add_row(label, "in use", *(_cell(row) for row in one.in_use), f"{100 * success:.0f}")
        return table

    def _steps_table(self, map_name: str, name: str, rounds: list[Round[Episode]]) -> Table:
        table = Table(title=f"{map_name}: {name}, in use, by step of the episode", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("round")
        for label, _ in _binned(rounds[0].in_use.steps):
            table.add_column(label, justify="right")
        for number, one in enumerate(rounds):
            table.add_row(str(number), *(_plain(held, n) for _, (held, n) in _binned(one.in_use.steps)))
        return table


def _binned(steps: Sequence[Coverage]) -> Iterator[tuple[str, tuple[float, int]]]:
    """Hits and steps between the bounds of `STEP_BINS`, with what to call them."""
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


def _rows(map_name: str, name: str, rounds: list[Round[Episode]]) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(rounds):
        labels = {"task": "marble", "map": map_name, "method": name, "round": number}
        yield from one.in_use.rows(**labels, kind="in use")
        if one.promised is not None:
            yield from one.promised.rows(**labels, kind="promised")
        for step, coverage in enumerate(one.in_use.steps, start=1):
            yield from coverage.rows(**labels, kind="in use", step=step)


def rounds_figure(rows: Sequence[dict[str, Any]], alpha: float) -> Any:
    """Coverage against the step of the episode, a line a round, a panel a map and method: from JSON rows."""
    plt = pyplot()
    steps = [row for row in rows if "step" in row and row["stratum"] == "all"]
    panels = list(dict.fromkeys((row["map"], row["method"]) for row in steps))
    rounds = max(row["round"] for row in steps) + 1
    shape = {"figsize": (3.4 * len(panels), 3.0), "squeeze": False, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(1, len(panels), **shape)
    for axis, (map_name, name) in zip(axes[0], panels):
        for number in range(rounds):
            here = [row for row in steps if (row["map"], row["method"], row["round"]) == (map_name, name, number)]
            # a step that few episodes reach says little
            here = [row for row in here if row["n"] >= max(10, here[0]["n"] // 3)]
            shade = plt.get_cmap("viridis")(0.85 * number / max(rounds - 1, 1))
            label = "round 0, grid" if number == 0 else f"round {number}"
            axis.plot([row["step"] for row in here], [100 * row["coverage"] for row in here], color=shade, label=label)
        axis.axhline(100 * (1 - alpha), color="black", lw=0.8, ls="--")
        axis.set(title=f"{map_name}: {name}", xlabel="step of the episode", ylim=(-2, 102))
        axis.locator_params(axis="x", integer=True)
    axes[0, 0].set_ylabel("inside, %")
    axes[0, -1].legend(fontsize=8, loc="lower right")
    return figure
