"""Rows of a planning table: how each row plans, fitted to a task and played in closed loop.

Some practise: the regions of their executed steps are calibrated on closed-loop runs of their planner. The regions in the
planner's cost stay the same, so practice does not change its behaviour. New runs are then exchangeable with the practice
runs: in a stratum that one visits, a random one of its steps there lies in its region with probability at least 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.adaptive import AdaptiveScale
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import OneGroup, PerStratum, Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.parts import run_parts
from capture_cp.data.rollouts import executed
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.batch import run_episodes
from capture_cp.planning.episode import Episode, run_episode, with_regions
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.settings import PlannerSettings

if TYPE_CHECKING:
    from capture_lab.tasks.task import Advance, Task

#: Step size of rows that adapt online: large, since an episode has a few dozen steps.
RATE = 0.5
#: Runs of practice: enough for a finite threshold in a stratum with one step in fifty.
PRACTICE = 500
#: Runs planned at once on a GPU; they need about half a gigabyte.
TOGETHER = 1000


@dataclass(frozen=True)
class Row:
    """How a row of the planning table plans.

    Attributes:
        method: method of its one-step calibration.
        planner: settings of MPPI.
        weights: weights of the task's objective, a dataclass of the task; None if it has none.
        horizon: whether regions are calibrated for each step of the horizon, instead of one-step regions applied along it.
        online: whether thresholds adapt during the episode.
        corrected: whether the model's bias is corrected by separate transitions.
        oracle: whether the true system is the model, an upper limit for planning.
        practice: closed-loop runs on which the regions of executed steps are calibrated, see `practised`;
            0 uses the regions of the planner's cost.
    """

    method: str
    planner: PlannerSettings
    weights: Any = None
    horizon: bool = False
    online: bool = False
    corrected: bool = False
    oracle: bool = False
    practice: int = 0

    def changed(self, planner: dict[str, Any], weights: Any = None) -> Row:
        """The row with other settings; a value of None, or a switch that is off, keeps the row's own."""
        chosen = {} if weights is None else {entry.name: getattr(weights, entry.name) for entry in fields(weights)}
        kept = {name: value for name, value in chosen.items() if value is not None and value is not False}
        settings = {name: value for name, value in planner.items() if value is not None}
        return replace(
            self,
            planner=replace(self.planner, **settings),
            weights=replace(self.weights, **kept) if kept else self.weights,
        )


Plan = tuple[PlannerSettings, Any]  #: settings of the planner, weights of the objective


def planning_rows(
    plan: Plan, own: Plan | None = None, corrected: Plan | None = None, oracle: bool = False
) -> dict[str, Row]:
    """The rows of a task's planning table.

    The six methods, and CaPTURe with regions of executed steps calibrated in closed loop; then, planned as in `own`, with
    regions for each step of the horizon, and with regions that adapt. With `corrected`, all of CaPTURe's and their
    baselines again, with a corrected model; with `oracle`, uncalibrated particles of the true system.
    """

    def with_ours(rows: dict[str, Row], own: Plan) -> dict[str, Row]:
        capture = Row("capture", *own)
        rows["capture-on-policy"] = replace(rows["capture"], practice=PRACTICE)
        return rows | {"capture-horizon": replace(capture, horizon=True), "capture-online": replace(capture, online=True)}

    rows = with_ours({name: Row(name, *plan) for name in METHODS}, own or plan)
    if corrected is not None:
        names = "capture", "particles", "pcp", "no-strata"
        again = with_ours({name: Row(name, *corrected) for name in names}, corrected)
        rows |= {f"{name}-residual": replace(row, corrected=True) for name, row in again.items()}
    if oracle:
        rows["particles-oracle"] = Row("particles", *(corrected or plan), oracle=True)
    return rows


def weight_options(weights: type[Any]) -> type[Any]:
    """A dataclass of the weights' fields as options: None, or off, keeps each row's own."""
    kinds = get_type_hints(weights, include_extras=True)
    entries: list[Any] = [
        (entry.name, bool, False) if kinds[entry.name] is bool else (entry.name, kinds[entry.name] | None, None)
        for entry in fields(weights)
    ]
    about = {"__doc__": weights.__doc__, "__module__": weights.__module__}
    return make_dataclass(f"{weights.__name__}Options", entries, frozen=True, namespace=about)


@dataclass(frozen=True)
class FittedRow:
    """A row calibrated in one place.

    Attributes:
        row: how it plans.
        task: the task, with the model that plans.
        cap: the calibration of the regions in the planner's cost.
        promise: the calibration of executed steps if the row has practised; None if it is the same.
    """

    row: Row
    task: Task
    cap: Fitted
    promise: Capture | None = None

    @property
    def executed(self) -> Fitted:
        """The calibration of the regions of executed steps."""
        return self.cap if self.promise is None else self.promise

    def planner(self, alpha: float = 0.1, seed: int = 0, device: Device = "cpu") -> MPPI:
        """The row's planner."""
        return self.task.planner(self.cap, self.row.planner, self.row.weights, alpha, seed, device)

    def play(
        self,
        starts: Floats,
        alpha: float,
        seeds: Sequence[tuple[int, int]],
        device: Device = "cpu",
        jobs: int = 1,
        regions: bool = True,
    ) -> Iterator[Episode]:
        """Closed-loop runs from states (n, ds), in order, with the regions of their executed steps; see `episode_seeds`.

        On a GPU many are planned together, where the true systems can be batched and nothing adapts; otherwise they are
        played one by one, on `jobs` processes. Without `regions` runs are neither given regions nor timed.
        """
        systems = None if self.row.online or chosen_device(device) == "cpu" else self.task.closed_loops()
        if systems is None:
            work = partial(self._play_one, alpha, device, regions)
            yield from (run for _, run in run_parts(work, list(zip(starts, seeds)), jobs))
            return
        planner = self.planner(alpha, 0, device)
        for first in range(0, len(seeds), TOGETHER):
            some = slice(first, first + TOGETHER)
            planner_seeds, noise_seeds = zip(*seeds[some])
            runs = run_episodes(planner, systems, starts[some], self.task.max_steps, planner_seeds, noise_seeds)
            yield from with_regions(runs, self.executed, self.task.axes, alpha, noise_seeds[0]) if regions else runs

    def _play_one(self, alpha: float, device: Device, regions: bool, begin: tuple[Floats, tuple[int, int]]) -> Episode:
        """One closed-loop run from a state (ds,)."""
        start, (seed, noise_seed) = begin
        planner, system, axes = self.planner(alpha, seed, device), self.task.closed_loop(start), self.task.axes
        if regions:
            planner.plan(start)  # compile first, so that compilation is not timed
        if not self.row.online:
            run = run_episode(planner, system, start, self.task.max_steps, noise_seed)
            return run.with_regions(self.executed, axes, alpha, noise_seed) if regions else run
        cap = self._one_step()
        adaptive = AdaptiveScale(cap, alpha, eta=RATE, floor=self.task.cell, never_smaller=True)
        adapting = Adapting(system, axes, stream(noise_seed, "adapting"), adaptive)
        adapting.guide(planner.checked_rollout(), now=self.task.adapts_at_once)
        run = run_episode(planner, adapting, start, self.task.max_steps, noise_seed)
        run = run.with_regions(cap, axes, alpha, noise_seed)
        return replace(run, inside=np.array(adapting.held, dtype=bool), thresholds=np.array(adapting.thresholds))

    def _one_step(self) -> Capture:
        if isinstance(self.cap, Capture):
            return self.cap
        raise CaptureError("regions of a horizon cannot adapt online; use a row with one-step regions.")


def fit_row(
    row: Row,
    task: Task,
    seed: int,
    particles: int | None = None,
    tree: Tree | None = None,
    k: int | None = None,
    calibration: float = 1.0,
) -> FittedRow:
    """A row, fitted to calibration transitions or rollouts of a task.

    `particles`, `tree` and `k` are by default the task's. `calibration` up to 1 is a fraction of the data, above 1 their
    number.
    """
    planned = task.oracle() if row.oracle else task.corrected(seed) if row.corrected else task
    particles, tree, here = particles or task.particles, tree or task.tree, task.seed_here(seed)
    if not row.horizon:
        data = task.calibration(seed, part_of(task.calibration_size, calibration))
        return acting_row(row, planned, planned.method(row.method, particles, tree, here, k).fit(data.X, data.Y))
    steps, n = task.region_steps or row.planner.horizon, part_of(task.calibration_rollouts, calibration)
    rollouts = task.rollouts(seed, "rollouts", n, steps)
    score = NearestParticles(k or max(1, particles // 2), task.metric)
    trees = Tree(**(tree.get_params(deep=False) | {"per_stratum": True}))
    ahead = HorizonCapture(planned.model_step, task.strata, task.axes, score, trees, particles, here)
    ahead.fit(rollouts).step = planned.in_closed_loop.model_step
    return FittedRow(row, planned.in_closed_loop, ahead)


def acting_row(row: Row, task: Task, cap: Capture) -> FittedRow:
    """A row with its calibration, whose model is used in closed loop from now on."""
    cap.model = task.in_closed_loop
    return FittedRow(row, task.in_closed_loop, cap)


def part_of(size: int, calibration: float) -> int:
    """How many of `size` calibration data are used: a fraction of them up to 1, or a number."""
    if not calibration > 0 or (calibration > 1 and calibration != int(calibration)):
        raise CaptureError(
            f"calibration is {calibration:g}; expected a fraction of the data above 0 and up to 1, or a whole number."
        )
    return max(1, round(calibration * size)) if calibration <= 1 else int(calibration)


# -- practice -------------------------------------------------------------------------------------------------------------


def practised(
    fitted: FittedRow,
    task: Task,
    alpha: float = 0.1,
    seed: int = 0,
    device: Device = "cpu",
    advance: Advance | None = None,
) -> FittedRow:
    """A row whose regions of executed steps are calibrated on `row.practice` runs of its planner.

    `task` is the task that the row was fitted to. Nothing is played if a saved calibration exists, see `Task.practice_file`.
    """
    if not isinstance(fitted.cap, Capture):
        raise CaptureError("executed steps calibrate one-step regions; use a row without regions for a horizon.")
    ready = ready_promise(fitted, task, seed) if alpha == 0.1 else None
    if ready is not None:
        return replace(fitted, promise=ready)
    seeds = [derived_seed(seed, "practice", fitted.task.place, run) for run in range(fitted.row.practice)]
    runs = []
    for run in fitted.play(fitted.task.starts(len(seeds)), alpha, list(zip(seeds, seeds)), device, regions=False):
        runs.append(run)
        if advance is not None:
            advance(1)
    return replace(fitted, promise=on_episodes(fitted.task, fitted.cap, runs))


def ready_promise(fitted: FittedRow, task: Task, seed: int) -> Capture | None:
    """The saved calibration on practice runs of exactly this row, fitted to `task`, at alpha = 0.1; None if missing."""
    cap, file = fitted.cap, task.practice_file(fitted.row)
    if file is None or seed != 0 or cap.groups != task.tree or cap.data_["rows"] != task.calibration_size:
        return None
    promise = Capture.load(file, model=fitted.task, strata=task.strata)
    return promise if (promise.score_, promise.n_particles) == (cap.score_, cap.n_particles) else None


def on_episodes(task: Task, like: Capture, runs: Sequence[Episode]) -> Capture:
    """The method `like`, calibrated on the executed steps of whole episodes, which are too few for a tree.

    The tree is replaced by one threshold per stratum, or by a single one if the method ignores strata.
    """
    groups, rows = like.groups_, executed(runs, task.axes)
    if isinstance(groups, Tree):
        groups = OneGroup() if groups.stratum_input == "none" else PerStratum()
    cap = Capture(**(like.get_params(deep=False) | {"model": task, "groups": groups}))
    return cap.fit(rows.X, rows.Y, episodes=rows.episodes)
