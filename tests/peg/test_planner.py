"""Planning for the peg: the rollout against its model, the objective term by term, and the closed loop."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from numba import njit

from capture_cp import CaptureError
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.episode import Episode, run_episode
from capture_lab.tasks.peg.planner import PLANNER, peg_rollout
from capture_lab.tasks.peg.task import Peg
from peg.calibrated import NAMES, PARTICLES, PLACES, TASK, calibrated, place
from peg.inputs import insertion_costs
from peg.telling import telling
from peg.test_regions import regions

SEED, DEFAULT = 5, PLANNER


def sequences(n=6, horizon=4, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, size=(n, horizon, 3))


class GivenNoise:
    """Stands for a generator whose standard normals are known."""

    def __init__(self, normals):
        self.normals = normals

    def standard_normal(self, shape):
        assert self.normals.shape == shape
        return self.normals


@njit
def kernel_noise(seed, samples, horizon, particles):
    """The standard normals (N, H, L, 3) of the rollout."""
    noise = np.empty((samples, horizon, particles, 3))
    for i in range(samples):
        key = stream(seed, i)
        for h in range(horizon):
            for l in range(particles):
                counter = 2 * (h * particles + l)
                noise[i, h, l, 0], noise[i, h, l, 1] = normal_pair(key, counter)
                noise[i, h, l, 2] = normal_pair(key, counter + 1)[0]
    return noise


# -- the rollout ---------------------------------------------------------------------------------------------------------


def rolled(start, actions):
    """Mean Ψ (N, H) of the particles of the peg's rollout, which follows the numbers of the region."""
    numbers = len(TASK.strata.names) + 2
    longer = np.concatenate([actions, np.zeros((len(actions), numbers, 3))], axis=1)
    return telling(calibrated(), TASK)(start, longer, SEED)[:, numbers:]


@pytest.mark.parametrize("where", PLACES)
def test_particles_follow_the_model_step_by_step(where):
    actions = sequences()
    samples, horizon, _ = actions.shape
    noise = kernel_noise(np.uint64(SEED), samples, horizon, PARTICLES)
    costs = rolled(place(where), actions)
    for i in range(samples):
        cloud = np.tile(place(where), (PARTICLES, 1))
        for h in range(horizon):
            X = np.hstack([cloud, np.tile(actions[i, h], (PARTICLES, 1))])
            cloud = TASK.model(X, 1, GivenNoise(noise[i, h][:, None]))[:, 0]
            assert costs[i, h] == pytest.approx(insertion_costs(cloud, TASK.settings).mean(), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_total_cost_is_the_papers_objective(name):
    actions, start = sequences(), place("mouth")
    found, psi = peg_rollout(calibrated(name), TASK)(start, actions, SEED), rolled(start, actions)
    X = np.hstack([np.tile(start, (len(actions), 1)), actions[:, 0]])
    cells, sums = regions(telling(calibrated(name), TASK), X)
    strata, horizon = TASK.strata, actions.shape[1]
    differ = (strata.features != strata.features[strata.goal_stratum]).mean(axis=1)
    for i, sequence in enumerate(actions):
        total, everything, feasible = 0.0, cells[i].sum(), cells[i, :-1].sum()
        outside, hamming = 1 - cells[i, strata.goal_stratum] / everything, cells[i, :-1] @ differ / feasible
        for t in range(horizon + 1):
            term = sums[i] / everything if t == 0 else psi[i, t - 1]
            action = sequence[t] if t < horizon else np.zeros(3)
            total += 0.95**t * (term + 0.005 * action @ action)
        total += 20 * outside + 0.6 * max(hamming - 0.5, 0) * sequence[0] @ sequence[0]
        assert found[i].sum() == pytest.approx(total, rel=1e-12)


def test_costs_depend_on_the_seed_and_not_on_threads():
    rollout, found = peg_rollout(calibrated(), TASK), []
    before = numba.get_num_threads()
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            found.append(rollout(place("corner"), sequences(16), SEED))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    assert (rollout(place("corner"), sequences(16), SEED + 1) != found[0]).any()


# -- the planner ----------------------------------------------------------------------------------------------------------


def test_planner_has_the_papers_settings():
    mppi = TASK.planner(calibrated(), PLANNER)
    assert (mppi.horizon, mppi.samples, mppi.temperature) == (15, 128, 0.1)
    np.testing.assert_allclose(mppi._spread @ mppi._spread.T, 1.5**2 * np.eye(3))
    np.testing.assert_array_equal([mppi.low, mppi.high], [[-3.0] * 3, [3.0] * 3])


# -- the closed loop ------------------------------------------------------------------------------------------------------


def episode(start, max_steps=Peg.max_steps, seed=0, settings=DEFAULT):
    mppi = TASK.planner(calibrated(), settings)
    return run_episode(mppi, TASK.closed_loop(start), start, max_steps, seed)


@pytest.fixture(scope="module")
def inserted():
    """A successful episode from above the hole."""
    pytest.importorskip("mujoco")
    return episode(np.array([0.003, 0.03, 0.05]))


def test_planner_inserts_the_peg(inserted):
    assert inserted.outcome == "success"
    assert TASK.strata.success(inserted.states[-1:])[0]
    assert not TASK.strata.success(inserted.states[:-1]).any()
    assert (np.abs(inserted.actions) <= TASK.settings.bound).all()


def test_planner_is_told_feasible_poses_only(inserted):
    assert (TASK.strata.index(inserted.states) >= 0).all()


def test_episode_can_be_recorded_and_run_again(inserted, tmp_path):
    inserted.save(tmp_path / "episode.npz")
    loaded = Episode.load(tmp_path / "episode.npz")
    again = episode(inserted.states[0], max_steps=5)
    np.testing.assert_array_equal(loaded.states, inserted.states)
    np.testing.assert_array_equal(again.states, inserted.states[:6])
    np.testing.assert_array_equal(again.actions, inserted.actions[:5])


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([0.0, 0.02, 0.3], "receptacle"),
        ([0.01, 0.0, 0.0], "receptacle"),
        ([0.0, 0.5, 0.0], "reach"),
        ([0.0, 0.04, 3.0], "reach"),
        ([0.0, 0.04], "state of shape"),
        ([0.0, np.nan, 0.0], "state"),
    ],
)
def test_pose_that_no_plan_can_start_from_is_refused(state, message):
    with pytest.raises(CaptureError, match=message):
        peg_rollout(calibrated(), TASK)(np.array(state), sequences(), 0)


@pytest.mark.parametrize("change", [{"bound": 4.0}, {"noise": 1.0}, {"hole_width": 9.5e-3}])
def test_calibration_of_another_peg_is_refused(change):
    with pytest.raises(CaptureError, match="another peg"):
        peg_rollout(calibrated(), Peg(replace(TASK.settings, **change)))


@pytest.mark.parametrize("start", [(0.0, 0.02, 0.3), (0.05, 0.04, 0.0)])
def test_closed_loop_refuses_starts_outside_the_space(start):
    with pytest.raises(CaptureError, match="poses lie"):
        TASK.closed_loop(np.array(start))


def test_sums_over_regions_are_computed_on_the_cpu_only():
    rollout = peg_rollout(calibrated(), TASK)
    assert not rollout.on_cuda
    with pytest.raises(CaptureError, match='computed on the CPU only; plan with device="cpu"'):
        rollout.device_parts(4, 3)
