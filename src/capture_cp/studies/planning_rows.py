"""The rows of the marble's planning table: the paper's six methods, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.adaptive import AdaptiveScale
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.methods import METHODS, method
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.cuda.device import Device
from capture_cp.planning.batch import run_episodes
from capture_cp.planning.episode import Episode, System, run_episode, with_regions
from capture_cp.planning.mppi import MPPI
from capture_cp.tasks.marble.corrected import corrected
from capture_cp.tasks.marble.planner import (
    POSITION,
    OnTheBoard,
    PlannerSettings,
    marble_planner,
    start_state,
    true_system,
    true_systems,
)
from capture_cp.tasks.marble.rollouts import marble_rollouts
from capture_cp.tasks.marble.task import Marble

MAX_STEPS = 100
TRAINING = 20_000  # transitions that correct the model
ROLLOUTS = 20_000  # roll-outs that calibrate a horizon
#: How online adaptation turns its dials: quickly, since an episode has some fifteen steps; a cell of the grid is the floor.
RATE, FLOOR = 0.5, 1e-3


PAPERS = PlannerSettings()
#: Chosen on mirrored maps with moved pits, for the row that has everything. Rows on the model as it is keep the paper's, so
#: that only their regions differ from `capture`.
OURS = PlannerSettings(temperature=0.02, elites=31, count_particles=True)


@dataclass(frozen=True)
class Row:
    """How a row of the table plans.

    Attributes:
        method: recipe of its one-step calibration.
        horizon: regions calibrated for each step of the horizon, instead of one-step regions all along it.
        online: thresholds that adapt during the episode.
        corrected: a model whose bias was learnt away from transitions of its own.
        planner: MPPI's settings.
    """

    method: str
    horizon: bool = False
    online: bool = False
    corrected: bool = False
    planner: PlannerSettings = PAPERS


OWN_ROWS: dict[str, Row] = {
    "capture-horizon": Row("capture", horizon=True),
    "capture-online": Row("capture", online=True),
    "capture-residual": Row("capture", corrected=True, planner=OURS),
    "capture-online-residual": Row("capture", online=True, corrected=True, planner=OURS),
    "capture-horizon-residual": Row("capture", horizon=True, corrected=True, planner=OURS),
}
ROWS: Mapping[str, Row] = {name: Row(name) for name in METHODS} | OWN_ROWS


@dataclass(frozen=True)
class Calibration:
    """A row's calibration on one map, and the task with the model that plans."""

    row: Row
    task: Marble
    cap: Fitted


def calibrate(
    row: Row,
    task: Marble,
    particles: int,
    max_leaves: int | None,
    horizon: int,
    seed: int,
    k: int | None = None,
    share: float = 1.0,
) -> Calibration:
    """The row, fitted to the paper's grid of transitions of this map, or to roll-outs of it, or to a share of them."""
    seed = derived_seed(seed, "marble", task.map.name)  # two maps share no random numbers
    if row.corrected:
        task = corrected(task, TRAINING, stream(seed, "training"))
    if row.horizon:
        rollouts = marble_rollouts(task, _part(ROLLOUTS, share), horizon, stream(seed, "roll-outs"))
        score, groups = None if k is None else NearestParticles(k), Tree(max_leaves=max_leaves)
        ahead = HorizonCapture(task.model_step, task.strata, POSITION, score, groups, n_particles=particles, seed=seed)
        return Calibration(row, task, ahead.fit(rollouts))
    data = task.design_transitions("grid", 2, stream(seed, "calibration"))
    tree = Tree(per_stratum=False, max_leaves=max_leaves)
    cap = method(row.method, task, task.strata, n_particles=particles, k=k, tree=tree, seed=seed)
    drawn = stream(seed, "subsets").permutation(len(data.X))[: _part(len(data.X), share)]
    kept = np.sort(drawn)  # in their order, so that all of them are the data as they were
    return Calibration(row, task, cap.fit(data.X[kept], data.Y[kept]))


def _part(n: int, share: float) -> int:
    return max(1, round(share * n))


def play(
    found: Calibration,
    settings: PlannerSettings,
    alpha: float,
    seed: int,
    noise_seed: int,
    info: dict[str, Any],
    device: Device = "cpu",
) -> Episode:
    """One closed-loop run, and the regions of its executed steps."""
    planner = marble_planner(found.cap, found.task, settings, alpha, seed, device=device)
    system = true_system(found.task)
    if not found.row.online:
        run = run_episode(planner, system, start_state(found.task), MAX_STEPS, noise_seed, info)
        return run.with_regions(found.cap, POSITION, alpha, noise_seed)
    assert isinstance(found.cap, Capture)
    adapting = _Adapting(found.cap, planner, system, alpha, stream(noise_seed, "adapting"))
    run = run_episode(planner, adapting, start_state(found.task), MAX_STEPS, noise_seed, info)
    run = run.with_regions(found.cap, POSITION, alpha, noise_seed)
    return replace(run, inside=adapting.inside, thresholds=np.array(adapting.thresholds))


def play_together(
    found: Calibration,
    settings: PlannerSettings,
    alpha: float,
    seeds: Sequence[int],
    noise_seeds: Sequence[int],
    info: dict[str, Any],
) -> list[Episode]:
    """Many closed-loop runs at once on a GPU, and the regions of their executed steps; not for rows that adapt online."""
    planner = marble_planner(found.cap, found.task, settings, alpha, 0, device="cuda")
    starts = np.tile(start_state(found.task), (len(seeds), 1))
    runs = run_episodes(planner, true_systems(found.task), starts, MAX_STEPS, seeds, noise_seeds, info)
    return with_regions(runs, found.cap, POSITION, alpha, noise_seeds[0])


class _Adapting:
    """A true system that tells the planner's regions, after every step, whether they held."""

    def __init__(self, cap: Capture, planner: MPPI, system: System, alpha: float, particles: np.random.Generator) -> None:
        self.online = AdaptiveScale(cap, alpha, eta=RATE, floor=FLOOR, never_smaller=True)
        self.planner, self.system, self._particles = planner, system, particles
        self.held: list[bool] = []
        self.thresholds: list[Floats] = []

    @property
    def inside(self) -> Bools:
        return np.array(self.held, dtype=bool)

    def __call__(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        after, outcome = self.system(state, action, rng)
        x = np.concatenate([state, action])
        self.thresholds.append(self.online.thresholds(x[None])[0])
        self.held.append(self.online.observe(x, after[POSITION], rng=self._particles))
        assert isinstance(self.planner.rollout, OnTheBoard)
        self.planner.rollout.fused.thresholds = self.online.group_thresholds()
        return after, outcome
