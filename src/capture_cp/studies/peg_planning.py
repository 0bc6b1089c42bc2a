"""The peg planning study: the paper's Table 4, and how often the regions hold in closed loop."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.planning.episode import episode_seeds
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.settings import PlannerSettings
from capture_cp.report.output import output_folder, share_with_interval, write_rows
from capture_cp.studies import paper
from capture_cp.studies.parts import PartStore, run_parts
from capture_cp.studies.peg_rows import OWN_ROWS, ROWS, calibrate, play
from capture_cp.studies.study import Jobs, RecordFolder, RowsFile, Seed, StateFolder, check_settings
from capture_cp.tasks.peg.cspace import REGIMES
from capture_cp.tasks.peg.first_step import Infeasible
from capture_cp.tasks.peg.options import PegOptions
from capture_cp.tasks.peg.planner import MAX_STEPS, PLANNER, PegWeights, closed_loop, peg_planner
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import PARTICLES, Peg, SystemName, peg_tree

#: What does not change an episode.
_UNIMPORTANT = ("methods", "episodes", "device", "jobs", "state", "json", "record", "figures")


@dataclass(frozen=True)
class PegPlanningStudy:
    """Closed-loop planning of the peg insertion: MPPI with the regions of each method, on the true system in MuJoCo.

    Every step plans with the approximate model, looks at the region of the first step of every sampled sequence, executes
    the first action on the true system, and plans again. With the paper's figures beside ours (its Table 4). Rows of our
    own have settings of their own, on as many samples.
    """

    task: Annotated[Literal["peg"], tyro.conf.Suppress] = "peg"
    system: Annotated[SystemName, tyro.conf.arg(help="The true system: the peg on rails, or in a Panda's hand.")] = "planar"
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(ROWS)}.")] = paper.PLANNING_METHODS
    episodes: Annotated[int, tyro.conf.arg(help="Halton starts a method; the paper has 50.")] = 50
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan.")] = 128
    horizon: Annotated[int, tyro.conf.arg(help="Steps of a plan, 1/15 s each.")] = 15
    temperature: Annotated[float, tyro.conf.arg(help="MPPI's lambda, of the paper's methods.")] = 0.1
    spread: Annotated[float, tyro.conf.arg(help="Deviation of sampled actions from the plan, likewise.")] = 1.5
    bound: Annotated[float, tyro.conf.arg(help="Largest action, a component (mm, mm, degrees).")] = 3.0
    width: Annotated[float, tyro.conf.arg(help="Width of the receptacle (mm).")] = inf
    frequency: Annotated[float | None, tyro.conf.arg(help="Of the controller (rad/s), instead of its own.")] = None
    bonuses: Annotated[bool, tyro.conf.arg(help="The Factory suite's bonuses in the insertion cost.")] = False
    infeasible: Annotated[
        Infeasible, tyro.conf.arg(help="What infeasible cells of LUCCa's regions count as in the objective.")
    ] = "outside"
    trim: Annotated[float, tyro.conf.arg(help="By which tubes are cut at both ends (mm).")] = 0.0
    particles: Annotated[int, tyro.conf.arg(help="Particles L.")] = PARTICLES
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    calibration: Annotated[int, tyro.conf.arg(help="Calibration transitions.")] = 70_000
    device: Annotated[
        Device, tyro.conf.arg(help="Where plans are computed: cuda is an NVIDIA GPU, auto takes one if any.")
    ] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    record: RecordFolder = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for figures of trajectories and of plans.")] = None

    def run(self, console: Console) -> None:
        """Run the episodes and print their tables."""
        self.check()
        task, results = self.results(console)
        rows = [self.row(name, found) for name, found in results.items()]
        console.print(self._table(rows))
        console.print(_on_policy_table(rows))
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            by_place = {(str(self.system), name): runs for name, runs in results.items()}
            files = task.drawing().planning_figures(self, {self.system: task}, by_place, output_folder(self.figures))
            console.print(f"Figures: {', '.join(map(str, files))}", markup=False)

    def check(self) -> None:
        """Refuse settings that cannot be worked with."""
        counts = ("episodes", "samples", "horizon", "jobs", "particles", "calibration")
        chosen_device(self.device)
        check_settings(self, counts, (self.figures, self.state, self.record), ROWS)

    def peg(self) -> Peg:
        """The task with this study's choices."""
        settings = PegSettings(bound=self.bound, block_width=1e-3 * self.width, frequency=self.frequency)
        return Peg(settings, self.system, 1e-3 * self.trim, device=self.device)

    def planner_settings(self, name: str) -> PlannerSettings:
        """MPPI's settings of a row with this study's choices."""
        if name in OWN_ROWS:
            return replace(OWN_ROWS[name].planner, horizon=self.horizon, samples=self.samples)
        return replace(PLANNER, horizon=self.horizon, samples=self.samples, temperature=self.temperature)

    def weights(self, name: str) -> PegWeights:
        """The weights of a row's objective with this study's choices."""
        chosen = replace(ROWS[name].weights, bonuses=self.bonuses, infeasible=self.infeasible)
        return chosen if name in OWN_ROWS else replace(chosen, spread=self.spread)

    def results(self, console: Console) -> tuple[Peg, dict[str, list[Any]]]:
        """The task, and every episode of every method: what `_episode` returns."""
        task, results = self.peg(), {}
        starts = task.strata.halton_starts(self.episodes)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("episodes", total=len(self.methods) * self.episodes)
            for name in self.methods:
                progress.update(bar, description=f"{self.system}: {name}")
                store = PartStore(self.state, f"plan-peg-{self.system}-{name}", self._identity(task, name))
                done = store.load()
                missing = [episode for episode in range(self.episodes) if episode not in done]
                progress.advance(bar, self.episodes - len(missing))
                if missing:
                    work = partial(self._episode, *self.calibrated(task, name), name, starts)
                    for episode, result in run_parts(work, missing, self.jobs):
                        done[episode] = result
                        store.add(episode, result)
                        progress.advance(bar)
                results[name] = [done[episode] for episode in range(self.episodes)]
        return task, results

    def _identity(self, task: Peg, name: str) -> dict[str, Any]:
        settings = {key: value for key, value in asdict(self).items() if key not in _UNIMPORTANT}
        made_with = {"peg": repr(task), "tree": repr(peg_tree()), "version": version("capture-cp")}
        own = {"row": repr(ROWS[name])} if name in OWN_ROWS else {}
        if chosen_device(self.device) != "cpu":  # rounding there is another, and an episode may turn on it
            own["device"] = "cuda"
        return settings | made_with | own | {"method": name}

    def calibrated(self, task: Peg, name: str) -> tuple[Capture | HorizonCapture, Peg]:
        """A row's calibration on the task's true system, and the task with the model that plans."""
        return calibrate(ROWS[name], task, self.particles, self.calibration, self.seed)

    def planner(self, cap: Capture | HorizonCapture, task: Peg, name: str, seed: int) -> MPPI:
        """What a row plans with."""
        return peg_planner(cap, task, self.planner_settings(name), self.alpha, seed, self.weights(name), self.device)

    def _episode(self, cap: Capture | HorizonCapture, task: Peg, name: str, starts: Floats, episode: int) -> dict[str, Any]:
        seed, noise_seed = episode_seeds(self.seed, f"peg {self.system}", episode)
        system = closed_loop(task, task.true_system(threads=1), starts[episode])
        chosen = {key: getattr(self, key) for key in ("system", "bound", "width", "trim", "alpha")}
        settled = asdict(self.planner_settings(name)) | asdict(self.weights(name))
        info = {"task": "peg", "method": name, "episode": episode} | chosen | settled
        planner = self.planner(cap, task, name, seed)
        planner.plan(starts[episode])  # compiles what is not yet compiled, so that no plan is timed with it
        run = play(ROWS[name], cap, planner, system, starts[episode], MAX_STEPS, self.alpha, noise_seed, info)
        if self.record is not None:
            run.save(self.record / f"peg-{self.system}-{name}-{episode:03d}.npz")
        labels = task.strata.index(run.states[1:])
        regimes = np.array(task.strata.regimes)[labels]
        return {
            "outcome": run.outcome,
            "steps": run.steps,
            "plan_ms": np.round(run.plan_ms, 2).tolist(),
            "landed": [int((regimes == regime).sum()) for regime in REGIMES],
            "held": [int(run.inside[regimes == regime].sum()) for regime in REGIMES],
            "path": np.round(run.states, 6).tolist(),
        }

    # -- reporting ----------------------------------------------------------------------------------------------------

    def row(self, name: str, episodes: list[Any]) -> dict[str, Any]:
        """The JSON row of a method."""
        n, successes = len(episodes), sum(run["outcome"] == "success" for run in episodes)
        steps = np.array([run["steps"] for run in episodes if run["outcome"] == "success"], float)
        times = np.concatenate([run["plan_ms"] for run in episodes])
        figures = paper.Paper.of(PegOptions).planning(self.system, name)
        return {
            "task": "peg", "map": self.system, "method": name, "episodes": n,
            "success": successes / n, "fell": 0.0, "timed_out": 1 - successes / n,
            "success_ci95": list(clopper_pearson(successes, n)),
            "steps_mean": float(steps.mean()) if len(steps) else None,
            "steps_std": float(steps.std()) if len(steps) else None,
            "steps_median": float(np.median(steps)) if len(steps) else None,
            "plan_ms_median": float(np.median(times)), "plan_ms_p99": float(np.percentile(times, 99)),
            "landed": dict(zip(REGIMES, np.sum([run["landed"] for run in episodes], axis=0).tolist())),
            "held": dict(zip(REGIMES, np.sum([run["held"] for run in episodes], axis=0).tolist())),
            "paper": None if figures is None else list(figures),
        }  # fmt: skip

    def _table(self, rows: list[dict[str, Any]]) -> Table:
        title = f"Peg insertion, {self.system}: per cent of {self.episodes} Halton starts inserted"
        table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("", no_wrap=True)
        for row in rows:
            table.add_column(row["method"], justify="right", no_wrap=True)
        papers = [row["paper"] or (None, None, None) for row in rows]
        table.add_row("success", *(f"{100 * row['success']:.0f}" for row in rows))
        table.add_row("[dim]  95 %[/dim]", *(_interval(row) for row in rows))
        table.add_row("[dim]  paper[/dim]", *("-" if share is None else f"[dim]{share:.0f}[/dim]" for share, *_ in papers))
        table.add_row("steps", *(_spread(row["steps_mean"], row["steps_std"]) for row in rows))
        table.add_row("[dim]  paper[/dim]", *(f"[dim]{_spread(*steps)}[/dim]" for _, *steps in papers))
        table.add_row("[dim]  median[/dim]", *(_plain(row["steps_median"]) for row in rows))
        table.add_row("plan ms", *(f"{row['plan_ms_median']:.0f}" for row in rows))
        table.add_row("[dim]  99 %[/dim]", *(f"[dim]{row['plan_ms_p99']:.0f}[/dim]" for row in rows))
        return table


def _interval(row: dict[str, Any]) -> str:
    low, high = row["success_ci95"]
    return f"[dim]{100 * low:.0f}-{100 * high:.0f}[/dim]"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _spread(mean: float | None, deviation: float | None) -> str:
    return "-" if mean is None else f"{mean:.1f}±{deviation:.1f}"


def _on_policy_table(rows: list[dict[str, Any]]) -> Table:
    caption = (
        "Executed transitions inside their region, per cent. No guarantee applies: the planner chooses the poses,\n"
        "which are not those of the calibration."
    )
    table = Table(title="In closed loop", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("method", "all", *REGIMES):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        held, landed = row["held"], row["landed"]
        pairs = [(sum(held.values()), sum(landed.values())), *((held[regime], landed[regime]) for regime in REGIMES)]
        table.add_row(row["method"], *(share_with_interval(*pair) for pair in pairs))
    return table
