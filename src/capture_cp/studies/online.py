"""The online study on the marble: do regions still hold when the true system changes during an episode?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, known_name, positive_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.capture.online import Adaptive, AdaptiveAlpha, AdaptiveScale
from capture_cp.capture.plotting import pyplot
from capture_cp.conformal.groups import Tree
from capture_cp.report.output import output_folder, write_rows
from capture_cp.studies.online_loop import Change, closed_loop
from capture_cp.studies.online_report import online_figure, online_rows, print_online
from capture_cp.studies.parts import PartStore, run_parts
from capture_cp.studies.study import Jobs, RowsFile, Seed, StateFolder, check_settings
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant
from capture_cp.tasks.marble.planner import PLANNER
from capture_cp.tasks.marble.task import Marble

#: fixed: the calibration as it is; alpha: its failure rate moves; scale: its thresholds; scale-up: they never shrink
Mode = Literal["fixed", "alpha", "scale", "scale-up"]


@dataclass(frozen=True)
class OnlineStudy:
    """The marble in closed loop while its true system changes: fixed regions beside regions that adapt.

    The planner uses the regions as they are at that moment. At a random time, in the middle of an episode, the true gain is
    multiplied; the model and the calibration know nothing of it. Episodes follow each other, and adaptation goes on.
    """

    task: Annotated[Literal["marble"], tyro.conf.Suppress] = "marble"
    maps: Annotated[tuple[str, ...], tyro.conf.arg(help="Names of maps, or .json files of your own.")] = MAP_NAMES
    modes: Annotated[tuple[Mode, ...], tyro.conf.arg(help="How regions adapt.")] = get_args(Mode)
    steps: Annotated[int, tyro.conf.arg(help="Executed steps after the change; up to a fifth as many before.")] = 10_000
    gain: Annotated[float, tyro.conf.arg(help="Factor on the true gain at the change.")] = 1.5
    drag: Annotated[float, tyro.conf.arg(help="Share of its speed that the marble loses at each step from then on.")] = 0.0
    gamma: Annotated[float, tyro.conf.arg(help="Step size of alpha.")] = 0.05
    eta: Annotated[float, tyro.conf.arg(help="Step size of the scale.")] = 0.2
    samples: Annotated[int, tyro.conf.arg(help="Action sequences a plan; the planning study has 4096.")] = 256
    variant: Annotated[bool, tyro.conf.arg(help="Mirrored maps with moved pits, made for choosing settings.")] = False
    alpha: Annotated[float, tyro.conf.arg(help="Failure rate to hold.")] = 0.1
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    json: RowsFile = None
    figures: Annotated[Path | None, tyro.conf.arg(help="Folder for figures of coverage and adaptation over time.")] = None

    def run(self, console: Console) -> None:
        """Run the loops, print their tables."""
        tasks = self.checked_tasks()
        runs = self.results(tasks, console)
        strata = next(iter(tasks.values())).strata.names
        rows = online_rows(runs, strata, self)
        print_online(console, rows, strata, self)
        if self.json is not None:
            write_rows(self.json, rows, self)
        if self.figures is not None:
            for map_name in tasks:
                file = output_folder(self.figures) / f"online-{Path(map_name).stem}.png"
                figure = online_figure({mode: runs[map_name, mode] for mode in self.modes}, strata, self.alpha)
                figure.savefig(file, dpi=120)
                pyplot().close(figure)
                console.print(f"Figure: {file}", markup=False)

    def results(self, tasks: dict[str, Marble], console: Console) -> dict[tuple[str, str], Any]:
        """What happened at every step, by map and mode."""
        names: list[tuple[str, str]] = [(map_name, mode) for map_name in tasks for mode in self.modes]
        store = PartStore(self.state, "online", self._identity(tasks))
        done = store.load()
        missing = [part for part in range(len(names)) if part not in done]
        work = partial(self._part, tasks, names)
        with console.status(f"{len(missing)} runs of {self.steps:,} steps and more"):
            for part, result in run_parts(work, missing, self.jobs):
                done[part] = result
                store.add(part, result)
        return {names[part]: done[part] for part in range(len(names))}

    def checked_tasks(self) -> dict[str, Marble]:
        """The maps by name, all settings checked."""
        check_settings(self, ("steps", "samples", "jobs"), (self.figures, self.state))
        if not self.modes:
            raise CaptureError("no modes are given; name at least one, or leave --modes out.")
        for mode in self.modes:
            known_name("mode", mode, get_args(Mode))
        for name in ("gain", "gamma", "eta"):
            positive_number(name, getattr(self, name))
        if not 0.0 <= self.drag < 1.0:
            raise CaptureError(f"drag is {self.drag}; expected a share of the speed, from 0 up to but without 1.")
        maps = {str(name): load_map(name) for name in self.maps}
        return {name: Marble(tuning_variant(one) if self.variant else one, absorb=True) for name, one in maps.items()}

    def _identity(self, tasks: dict[str, Marble]) -> dict[str, Any]:
        settings = {key: value for key, value in asdict(self).items() if key not in ("jobs", "state", "json", "figures")}
        return settings | {"maps": [asdict(task.map) for task in tasks.values()], "version": version("capture-cp")}

    def _part(self, tasks: dict[str, Marble], names: list[tuple[str, str]], part: int) -> dict[str, Any]:
        map_name, mode = names[part]
        task = tasks[map_name]
        seed = derived_seed(self.seed, "marble", task.map.name)  # two maps share no random numbers
        data = task.design_transitions("grid", 2, stream(seed, "calibration"))
        cap = method("capture", task, task.strata, tree=Tree(per_stratum=False), seed=seed).fit(data.X, data.Y)
        step = int(stream(seed, "change").integers(self.steps // 10, self.steps // 5 + 1))
        change = Change(step, self.gain, self.drag)
        adaptive, settings = self._adaptive(mode, cap, task), replace(PLANNER, samples=self.samples)
        loop = closed_loop(task, cap, adaptive, settings, change, step + self.steps, self.alpha, self.seed)
        return {"change": step, **loop}

    def _adaptive(self, mode: str, cap: Capture, task: Marble) -> Adaptive | None:
        if mode == "fixed":
            return None
        if mode == "alpha":
            return AdaptiveAlpha(cap, self.alpha, self.gamma)
        cell = float(task.strata.require_grid().spacing[0])
        return AdaptiveScale(cap, self.alpha, self.eta, floor=cell, never_smaller=mode == "scale-up")
