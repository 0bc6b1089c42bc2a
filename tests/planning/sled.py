"""A sled on a line that slips when pushed hard, which its model does not know and its planner likes to do."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

from capture_cp import Grid, GridStrata, HorizonCapture, NearestParticles, PerStratum, Rollouts
from capture_cp.conformal.quantile import conformal_rank
from capture_cp.planning import MPPI, run_episode

H, AXES, BOUND, GOAL, NOISE = 3, (0,), 0.5, 6.0, 0.05
GRID = Grid.between((-4.0,), (8.0,), 0.05)
STRATA = GridStrata(GRID, (GRID.centre(np.arange(GRID.size))[:, 0] >= 1.0).astype(int), ("left", "right"))
CENTRES = GRID.centre(np.arange(GRID.size))
HAZARD = np.abs(CENTRES[:, 0] - 2.2) < 0.2


def model(states, actions, rng):
    return states + actions + NOISE * rng.standard_normal(states.shape)


def truth(states, actions, rng):
    """Hard pushes, one of twenty-five random ones, slip."""
    slip = np.where(np.abs(actions) > 0.48, 0.3 * np.sign(actions), 0.0)
    return model(states, actions - slip, rng)


def system(state, action, rng):
    after = truth(state[None], action[None], rng)[0]
    return after, "success" if after[0] > 2.6 else None


def cost(state, sequences, seed):
    return np.abs(state + sequences.cumsum(axis=1) - GOAL)[..., 0]


def planner(seed=0):
    return MPPI(cost, H, 24, 0.01, [[0.5**2]], [-BOUND], [BOUND], seed=seed)


def episode(seed, braking=None, steps=10):
    return run_episode(planner(seed), system, np.zeros(1), steps, seed, braking=braking)


@cache
def episodes(first, last):
    """Runs without a filter."""
    return [episode(seed) for seed in range(first, last)]


def random_rollouts(n, seed):
    rng = np.random.default_rng(seed)
    return Rollouts.simulate(truth, rng.uniform(0, 2, (n, 1)), rng.uniform(-BOUND, BOUND, (n, H, 1)), AXES, rng)


def capture(rollouts, groups=None, seed=0):
    return HorizonCapture(model, STRATA, AXES, NearestParticles(4), groups or PerStratum(), 8, seed).fit(rollouts)


def tails(cap, rollouts, alpha, rng=5):
    """Whether all steps of fresh rollouts hold too rarely, and too often: two exact p-values.

    Given n calibration scores that never tie, coverage is Beta(rank, n + 1 - rank) distributed over the calibration, so the
    number of m fresh rollouts that hold is beta-binomial.
    """
    n, held = cap.calibration_.n_together, cap.contains(rollouts, alpha, simultaneous=True, rng=rng).all(axis=1)
    rank = conformal_rank(n, alpha)
    law = stats.betabinom(len(held), rank, n + 1 - rank)
    return law.cdf(held.sum()), law.sf(held.sum() - 1)
