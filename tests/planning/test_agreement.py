"""A step that plans must be the model that was calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from capture_cp import Capture, CaptureError, HorizonCapture, NearestParticles, OneGroup, Rollouts, method
from capture_cp.planning import MPPI, plugin
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import GridStrata
from planning.plugins import Push, faster_step, fused_rollout, push, still_step

NOISE = 0.02
STRATA = GridStrata(Grid.between((0.0, 0.0), (2.0, 2.0), 0.1), np.zeros(21 * 21, dtype=int), ("floor",))
SEQUENCES = np.random.default_rng(3).uniform(-0.1, 0.1, size=(40, 5, 2))


def pushed(X, n_particles, rng):
    """The model of `plugin.step`."""
    return X[:, None, :2] + X[:, None, 2:] + NOISE * rng.standard_normal((len(X), n_particles, 2))


def still(X, n_particles, rng):
    """The model of `still_step`."""
    return np.repeat(X[:, None, :2] + X[:, None, 2:], n_particles, axis=1)


def transitions(n=300):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.uniform(0.5, 1.5, size=(n, 2)), rng.uniform(-0.1, 0.1, size=(n, 2))])
    return X, X[:, :2] + 1.5 * X[:, 2:] + NOISE * rng.standard_normal((n, 2))


def calibrated(model=pushed, particles=8, **settings):
    cap = Capture(model, STRATA, NearestParticles(4), OneGroup(), n_particles=particles, **settings)
    return cap.fit(*transitions())


def rollout(cap, step=plugin.step, params=None, hazard=None, **settings):
    hazard = np.zeros(STRATA.grid.size, dtype=bool) if hazard is None else hazard
    settings = {"axes": (0, 1), "noise_dims": 2} | settings
    return fused_rollout(cap, step, plugin.stage_cost, params or push(NOISE), hazard, **settings)


def compared(cap, *given, **settings):
    rollout(cap, *given, **settings).try_out(np.ones(2), SEQUENCES)


@njit
def forgetful_step(states, action, noise, params):
    states = states + 1.0  # another array: nothing is written


@njit
def crossed_step(states, action, noise, params):
    for axis in range(2):
        for l in range(states.shape[1]):
            states[axis, l] += action[1 - axis] + params.noise * noise[axis, l]


@njit
def ending_step(states, action, noise, params):
    """The push model that stops within 0.3 of the goal, as a rollout may."""
    for l in range(states.shape[1]):
        if (states[0, l] - params.goal[0]) ** 2 + (states[1, l] - params.goal[1]) ** 2 > 0.09:
            for axis in range(2):
                states[axis, l] += action[axis] + params.noise * noise[axis, l]


@njit
def swift_step(states, action, noise, params):
    """A point with a velocity, which an action changes: positions are entries 1 and 3."""
    for l in range(states.shape[1]):
        for axis in range(2):
            states[2 * axis, l] += action[axis] + params.noise * noise[axis, l]
            states[2 * axis + 1, l] += states[2 * axis, l]


@njit
def lame_step(states, action, noise, params):
    """The same, but velocities are not kept."""
    for l in range(states.shape[1]):
        for axis in range(2):
            states[2 * axis + 1, l] += states[2 * axis, l] + action[axis] + params.noise * noise[axis, l]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [forgetful_step, faster_step, crossed_step], ids=lambda f: f.py_func.__name__)
def test_another_motion_is_refused(step):
    with pytest.raises(CaptureError, match=r"not the model that was calibrated.*entry [01] of the state.*compare_step"):
        compared(calibrated(), step)


@pytest.mark.parametrize("noise", [0.0, 3 * NOISE])
def test_another_spread_is_refused(noise):
    with pytest.raises(CaptureError, match="not the model that was calibrated"):
        compared(calibrated(), params=push(noise))


def test_another_motion_of_a_deterministic_model_is_refused():
    with pytest.raises(CaptureError, match="not the model that was calibrated"):
        compared(calibrated(still, deterministic_model=True))
    with pytest.raises(CaptureError, match="not the model that was calibrated"):
        compared(calibrated(still, deterministic_model=True), forgetful_step)


def test_planner_refuses_before_it_acts():
    planner = MPPI(rollout(calibrated(), faster_step), 3, 20, 0.1, 0.01 * np.eye(2), [-0.1] * 2, [0.1] * 2)
    with pytest.raises(CaptureError, match="not the model that was calibrated"):
        planner.plan(np.ones(2))


def test_sentence_gives_both_values():
    with pytest.raises(CaptureError) as caught:
        compared(calibrated(), forgetful_step)
    assert "differ at 32 of 32 places" in str(caught.value)
    assert "± 0 (mean ± standard deviation)" in str(caught.value)


def swift_cap(step=None):
    """A calibration of the point with a velocity."""

    def model_step(states, actions, rng):
        velocity = states[:, [0, 2]] + actions + NOISE * rng.standard_normal(actions.shape)
        return np.stack([velocity, states[:, [1, 3]] + velocity], axis=2).reshape(len(states), 4)

    rng = np.random.default_rng(0)
    starts = rng.uniform([-0.1, 0.5, -0.1, 0.5], [0.1, 1.5, 0.1, 1.5], size=(200, 4))
    rolled = Rollouts.simulate(model_step, starts, rng.uniform(-0.02, 0.02, size=(200, 2, 2)), (1, 3), rng)
    if step == "horizon":
        return HorizonCapture(model_step, STRATA, (1, 3), NearestParticles(4), OneGroup(), n_particles=8).fit(rolled)

    def model(X, n_particles, rng):
        rows = np.repeat(X, n_particles, axis=0)
        return model_step(rows[:, :4], rows[:, 4:], rng)[:, [1, 3]].reshape(len(X), n_particles, 2)

    return Capture(model, STRATA, NearestParticles(4), OneGroup(), n_particles=8).fit(*rolled.transitions())


def test_whole_state_of_a_horizon_is_compared():
    for step, printed in ((swift_step, None), (lame_step, "entry [02] of the state")):
        made = rollout(swift_cap("horizon"), step, Push(NOISE, np.zeros(4), 0.0), axes=(1, 3))
        if printed is None:
            made.try_out(np.ones(4), SEQUENCES)
        else:
            with pytest.raises(CaptureError, match=printed):
                made.try_out(np.ones(4), SEQUENCES)


# -- what is let pass -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("particles", [1, 8, 200])
def test_the_model_itself_is_let_pass(particles):
    cap = Capture(pushed, STRATA, NearestParticles(1), OneGroup(), n_particles=particles).fit(*transitions())
    compared(cap)


def test_a_deterministic_model_is_let_pass():
    compared(calibrated(still, deterministic_model=True), still_step, noise_dims=0)


def test_a_state_larger_than_the_configuration_is_let_pass():
    rollout(swift_cap(), swift_step, Push(NOISE, np.zeros(4), 0.0), axes=(1, 3)).try_out(np.ones(4), SEQUENCES)


def test_a_roll_out_may_stop_where_its_model_goes_on():
    compared(calibrated(), ending_step)
    made = rollout(calibrated(), ending_step, push(NOISE)._replace(goal=np.ones(2)))
    made.try_out(np.ones(2), SEQUENCES)  # from the goal itself


def test_single_precision_is_let_pass():
    compared(calibrated(lambda X, n, rng: pushed(X, n, rng).astype(np.float32)))


def test_false_alarms_are_rare(monkeypatch):
    from capture_cp.planning import agreement, trial

    made = rollout(calibrated())
    for seed in range(200):
        monkeypatch.setattr(agreement, "SEED", seed)
        trial._TRIED.clear()
        made.tried = False
        made.try_out(np.ones(2), SEQUENCES)


def test_comparison_can_be_skipped():
    compared(calibrated(), faster_step, compare_step=False)


def test_model_that_is_not_at_hand_is_told(box, world):
    cap = calibrated()
    cap.set_params(model=lambda X, n_particles, rng: None)
    with pytest.raises(CaptureError, match=r"cannot be compared .*compare_step=False"):
        compared(cap)
    compared(cap, compare_step=False)


def test_mean_of_a_gaussian_is_compared(box):
    data = box.transitions(300, np.random.default_rng(0))
    cap = method("lucca", box, box.strata).fit(data.X, data.Y)
    hazard = np.zeros(box.strata.grid.size, dtype=bool)

    def made(step):
        return fused_rollout(cap, step, plugin.stage_cost, push(), hazard, (0, 1), 2, gaussian_scale=[NOISE] * 5)

    made(plugin.step).try_out(np.full(2, 0.3), SEQUENCES)
    with pytest.raises(CaptureError, match="not the model that was calibrated"):
        made(forgetful_step).try_out(np.full(2, 0.3), SEQUENCES)


def test_places_out_of_reach_of_the_steps_arrays_are_left_out():
    """A table that covers what the robot can reach, and not all of the grid."""

    @njit
    def looking_step(states, action, noise, params):
        for l in range(states.shape[1]):
            params.goal[int(10 * states[0, l])]
            for axis in range(2):
                states[axis, l] += action[axis] + params.noise * noise[axis, l]

    params = Push(NOISE, np.zeros(16), 0.0)
    compared(calibrated(), looking_step, params)
