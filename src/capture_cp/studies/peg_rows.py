"""The rows of the peg's planning table: the paper's six methods, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.methods import METHODS
from capture_cp.capture.online import AdaptiveScale
from capture_cp.conformal.scores import NearestParticles
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.episode import Episode, System, run_episode
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.settings import PlannerSettings
from capture_cp.tasks.peg.corrected import corrected
from capture_cp.tasks.peg.data import peg_data
from capture_cp.tasks.peg.planner import PLANNER, PegWeights
from capture_cp.tasks.peg.rollouts import peg_rollouts
from capture_cp.tasks.peg.task import Peg, peg_tree

AXES = Peg.axes
TRAINING = 4_000  # transitions in the air, and as many in contact, that correct the model
STEPS = 2  # of the horizon that have regions of their own; later ones are large, and take long to look at
#: How online adaptation turns its dials: quickly, since an episode has some thirty steps; a cell of the grid is the floor.
RATE, FLOOR = 0.5, 0.25e-3

PAPERS = PLANNER
PAPERS_WEIGHTS = PegWeights()
#: Chosen on random starts, for the row with the corrected model.
OURS = replace(PLANNER, temperature=0.03)
OURS_WEIGHTS = PegWeights(effort=0.002, outside=2.0, caution=0.0)


@dataclass(frozen=True)
class PegRow:
    """How a row of the table plans.

    Attributes:
        method: recipe of its one-step calibration.
        horizon: regions calibrated for each of the first steps, instead of one-step regions of the first.
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
    weights: PegWeights = PAPERS_WEIGHTS


OWN_ROWS: dict[str, PegRow] = {
    "capture-horizon": PegRow("capture", horizon=True, planner=OURS, weights=OURS_WEIGHTS),
    "capture-online": PegRow("capture", online=True, planner=OURS, weights=OURS_WEIGHTS),
    "capture-residual": PegRow("capture", corrected=True, planner=OURS, weights=OURS_WEIGHTS),
    "capture-online-residual": PegRow("capture", online=True, corrected=True, planner=OURS, weights=OURS_WEIGHTS),
    "capture-horizon-residual": PegRow("capture", horizon=True, corrected=True, planner=OURS, weights=OURS_WEIGHTS),
}
ROWS: Mapping[str, PegRow] = {name: PegRow(name) for name in METHODS} | OWN_ROWS


def calibrate(row: PegRow, task: Peg, particles: int, calibration: int, seed: int) -> tuple[Capture | HorizonCapture, Peg]:
    """The row, fitted to calibration transitions or roll-outs of the true system, and the task with the model that plans."""
    planned = corrected(task, TRAINING, stream(seed, "peg", "training")) if row.corrected else task
    if row.horizon:
        rollouts = peg_rollouts(task, calibration, STEPS, stream(seed, "peg", "roll-outs"))
        score = NearestParticles(k=max(1, particles // 2), metric=task.metric)
        ahead = HorizonCapture(planned.model_step, task.strata, AXES, score, peg_tree(), particles, seed)
        return ahead.fit(rollouts), planned
    data = peg_data(task, calibration, seed).transitions
    return planned.method(row.method, particles, seed=seed).fit(data.X, data.Y), planned


def play(
    row: PegRow,
    cap: Capture | HorizonCapture,
    planner: MPPI,
    system: System,
    start: Floats,
    max_steps: int,
    alpha: float,
    seed: int,
    info: dict[str, Any],
) -> Episode:
    """One closed-loop run, and the regions of its executed steps."""
    if not row.online:
        return run_episode(planner, system, start, max_steps, seed, info).with_regions(cap, AXES, alpha, seed)
    assert isinstance(cap, Capture)
    adaptive = AdaptiveScale(cap, alpha, eta=RATE, floor=FLOOR, never_smaller=True)
    adapting = Adapting(system, cap, AXES, stream(seed, "adapting"), adaptive)
    adapting.guide(planner.checked_rollout())
    run = run_episode(planner, adapting, start, max_steps, seed, info).with_regions(cap, AXES, alpha, seed)
    return replace(run, inside=np.array(adapting.held, dtype=bool), thresholds=np.array(adapting.thresholds))
