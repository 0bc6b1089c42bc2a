"""Regions in the reward of judo's own tasks, which its controllers plan with."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, one_stratum
from capture_cp.planning import JudoReward, RegionCost

pytestmark = pytest.mark.peers
judo = pytest.importorskip("judo")

EVERY = 5


def spread(states, controls, after, rng):
    """Particles (n, 8, 2) of the cart about where the rollout arrived."""
    return after[:, None, 2:4] + 0.01 * rng.standard_normal((len(after), 8, 2))


def model(X, n_particles, rng):
    return X[:, None, 2:4] + 0.1 * X[:, None, 6:8] + 0.01 * rng.standard_normal((len(X), n_particles, 2))


@pytest.fixture
def cost():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 10))
    Y = X[:, 2:4] + 0.1 * X[:, 6:8] + 0.02 * rng.standard_normal((3000, 2))
    cap = Capture(model, one_stratum(), n_particles=8).fit(X, Y)
    return RegionCost(cap, lambda Y: np.linalg.norm(Y - [1.0, 0.0], axis=1) - 0.3, weight=10.0)


@pytest.fixture
def task(monkeypatch):
    import judo.tasks.base
    from judo.tasks.cylinder_push import CylinderPush

    # it would fetch the meshes of other robots
    monkeypatch.setattr(judo.tasks.base, "download_and_extract_meshes", lambda **_: None)
    return CylinderPush()


def controller_of(task):
    from judo.controller import Controller, ControllerConfig
    from judo.optimizers.mppi import MPPI, MPPIConfig

    return Controller(ControllerConfig(), task, MPPI(MPPIConfig(num_rollouts=12), 2))


def test_the_controllers_rewards_are_the_tasks_less_the_cost_of_regions(task, cost):
    alone = task.reward
    JudoReward(cost, (2, 3), spread, EVERY, np.random.default_rng(1)).attach(task)
    controller = controller_of(task)
    start = np.array([1.0, 0.9, 1.0, 0.35, 0, 0, 0, 0])
    controller.current_state = start
    controller.update_action()
    states, controls = controller.states, controller.rollout_controls
    after = states[:, EVERY - 1 :: EVERY]
    before = np.concatenate([np.broadcast_to(start, (12, 1, 8)), after[:, :-1]], axis=1)
    held = controls.reshape(12, -1, EVERY, 2).mean(axis=2)
    rng = np.random.default_rng(1)
    particles = spread(None, None, after.reshape(-1, 8), rng).reshape(12, -1, 8, 2)
    charged = cost(before, held, particles)
    assert (charged > 0).any()
    np.testing.assert_allclose(controller.rewards, alone(states, controller.sensors, controls) - charged)


def test_far_from_the_hazard_nothing_changes(task, cost):
    alone = task.reward
    JudoReward(cost, (2, 3), spread, EVERY).attach(task)
    controller = controller_of(task)
    controller.current_state = np.array([-2.0, -2.0, -1.0, -1.0, 0, 0, 0, 0])
    controller.update_action()
    wanted = alone(controller.states, controller.sensors, controller.rollout_controls)
    np.testing.assert_array_equal(controller.rewards, wanted)
