"""The rows of the marble's planning table: the paper's six methods, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.online import AdaptiveScale
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.cuda.device import Device
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.batch import run_episodes
from capture_cp.planning.episode import Episode, run_episode, with_regions
from capture_cp.planning.settings import PlannerSettings
from capture_cp.tasks.marble.corrected import corrected
from capture_cp.tasks.marble.planner import (
    PLANNER,
    POSITION,
    MarbleWeights,
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


PAPERS = PLANNER
#: Chosen on mirrored maps with moved pits, for the row that has everything. Rows on the model as it is keep the paper's, so
#: that only their regions differ from `capture`.
OURS = replace(PLANNER, temperature=0.02, elites=31)
COUNTING = MarbleWeights(count_particles=True)


@dataclass(frozen=True)
class Row:
    """How a row of the table plans.

    Attributes:
        method: recipe of its one-step calibration.
        horizon: regions calibrated for each step of the horizon, instead of one-step regions all along it.
        online: thresholds that adapt during the episode.
        corrected: a model whose bias was learnt away from transitions of its own.
        planner: MPPI's settings.
        weights: of the objective.
    """

    method: str
    horizon: bool = False
    online: bool = False
    corrected: bool = False
    planner: PlannerSettings = PAPERS
    weights: MarbleWeights = field(default_factory=MarbleWeights)


OWN_ROWS: dict[str, Row] = {
    "capture-horizon": Row("capture", horizon=True),
    "capture-online": Row("capture", online=True),
    "capture-residual": Row("capture", corrected=True, planner=OURS, weights=COUNTING),
    "capture-online-residual": Row("capture", online=True, corrected=True, planner=OURS, weights=COUNTING),
    "capture-horizon-residual": Row("capture", horizon=True, corrected=True, planner=OURS, weights=COUNTING),
}
ROWS: Mapping[str, Row] = {name: Row(name) for name in METHODS} | OWN_ROWS


@dataclass(frozen=True)
class Calibration:
    """A row's calibration on one map, and the task with the model that plans."""

    row: Row
    task: Marble
    cap: Capture | HorizonCapture


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
    planner = marble_planner(found.cap, found.task, settings, alpha, seed, found.row.weights, device=device)
    system = true_system(found.task)
    if not found.row.online:
        run = run_episode(planner, system, start_state(found.task), MAX_STEPS, noise_seed, info)
        return run.with_regions(found.cap, POSITION, alpha, noise_seed)
    assert isinstance(found.cap, Capture)
    adaptive = AdaptiveScale(found.cap, alpha, eta=RATE, floor=FLOOR, never_smaller=True)
    adapting = Adapting(system, found.cap, POSITION, stream(noise_seed, "adapting"), adaptive)
    adapting.guide(planner.checked_rollout(), now=False)
    run = run_episode(planner, adapting, start_state(found.task), MAX_STEPS, noise_seed, info)
    run = run.with_regions(found.cap, POSITION, alpha, noise_seed)
    return replace(run, inside=np.array(adapting.held, dtype=bool), thresholds=np.array(adapting.thresholds))


def play_together(
    found: Calibration,
    settings: PlannerSettings,
    alpha: float,
    seeds: Sequence[int],
    noise_seeds: Sequence[int],
    info: dict[str, Any],
) -> list[Episode]:
    """Many closed-loop runs at once on a GPU, and the regions of their executed steps; not for rows that adapt online."""
    planner = marble_planner(found.cap, found.task, settings, alpha, weights=found.row.weights, device="cuda")
    starts = np.tile(start_state(found.task), (len(seeds), 1))
    runs = run_episodes(planner, true_systems(found.task), starts, MAX_STEPS, seeds, noise_seeds, info)
    return with_regions(runs, found.cap, POSITION, alpha, noise_seeds[0])
