"""The rows of the peg's planning table: the paper's six methods, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.adaptive import AdaptiveScale
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.scores import NearestParticles
from capture_cp.planning.episode import Episode, System, run_episode
from capture_cp.planning.mppi import MPPI
from capture_cp.tasks.peg.corrected import corrected
from capture_cp.tasks.peg.data import peg_data
from capture_cp.tasks.peg.planner import PegRollout, PlannerSettings
from capture_cp.tasks.peg.rollouts import peg_rollouts
from capture_cp.tasks.peg.task import Peg, peg_tree

AXES = Peg.axes
TRAINING = 4_000  # transitions in the air, and as many in contact, that correct the model
STEPS = 2  # of the horizon that have regions of their own; later ones are large, and take long to look at
#: How online adaptation turns its dials: quickly, since an episode has some thirty steps; a cell of the grid is the floor.
RATE, FLOOR = 0.5, 0.25e-3

PAPERS = PlannerSettings()
#: Chosen on random starts, for the row with the corrected model.
OURS = PlannerSettings(temperature=0.03, effort=0.002, outside=2.0, caution=0.0)


@dataclass(frozen=True)
class PegRow:
    """How a row of the table plans.

    Attributes:
        method: recipe of its one-step calibration.
        horizon: regions calibrated for each of the first steps, instead of one-step regions of the first.
        online: thresholds that adapt during the episode.
        corrected: a model whose bias was learnt away from transitions of its own.
        planner: MPPI's settings and the weights of the objective.
    """

    method: str
    horizon: bool = False
    online: bool = False
    corrected: bool = False
    planner: PlannerSettings = PAPERS


OWN_ROWS: dict[str, PegRow] = {
    "capture-horizon": PegRow("capture", horizon=True, planner=OURS),
    "capture-online": PegRow("capture", online=True, planner=OURS),
    "capture-residual": PegRow("capture", corrected=True, planner=OURS),
    "capture-online-residual": PegRow("capture", online=True, corrected=True, planner=OURS),
    "capture-horizon-residual": PegRow("capture", horizon=True, corrected=True, planner=OURS),
}
ROWS: Mapping[str, PegRow] = {name: PegRow(name) for name in METHODS} | OWN_ROWS


def calibrate(row: PegRow, task: Peg, particles: int, calibration: int, seed: int) -> tuple[Fitted, Peg]:
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
    row: PegRow, planner: MPPI, system: System, start: Floats, max_steps: int, seed: int, info: dict[str, Any]
) -> Episode:
    """One closed-loop run, and the regions of its executed steps."""
    rollout = planner.rollout
    assert isinstance(rollout, PegRollout)
    alpha = rollout.regions.alpha
    if not row.online:
        return run_episode(planner, system, start, max_steps, seed, info).with_regions(rollout.cap, AXES, alpha, seed)
    assert isinstance(rollout.cap, Capture)
    online = AdaptiveScale(rollout.cap, alpha, eta=RATE, floor=FLOOR, never_smaller=True)
    calibrated, rollout.regions.thresholds = rollout.regions.thresholds, online.thresholds
    held, thresholds, particles = [], [], stream(seed, "adapting")

    def observed(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        after, outcome = system(state, action, rng)
        x = np.concatenate([state, action])
        thresholds.append(online.thresholds(x[None])[0])
        held.append(online.observe(x, after, rng=particles))
        return after, outcome

    try:
        run = run_episode(planner, observed, start, max_steps, seed, info)
    finally:
        rollout.regions.thresholds = calibrated  # the next episode begins anew
    run = run.with_regions(rollout.cap, AXES, alpha, seed)
    return replace(run, inside=np.array(held, dtype=bool), thresholds=np.array(thresholds))
