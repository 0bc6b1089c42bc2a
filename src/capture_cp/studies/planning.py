"""The marble planning study: the paper's Table 2, and how often the regions hold in closed loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.planning.episode import Episode, episode_seeds
from capture_cp.planning.settings import PlannerSettings
from capture_cp.report.output import beside, output_folder, share_with_interval, write_rows
from capture_cp.studies import paper
from capture_cp.studies.parts import PartStore, run_parts
from capture_cp.studies.planning_rows import ROWS, Calibration, calibrate, play, play_together
from capture_cp.studies.planning_summary import planning_row, summary
from capture_cp.studies.study import Jobs, RecordFolder, RowsFile, Seed, StateFolder, check_settings
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.marble.task import Marble

TOGETHER = 1000  # episodes planned at once on a GPU, about half a gigabyte there


@dataclass(frozen=True)
class PlanningStudy:
    """Closed-loop planning on the marble labyrinth: MPPI with the regions of each method, on the true system.

    Every step plans with the approximate model, builds a region for every sampled step and counts its pit cells, executes
    the first action on the true marble, and plans again. With the paper's figures beside ours (its Table 2).
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = MAP_NAMES
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help=f"Any of: {', '.join(ROWS)}.")] = paper.PLANNING_METHODS
    episodes: Annotated[int, tyro.conf.arg(help="Runs a map and method; the paper has 30.")] = 30
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan.")] = 4096
    horizon: Annotated[int, tyro.conf.arg(help="Steps of a plan, 0.1 s each.")] = 6
    temperature: Annotated[
        float | None,
        tyro.conf.arg(help="MPPI's lambda, as a share of what standing still costs; as settled for each row unless given."),
    ] = None
    max_leaves: Annotated[int | None, tyro.conf.arg(help="Most leaves of the calibration's tree.")] = 20
    particles: Annotated[int, tyro.conf.arg(help="Particles L.")] = 16
    k: Annotated[int | None, tyro.conf.arg(help="Neighbour that counts, L/2 unless given.")] = None
    calibration: Annotated[float, tyro.conf.arg(help="Share of the calibration data that is used.")] = 1.0
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate of the regions.")] = 0.1
    model_gain: Annotated[float, tyro.conf.arg(help="Acceleration the planner believes in; the truth is 2.")] = 1.0
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, made for choosing settings.")] = False
    device: Annotated[
        Device,
        tyro.conf.arg(help="Where plans are made: cuda is an NVIDIA GPU, for all episodes of a row at once."),
    ] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    record: RecordFolder = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for a figure of all trajectories.")] = None

    def run(self, console: Console) -> None:
        """Run the episodes and print their tables."""
        tasks = self.checked_tasks()
        results = self.results(tasks, console)
        rows = [self.row(map_name, name, found) for (map_name, name), found in results.items()]
        for map_name, task in tasks.items():
            console.print(self.table(task.map.name, [row for row in rows if row["map"] == map_name]))
        console.print(self._summary(rows))
        console.print(self._on_policy_table(rows))
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            files = next(iter(tasks.values())).drawing().planning_figures(self, tasks, results, output_folder(self.figures))
            console.print(f"Figures: {', '.join(map(str, files))}", markup=False)

    def checked_tasks(self) -> dict[str, Marble]:
        """The maps by name, all settings checked."""
        chosen_device(self.device)
        counts = ("episodes", "samples", "horizon", "jobs", "particles")
        check_settings(self, counts, (self.figures, self.state, self.record), ROWS)
        if self.k is not None and whole_number("k", self.k, 1) > self.particles:
            raise CaptureError(f"k is {self.k}; expected a number from 1 to the {self.particles} particles.")
        if not 0 < self.calibration <= 1:
            raise CaptureError(f"calibration is {self.calibration:g}; expected a share of the data above 0 and up to 1.")
        maps = {str(name): load_map(name) for name in self.maps}
        maps = {name: tuning_variant(found) if self.variant else found for name, found in maps.items()}
        return {name: Marble(found, absorb=True, model_gain=self.model_gain) for name, found in maps.items()}

    def results(self, tasks: dict[str, Marble], console: Console) -> dict[tuple[str, str], list[Any]]:
        """The summaries of every episode by map and method."""
        results: dict[tuple[str, str], list[Any]] = {}
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("episodes", total=len(tasks) * len(self.methods) * self.episodes)
            for map_name, task in tasks.items():
                for name in self.methods:
                    progress.update(bar, description=f"{task.map.name}: {name}")
                    store = PartStore(self.state, f"plan-{Path(map_name).stem}-{name}", self._identity(task, name))
                    done = store.load()
                    missing = [episode for episode in range(self.episodes) if episode not in done]
                    progress.advance(bar, self.episodes - len(missing))
                    if missing:
                        for episode, result in self._episodes(self.calibrate(task, name), task, map_name, name, missing):
                            done[episode] = result
                            store.add(episode, result)
                            progress.advance(bar)
                    results[map_name, name] = [done[episode] for episode in range(self.episodes)]
        return results

    def _identity(self, task: Marble, name: str) -> dict[str, Any]:
        unimportant = ("maps", "methods", "episodes", "device", "jobs", "state", "json", "record", "figures")
        settings = {key: value for key, value in asdict(self).items() if key not in unimportant}
        if chosen_device(self.device) != "cpu":  # other random numbers, so other episodes
            settings["device"] = "cuda"
        made_with = {"row": repr(ROWS[name]), "version": version("capture-cp")}
        return settings | made_with | {"map": asdict(task.map), "method": name}

    def calibrate(self, task: Marble, name: str) -> Calibration:
        """A row of the table, fitted on this map."""
        chosen = self.particles, self.max_leaves, self.horizon, self.seed, self.k, self.calibration
        return calibrate(ROWS[name], task, *chosen)

    def _episodes(
        self, found: Calibration, task: Marble, map_name: str, name: str, wanted: list[int]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Summaries of episodes by their numbers: all at once on a GPU, unless the row adapts online; else one by one."""
        if chosen_device(self.device) == "cpu" or found.row.online:
            yield from run_parts(partial(self._episode, found, task, map_name, name), wanted, self.jobs)
            return
        for first in range(0, len(wanted), TOGETHER):
            some = wanted[first : first + TOGETHER]
            seeds, noise_seeds = zip(*(episode_seeds(self.seed, task.map.name, episode) for episode in some))
            info = self._info(found, map_name, name)
            runs = play_together(found, self._planner_settings(found), self.alpha, seeds, noise_seeds, info)
            for episode, run in zip(some, runs):
                yield episode, self._kept(replace(run, info=info | {"episode": episode}), task, map_name, name, episode)

    def _episode(self, found: Calibration, task: Marble, map_name: str, name: str, episode: int) -> dict[str, Any]:
        return self._kept(self.play(found, map_name, name, episode), task, map_name, name, episode)

    def _kept(self, run: Episode, task: Marble, map_name: str, name: str, episode: int) -> dict[str, Any]:
        if self.record is not None:
            run.save(self.record / f"{Path(map_name).stem}-{name}-{episode:03d}.npz")
        return summary(run, task)

    def play(self, found: Calibration, map_name: str, name: str, episode: int) -> Episode:
        """One closed-loop run with a calibrated row, and the regions of its executed steps."""
        info = self._info(found, map_name, name) | {"episode": episode}
        seeds = episode_seeds(self.seed, found.task.map.name, episode)
        return play(found, self._planner_settings(found), self.alpha, *seeds, info, self.device)

    def _planner_settings(self, found: Calibration) -> PlannerSettings:
        settled = found.row.planner
        temperature = settled.temperature if self.temperature is None else self.temperature
        return replace(settled, horizon=self.horizon, samples=self.samples, temperature=temperature)

    def _info(self, found: Calibration, map_name: str, name: str) -> dict[str, Any]:
        believed = {"model_gain": self.model_gain, "correction": found.task.correction}
        chosen = {"variant": self.variant, "alpha": self.alpha} | believed
        return {"task": "marble", "map": map_name, "method": name} | chosen | self._settled(found)

    def _settled(self, found: Calibration) -> dict[str, Any]:
        return asdict(self._planner_settings(found)) | asdict(found.row.weights)

    # -- reporting ----------------------------------------------------------------------------------------------------

    def row(self, map_name: str, name: str, episodes: list[Any]) -> dict[str, Any]:
        """The JSON row of a map and method, from the summaries of its episodes."""
        figures = None if self.variant else paper.Paper.of(MarbleOptions).planning(map_name, name)
        return planning_row(map_name, name, episodes) | {"paper": None if figures is None else list(figures)}

    def table(self, title: str, rows: list[dict[str, Any]]) -> Table:
        """The rows of one map as a table, the paper's figures in brackets."""
        table = Table(title=f"{title}: {self.episodes} episodes", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("%")
        for row in rows:
            table.add_column(row["method"], justify="right")
        for i, key in enumerate(("success", "fell", "timed_out")):
            table.add_row(key.replace("_", " "), *(beside(f"{100 * row[key]:.0f}", row["paper"], i, ".0f") for row in rows))
        intervals = [f"[dim]{100 * row['success_ci95'][0]:.0f}-{100 * row['success_ci95'][1]:.0f}[/dim]" for row in rows]
        table.add_row("[dim]success, 95 %[/dim]", *intervals)
        steps = ["-" if row["steps_mean"] is None else f"{row['steps_mean']:.1f}" for row in rows]
        table.add_row("mean steps", *(beside(text, row["paper"], 3, ".1f") for text, row in zip(steps, rows)))
        table.add_row("plan (ms)", *(f"{row['plan_ms_median']:.0f}" for row in rows))
        return table

    def _summary(self, rows: list[dict[str, Any]]) -> Table:
        title = "Mean success over maps (the paper's in brackets)"
        table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
        cells = []
        for name in self.methods:
            table.add_column(name, justify="right")
            own = [row for row in rows if row["method"] == name]
            theirs = [row["paper"][0] for row in own if row["paper"] is not None]
            mean = [float(np.mean(theirs))] if len(theirs) == len(own) else None
            cells.append(beside(f"{100 * np.mean([row['success'] for row in own]):.0f}", mean, 0, ".0f"))
        table.add_row(*cells)
        return table

    def _on_policy_table(self, rows: list[dict[str, Any]]) -> Table:
        caption = (
            "Executed transitions inside their first-step region, per cent. No guarantee applies: the planner chooses the\n"
            "states, which are not those of the calibration grid."
        )
        table = Table(title="In closed loop", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("method")
        for column in ("all", "free", "edge", "corner"):
            table.add_column(column, justify="right")
        for name in self.methods:
            landed = np.sum([row["landed"] for row in rows if row["method"] == name], axis=0)
            held = np.sum([row["held"] for row in rows if row["method"] == name], axis=0)
            pairs = [(held.sum(), landed.sum()), *zip(held, landed)]
            table.add_row(name, *(share_with_interval(int(h), int(t)) for h, t in pairs))
        return table
