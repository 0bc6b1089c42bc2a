"""One step function: the particle model, the steps of rollouts and the fused step are all made of it."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, HorizonCapture, NearestParticles, Rollouts, one_stratum
from capture_cp.planning import MPPI, FusedRollout, PythonRollout, StepModel, plugin
from capture_cp.spaces.grid import Grid
from planning import plugins
from planning.plugins import fused_rollout, push, python_cost

SPREAD = 0.02
STRATA = one_stratum(Grid.between([-1, -1], [2, 2], 0.05))
SEQUENCES = np.random.default_rng(1).uniform(-0.1, 0.1, (20, 3, 2))


def in_python(states, actions, rng):
    return states + actions + SPREAD * rng.standard_normal(states.shape)


def compiled():
    return StepModel(plugin.step, 2, (0, 1), noise_dims=2, params=push(SPREAD))


def log(n=600):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.random((n, 2)), rng.uniform(-0.1, 0.1, (n, 2))])
    return X, X[:, :2] + 1.2 * X[:, 2:] + SPREAD * rng.standard_normal((n, 2))


@pytest.mark.parametrize("model", [compiled(), StepModel(in_python, 2, (0, 1))])
def test_particles_are_next_configurations(model):
    X, _ = log(20_000)  # more than are stepped at once
    particles = model(X[:9000], 16, np.random.default_rng(0))
    assert particles.shape == (9000, 16, 2)
    away = particles - (X[:9000, :2] + X[:9000, 2:])[:, None]
    assert abs(away.mean()) < 1e-4
    assert away.std() == pytest.approx(SPREAD, rel=0.01)
    again = model(X[:9000], 16, np.random.default_rng(0))
    np.testing.assert_array_equal(particles, again)
    assert model(X[:0], 16, np.random.default_rng(0)).shape == (0, 16, 2)


def test_axes_choose_the_configuration():
    model = StepModel(plugins.drifting_step, 3, (2, 0), noise_dims=3, params=push(0.0))
    found = model(np.array([[1.0, 2.0, 3.0, 0.5]]), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(found, [[[3.5, 1.5], [3.5, 1.5]]])


@pytest.mark.parametrize("model", [compiled(), StepModel(in_python, 2, (0, 1))])
def test_calibration_roll_outs_and_horizon_from_one_model(model):
    X, Y = log()
    cap = Capture(model, STRATA, score=NearestParticles(4), n_particles=8).fit(X, Y)
    hazard = np.zeros(STRATA.grid.size, dtype=bool)
    rollout = PythonRollout.from_model(cap, python_cost, hazard)
    assert rollout(np.zeros(2), SEQUENCES, 0).shape == (20, 3)
    starts = np.random.default_rng(2).random((80, 2))
    rolled = Rollouts.simulate(in_python, starts, np.repeat(SEQUENCES, 4, axis=0), (0, 1), np.random.default_rng(3))
    ahead = HorizonCapture(model.next_states, STRATA, (0, 1), score=NearestParticles(4), n_particles=8).fit(rolled)
    assert PythonRollout.from_model(ahead, python_cost, hazard)(np.zeros(2), SEQUENCES, 0).shape == (20, 3)


def test_fused_roll_out_is_the_calibrated_model():
    X, Y = log()
    cap = Capture(compiled(), STRATA, score=NearestParticles(4), n_particles=8).fit(X, Y)
    hazard = np.zeros(STRATA.grid.size, dtype=bool)
    fused = FusedRollout.from_model(cap, plugin.stage_cost, hazard, alpha=0.2)  # which is compared, and agrees
    by_hand = fused_rollout(cap, plugin.step, plugin.stage_cost, push(SPREAD), hazard, (0, 1), 2, alpha=0.2)
    np.testing.assert_array_equal(fused(np.zeros(2), SEQUENCES, 5), by_hand(np.zeros(2), SEQUENCES, 5))
    planner = MPPI(fused, 3, 64, 0.05, noise=0.01 * np.eye(2), low=[-0.1, -0.1], high=[0.1, 0.1])
    assert planner.plan(np.zeros(2)).shape == (2,)


def test_identity_changes_with_the_step_and_its_parameters():
    prints = {
        model.identity()
        for model in (
            compiled(),
            StepModel(plugin.step, 2, (0, 1), noise_dims=2, params=push(0.03)),
            StepModel(plugins.drifting_step, 2, (0, 1), noise_dims=2, params=push(SPREAD)),
            StepModel(in_python, 2, (0, 1)),
            StepModel(in_python, 2, (1, 0)),
        )
    }
    assert len(prints) == 5
    assert compiled().identity() == compiled().identity()


def test_wrong_input_is_refused_in_a_sentence():
    X, Y = log(100)
    with pytest.raises(CaptureError, match=r"numba\.njit"):
        StepModel(in_python, 2, (0, 1), noise_dims=2)
    with pytest.raises(CaptureError, match="needs noise_dims"):
        StepModel(plugin.step, 2, (0, 1))
    with pytest.raises(CaptureError, match="axes are"):
        StepModel(in_python, 2, (0, 2))
    with pytest.raises(CaptureError, match="expected a function of 4 arguments"):
        StepModel(plugin.particle_cost, 2, (0, 1), noise_dims=2)
    in_py = Capture(StepModel(in_python, 2, (0, 1)), STRATA).fit(X, Y)
    with pytest.raises(CaptureError, match=r"from_model needs a StepModel whose step is compiled"):
        FusedRollout.from_model(in_py, plugin.stage_cost, None)
    other = Capture(lambda X, n, rng: in_py.model(X, n, rng), STRATA).fit(X, Y)
    with pytest.raises(CaptureError, match="from_model needs a StepModel"):
        PythonRollout.from_model(other, python_cost, None)
    broken = StepModel(lambda states, actions, rng: states[:, :1], 2, (0, 1))
    with pytest.raises(CaptureError, match="step"):
        broken(X, 4, np.random.default_rng(0))
