"""The peg's corrected model: nearer to the truth, feasible in contact, and the one that the planner rolls out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError, Tree, method
from capture_lab.tasks.corrected import peg_correction
from capture_lab.tasks.peg import planner
from capture_lab.tasks.peg.model import Correction, PegModel
from capture_lab.tasks.peg.planner import PLANNER, PegWeights, peg_rollout
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.task import Peg
from peg.calibrated import PARTICLES, PLACES, TASK, calibrated, inputs, place, transitions

GAIN = ((1.5, 0.0, 0.0, 0.0), (0.0, 1.5, 0.0, 0.0), (0.0, 0.0, 1.5, 0.0))
FASTER, RUBBING = Peg(correction=Correction(GAIN)), Peg(correction=Correction(friction=0.75))
BOTH = Peg(correction=Correction(GAIN, 0.75))
EVERYWHERE = np.vstack([inputs(where, 100) for where in PLACES])


def test_it_learns_the_gain_and_that_there_is_friction():
    pytest.importorskip("mujoco")
    move, friction = peg_correction(TASK, 2000, np.random.default_rng(0))
    # disturbances of 1.5 x 1.5 at most, believed moves that vary by 1.4 or so, five standard errors
    np.testing.assert_allclose(np.array(move)[:, :3], 1.5 * np.eye(3), atol=5 * 2.25 / (1.4 * np.sqrt(2000)))
    np.testing.assert_allclose(np.array(move)[:, 3], 0.0, atol=5 * 2.25 / np.sqrt(2000))
    assert 0.4 < friction < 1.1  # the simulator's is 0.75


def test_a_true_system_without_bias_or_friction_teaches_next_to_nothing():
    pytest.importorskip("mujoco")
    move, friction = peg_correction(Peg(PegSettings(gain=1.0, friction=0.0)), 2000, np.random.default_rng(0))
    np.testing.assert_allclose(move, Correction().move, atol=0.15)
    assert friction < 0.4  # the simulator has some friction left


def test_a_gain_is_a_longer_action_of_a_stronger_system():
    longer = EVERYWHERE.copy()
    longer[:, 3:] *= 1.5
    stronger = PegModel(PegSettings(bound=4.5, noise=2.25))
    found = FASTER(EVERYWHERE, 4, np.random.default_rng(4))
    np.testing.assert_allclose(found, stronger(longer, 4, np.random.default_rng(4)), rtol=1e-9, atol=1e-12)


def still(task, pose, action):
    """Where a pose (mm, mm, degrees) goes without disturbance, in the same units."""
    quiet = Peg(PegSettings(noise=0.0), correction=task.correction)
    x = np.append(np.array(pose) * ACTION_UNIT, action)[None]
    return quiet(x, 1, np.random.default_rng(0))[0, 0] / ACTION_UNIT


def test_pressed_onto_the_rim_the_peg_slides_less_far_by_coulombs_law():
    # flat on the rim, as deep as is feasible: pressed by 2 mm it loses 0.75 x 2 of 2 mm
    flat = still(RUBBING, (15, 25, 0), (0, -1, 0))
    free, held = (still(task, flat, (2, -2, 0)) for task in (Peg(), RUBBING))
    assert free[0] - flat[0] == pytest.approx(2.0, abs=0.05)
    assert held[0] - flat[0] == pytest.approx(0.5, abs=0.05)
    assert still(RUBBING, flat, (1, -2, 0))[0] == pytest.approx(flat[0], abs=0.05)  # it sticks


def test_the_planner_rolls_out_the_corrected_model():
    start, noise, clouds = place("air"), np.random.default_rng(0).standard_normal((4, 400)), []
    for task in (TASK, FASTER):
        states = np.repeat(start[:, None], 400, axis=1)
        for _ in range(3):
            planner.peg_step(states, np.array([0.0, -1.0, 0.0]), noise, planner._params(task, PegWeights()))
        clouds.append(states - start[:, None])
    np.testing.assert_allclose(clouds[1], 1.5 * clouds[0], atol=1e-12)


def test_calibration_of_another_model_is_refused():
    X, Y = transitions()
    cap = method("capture", BOTH, TASK.strata, n_particles=PARTICLES, metric=TASK.metric, tree=Tree(per_stratum=False))
    cap.fit(X, Y)
    assert np.isfinite(peg_rollout(cap, BOTH)(place("mouth"), np.zeros((2, 3, 3)), 0)).all()
    for other in (TASK, FASTER):
        with pytest.raises(CaptureError, match="another peg"):
            peg_rollout(cap, other)
    with pytest.raises(CaptureError, match="another peg"):
        peg_rollout(calibrated(), BOTH)


def test_a_grid_without_room_in_the_air_is_refused():
    with pytest.raises(CaptureError, match="too little space"):
        peg_correction(Peg(PegSettings(peg_length=90e-3)), 200, np.random.default_rng(0))


@pytest.mark.parametrize(("elites", "sampled"), [(0, 128), (7, 96), (15, 64)])
def test_samples_that_are_rolled_out_again_are_part_of_the_budget(elites, sampled):
    mppi = TASK.planner(calibrated(), replace(PLANNER, elites=elites))
    assert mppi.samples == sampled


def test_elites_that_leave_no_samples_are_refused():
    with pytest.raises(CaptureError, match="fewer elites"):
        TASK.planner(calibrated(), replace(PLANNER, elites=31))
