"""The filter that brakes, in runs that are planned together: each is the run alone."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import HorizonCapture, NearestParticles, OneGroup, Rollouts
from capture_cp.planning import BrakingFilter, run_episode, run_episodes
from gpu.test_plans import START, planner, rollout, single, system
from planning.test_rollout import masks

STARTS, SEEDS, NOISE = [START, START + 0.1], [3, 4], [6, 7]


def push(states, actions, rng):
    """The model of the plug-in in Python."""
    return states + actions + 0.02 * rng.standard_normal(states.shape)


@pytest.fixture
def braking(box):
    rng = np.random.default_rng(0)
    starts, actions = rng.uniform(0.2, 0.3, (80, 2)), rng.uniform(-0.04, 0.04, (80, 4, 2))
    log = Rollouts.simulate(push, starts, actions, (0, 1), rng)
    cap = HorizonCapture(push, box.strata, (0, 1), NearestParticles(4), OneGroup(), 8).fit(log)
    hazard = masks(box)["block and far corner"]
    return BrakingFilter(cap, hazard, lambda states: np.full((len(states), 2), -0.01), alpha=0.3)


def test_runs_together_are_the_runs_alone(world, fitted, box, braking):
    fused = rollout(fitted["capture"], masks(box)["one cell"])
    together = run_episodes(planner(fused), system, STARTS, 2, SEEDS, NOISE, braking=braking)
    for run, start, seed, noise in zip(together, STARTS, SEEDS, NOISE):
        alone = run_episode(planner(fused, seed=seed), single, start, 2, noise, braking=braking)
        for part in ("states", "actions", "plans", "braked"):
            np.testing.assert_array_equal(getattr(run, part), getattr(alone, part))
        np.testing.assert_array_equal(run.actions[run.braked], -0.01)
    braked = np.concatenate([run.braked for run in together])
    assert 0 < braked.sum() < len(braked)
