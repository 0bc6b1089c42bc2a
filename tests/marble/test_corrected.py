"""The marble's corrected model: nearer to the truth, walls respected, the same coverage on smaller regions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from capture_cp import CaptureError, method
from capture_lab.tasks.corrected import marble_correction
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.contact import TOLERANCE
from capture_lab.tasks.marble.planner import PLANNER, corrected_step, marble_params
from marble.boards import REAL

PLAIN = REAL["bottom-left"]


@cache
def learnt():
    return replace(PLAIN, correction=marble_correction(PLAIN, 4000, np.random.default_rng(0)))


def inputs(n, seed):
    return PLAIN.inputs(n, np.random.default_rng(seed))


def test_a_corrected_model_errs_far_less():
    X = inputs(4000, 1)
    truth = PLAIN.true_step(X[:, :6], X[:, 6:], np.random.default_rng(2))
    still = np.zeros((len(X), 2))
    errors = [
        np.sqrt(np.mean((model.believed_step(X[:, :6], X[:, 6:], still) - truth)[:, [0, 2]] ** 2))
        for model in (PLAIN, learnt())
    ]
    assert errors[1] < 0.1 * errors[0]


def test_a_model_that_is_right_learns_next_to_nothing():
    right = marble_correction(replace(PLAIN, model_gain=dynamics.TRUE_GAIN), 4000, np.random.default_rng(0))
    X = np.hstack([inputs(500, 3), np.ones((500, 1))])
    assert np.abs(X @ np.array(right).T)[:, :2].max() < 0.05 * dynamics.ROLLING * dynamics.MAX_TILT


def test_a_corrected_marble_stays_out_of_walls():
    X = inputs(4000, 4)
    states = X[:, :6]
    for _ in range(5):
        states = learnt().model_step(states, X[:, 6:], np.random.default_rng(5))
        assert learnt().map.clearance(states[:, [0, 2]]).min() >= -TOLERANCE
        assert np.abs(states[:, [1, 3]]).max() <= dynamics.MAX_SPEED


def test_the_compiled_model_is_the_corrected_model():
    task = replace(learnt(), absorb=True)
    X = inputs(300, 6)
    noise = np.random.default_rng(7).standard_normal((2, 1))
    params = marble_params(task, task.model_gain)
    for x in X:
        cloud = np.repeat(x[:6, None], 1, axis=1)
        corrected_step(cloud, x[6:], np.vstack([noise, noise]), params)
        expected = task.believed_step(x[None, :6], x[None, 6:], dynamics.NOISE * noise.T)[0]
        at_goal = np.linalg.norm(expected[[0, 2]] - params.goal[:2]) <= params.goal[2]
        if not at_goal:
            np.testing.assert_allclose(cloud[:, 0], expected, atol=1e-12)


def test_a_calibration_of_another_correction_is_refused():
    log = PLAIN.design_transitions("random", 1, np.random.default_rng(9))
    cap = method("capture", PLAIN, PLAIN.strata).fit(log.X[:3000], log.Y[:3000])
    with pytest.raises(CaptureError, match="another noise or correction"):
        learnt().planner(cap, PLANNER)
