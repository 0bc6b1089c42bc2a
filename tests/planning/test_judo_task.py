"""A reward for judo's tasks, here for an object that looks like one; `tests/peers` has the real ones."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError, NearestParticles
from capture_cp.planning import JudoReward, RegionCost
from planning.test_rollout import PARTICLES, START, calibrated, masks


class Task:
    def __init__(self):
        self.begun = []

    def pre_rollout(self, curr_state):
        self.begun.append(curr_state)

    def reward(self, states, sensors, controls, system_metadata=None):
        return states[:, -1, 0] + (system_metadata or {}).get("bonus", 0.0)


OFFSETS = 0.05 * np.random.default_rng(0).standard_normal((PARTICLES, 2))


def spread(states, controls, after, rng):
    return after[:, None] + OFFSETS


@pytest.fixture
def cost(world):
    return RegionCost(calibrated(world, NearestParticles(4)), masks(world.box)["block"], weight=0.5)


def rolled_out(n=20, steps=6):
    rng = np.random.default_rng(3)
    controls = rng.uniform(-0.05, 0.05, (n, steps, 2))
    return START + np.cumsum(controls, axis=1), controls


@pytest.mark.parametrize(("every", "steps"), [(1, 6), (2, 6), (3, 6), (4, 6)])
def test_the_reward_is_minus_the_cost_of_regions_along_the_roll_out(cost, every, steps):
    states, controls = rolled_out(steps=steps)
    reward = JudoReward(cost, (0, 1), spread, every)
    reward.begin(START)
    wanted = np.zeros(20)
    for first in range(0, steps - every + 1, every):  # what is left over at the end is not looked at
        before = states[:, first - 1] if first else np.tile(START, (20, 1))
        after, held = states[:, first + every - 1], controls[:, first : first + every].mean(axis=1)
        wanted -= cost(before, held, after[:, None] + OFFSETS)
    assert (wanted < 0).any()
    np.testing.assert_allclose(reward(states, None, controls), wanted)


def test_a_task_that_it_is_attached_to_is_rewarded_with_it(cost):
    (states, controls), task = rolled_out(), Task()
    reward = JudoReward(cost, (0, 1), spread)
    assert reward.attach(task) is task
    task.pre_rollout(START)
    assert len(task.begun) == 1
    wanted = states[:, -1, 0] + 3.0 + reward(states, None, controls)
    np.testing.assert_allclose(task.reward(states, None, controls, {"bonus": 3.0}), wanted)


def test_by_default_the_calibrated_model_draws_the_particles(cost):
    states, controls = rolled_out()
    first, again = (JudoReward(cost, (0, 1), rng=np.random.default_rng(5)) for _ in range(2))
    first.begin(START)
    again.begin(START)
    found = first(states, None, controls)
    assert (found < 0).any()
    np.testing.assert_array_equal(found, again(states, None, controls))


def test_what_cannot_be_rewarded_is_refused(cost):
    states, controls = rolled_out()
    with pytest.raises(CaptureError, match="attach it to a task, or call begin first"):
        JudoReward(cost, (0, 1), spread)(states, None, controls)
    with pytest.raises(CaptureError, match="int has no pre_rollout and reward; expected a task of judo"):
        JudoReward(cost, (0, 1)).attach(3)
    late = JudoReward(cost, (0, 1), spread, every=7)
    late.begin(START)
    with pytest.raises(CaptureError, match="a rollout has 6 steps, fewer than every=7"):
        late(states, None, controls)
