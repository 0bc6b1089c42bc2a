"""The peg's corrected model: nearer to the truth in the air, feasible in contact, and the one that the planner rolls out."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError, Tree, method
from capture_cp.tasks.peg.corrected import NO_CORRECTION, CorrectedModel, CorrectedPeg, corrected
from capture_cp.tasks.peg.model import PegModel
from capture_cp.tasks.peg.planner import PegRollout, PlannerSettings, peg_planner, roll_particles
from capture_cp.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_cp.tasks.peg.task import Peg
from peg.calibrated import PARTICLES, PLACES, TASK, calibrated, inputs, place, transitions

TRUE_GAIN = ((1.5, 0.0, 0.0, 0.0), (0.0, 1.5, 0.0, 0.0), (0.0, 0.0, 1.5, 0.0))
RIGHT = CorrectedPeg(correction=TRUE_GAIN)


@pytest.fixture(scope="module")
def learnt():
    pytest.importorskip("mujoco")
    return corrected(TASK, 2000, np.random.default_rng(0))


def test_it_learns_the_gain_of_the_true_system(learnt):
    found = np.array(learnt.correction)
    # the disturbance of a move is at most 1.5 x 1.5; believed moves vary by 1.4 or so
    error = 5 * 2.25 / (1.4 * np.sqrt(2000))
    np.testing.assert_allclose(found[:, :3], 1.5 * np.eye(3), atol=error)
    np.testing.assert_allclose(found[:, 3], 0.0, atol=5 * 2.25 / np.sqrt(2000))


def test_a_model_that_is_right_learns_next_to_nothing():
    pytest.importorskip("mujoco")
    found = corrected(Peg(PegSettings(gain=1.0)), 2000, np.random.default_rng(0)).correction
    np.testing.assert_allclose(found, NO_CORRECTION, atol=0.15)


def test_without_a_correction_it_is_the_model_bit_by_bit():
    X = np.vstack([inputs(where, 40) for where in PLACES])
    plain, same = PegModel(), CorrectedModel(PegSettings(), NO_CORRECTION)
    np.testing.assert_array_equal(*(model(X, 4, np.random.default_rng(3)) for model in (plain, same)))


def test_a_gain_is_a_longer_action_of_a_stronger_system():
    X = np.vstack([inputs(where, 40) for where in PLACES])
    longer = X.copy()
    longer[:, 3:] *= 1.5
    stronger = PegModel(PegSettings(bound=4.5, noise=2.25))
    found = RIGHT(X, 4, np.random.default_rng(4))
    np.testing.assert_allclose(found, stronger(longer, 4, np.random.default_rng(4)), rtol=1e-12, atol=1e-15)


def test_corrected_particles_stay_feasible():
    X = np.vstack([inputs(where, 200) for where in PLACES])
    assert (TASK.strata.index(RIGHT(X, 8, np.random.default_rng(5)).reshape(-1, 3)) >= 0).all()


def test_the_planner_rolls_out_the_corrected_model():
    start, actions = place("air"), np.zeros((4, 3, 3))
    actions[:, :, 1] = -1.0
    chosen = np.uint64(0), False
    clouds = [
        roll_particles(start, actions, 400, 3, *chosen, np.array(matrix), TASK.model.params)[0]
        for matrix in (NO_CORRECTION, TRUE_GAIN)
    ]
    moved = [(cloud - start) / ACTION_UNIT for cloud in clouds]
    np.testing.assert_allclose(moved[1], 1.5 * moved[0], atol=1e-9)


def test_calibration_of_another_model_is_refused():
    X, Y = transitions()
    cap = method("capture", RIGHT, TASK.strata, n_particles=PARTICLES, metric=TASK.metric, tree=Tree(per_stratum=False))
    cap.fit(X, Y)
    assert np.isfinite(PegRollout(cap, RIGHT)(place("mouth"), np.zeros((2, 3, 3)), 0)).all()
    with pytest.raises(CaptureError, match="another peg"):
        PegRollout(cap, TASK)
    with pytest.raises(CaptureError, match="another peg"):
        PegRollout(calibrated(), RIGHT)


def test_a_grid_without_room_in_the_air_is_refused():
    with pytest.raises(CaptureError, match="too little room"):
        corrected(Peg(PegSettings(peg_length=90e-3)), 200, np.random.default_rng(0))


@pytest.mark.parametrize(("elites", "sampled"), [(0, 128), (7, 96), (15, 64)])
def test_samples_that_are_rolled_out_again_are_part_of_the_budget(elites, sampled):
    mppi = peg_planner(PegRollout(calibrated(), TASK), PlannerSettings(elites=elites), seed=0)
    assert mppi.samples == sampled


def test_elites_that_leave_no_samples_are_refused():
    with pytest.raises(CaptureError, match="fewer elites"):
        peg_planner(PegRollout(calibrated(), TASK), PlannerSettings(elites=31), seed=0)
