"""Rows of our own in the peg's planning table: regions of a horizon, online adaptation, the corrected model."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureError, HorizonCapture, Rollouts
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import PerStratum
from capture_cp.conformal.scores import NearestParticles
from capture_lab.studies.planning import PlanningStudy
from capture_lab.tasks.peg import task as peg_task
from capture_lab.tasks.peg.options import OURS, ROWS, PegOptions
from capture_lab.tasks.peg.planner import PegWeights, peg_rollout
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.rows import FittedRow
from peg.calibrated import PARTICLES, TASK, calibrated, place
from peg.telling import telling
from reproduce.small import shorten_practice

SEED = 5
OWN_ROWS = [name for name in ROWS if name not in METHODS]


def model_rollouts(n, horizon, seed=0):
    """Rollouts of the model itself, moved 1.5 times as far, which stands for the truth."""
    rng = np.random.default_rng(seed)
    starts, actions = TASK.strata.sample_starts(n, rng), rng.uniform(-3, 3, size=(n, horizon, 3))
    poses, state = [], starts
    for h in range(horizon):
        state = TASK(np.hstack([state, 1.5 * actions[:, h]]), 1, rng)[:, 0]
        poses.append(state)
    return Rollouts.from_arrays(starts, actions, np.stack(poses, axis=1))


@pytest.fixture(scope="module")
def ahead():
    score = NearestParticles(k=4, metric=TASK.metric)
    cap = HorizonCapture(TASK.model_step, TASK.strata, TASK.axes, score, PerStratum(), PARTICLES)
    return cap.fit(model_rollouts(3000, 2))


def test_regions_of_a_horizon_stand_for_particles(ahead):
    weights, start, M = PegWeights(outside=2.0, caution=0.1), place("mouth"), len(TASK.strata.names)
    actions = np.random.default_rng(0).uniform(-3, 3, size=(5, 4, 3))
    found = peg_rollout(ahead, TASK, weights=weights)(start, actions, SEED)
    longer = np.concatenate([actions, np.zeros((5, 2 * M + 4, 3))], axis=1)
    printed = telling(ahead, TASK, weights)(start, longer, SEED)
    psi, (one, two) = printed[:, -4:], printed[:, :-4].reshape(5, 2, M + 2).swapaxes(0, 1)
    differ = TASK.strata.hamming_to_goal / 8
    cost, outside = [part[:, -1] / part[:, :-1].sum(axis=1) for part in (one, two)], []
    for part in (one, two):
        outside.append(1 - part[:, TASK.strata.goal_stratum] / part[:, :-1].sum(axis=1))
    hamming, effort = one[:, :M] @ differ / one[:, :M].sum(axis=1), (actions**2).sum(axis=2)
    terms = [cost[0], psi[:, 0], cost[1], psi[:, 2], psi[:, 3]]
    total = sum(0.95**t * term for t, term in enumerate(terms)) + 0.005 * effort @ 0.95 ** np.arange(4)
    total += 2.0 * (outside[0] + 0.95 * outside[1]) + 0.1 * np.maximum(hamming - 0.5, 0) * effort[:, 0]
    np.testing.assert_allclose(found.sum(axis=1), total, rtol=1e-12)
    assert two[:, :-1].sum() > one[:, :-1].sum()  # what is farther ahead is less certain


def test_a_horizon_that_leaves_out_a_step_is_refused(ahead):
    other = HorizonCapture(TASK.model_step, TASK.strata, TASK.axes, ahead.score, PerStratum(), PARTICLES)
    other.fit(model_rollouts(500, 2), steps=[2])
    with pytest.raises(CaptureError, match="steps 1, 2, 3"):
        peg_rollout(other, TASK)


def test_online_adaptation_widens_regions_after_misses(monkeypatch):
    cap, settings = calibrated(), replace(OURS, samples=8, horizon=2)
    mppi = TASK.planner(cap, settings)
    start, used = place("air"), []

    def far_off(state, action, rng):
        used.append(mppi.rollout.thresholds)
        return start + np.array([0.0, 0.016 * (len(used) % 2), 0.0]), None  # farther than any region reaches

    monkeypatch.setattr(Peg, "closed_loop", lambda task, start: far_off)
    monkeypatch.setattr(Peg, "max_steps", 4)
    monkeypatch.setattr(FittedRow, "planner", lambda *chosen: mppi)
    (run,) = FittedRow(ROWS["capture-online"], TASK, cap).play(start[None], 0.1, [(0, 0)])
    free = TASK.strata.names.index("free")
    assert not run.inside.any()
    assert (np.diff([q[free].min() for q in used]) > 0).all()
    np.testing.assert_array_equal(used[0], np.maximum(TASK.planner(cap, settings).rollout.thresholds, TASK.cell))
    assert run.thresholds.shape == (4, len(TASK.strata.names))


@pytest.mark.filterwarnings("ignore:too few calibration points")
def test_rows_of_our_own_run_in_the_study(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(Peg, "max_steps", 2)
    shorten_practice(monkeypatch, ROWS)
    monkeypatch.setattr(peg_task, "TRAINING", 200)
    study = PlanningStudy.of(PegOptions(), methods=tuple(OWN_ROWS), episodes=1, samples=8, horizon=2, calibration=300)
    text = io.StringIO()
    study.run(Console(file=text, width=200))
    assert all(name in text.getvalue() for name in OWN_ROWS)
