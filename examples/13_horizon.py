"""Learn: calibrate regions for several steps ahead on rollouts, for each step separately or for all at once.

Run: python examples/13_horizon.py [rollouts]
Explained in: docs/learn/horizon.md
"""

import sys

import numpy as np

from capture_cp import HorizonCapture, Rollouts
from capture_cp.conformal.quantile import rollouts_needed
from capture_lab.tasks.box import Box

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
box, rng, horizon = Box(), np.random.default_rng(0), 5
print(f"{rollouts_needed(0.1, steps=horizon, groups=9, simultaneous=True):,} rollouts needed for 9 groups per step")


def model(states, actions, rng):
    """The rough model, one particle per row: next states (n, 2). It underestimates every push."""
    return box.step(states, actions + box.noise * rng.standard_normal(actions.shape), gain=1.0)


def true_system(states, actions, rng):
    """The true system; on a robot, cut rollouts from logs instead: Rollouts.from_episodes."""
    return box.step(states, actions + box.noise * rng.standard_normal(actions.shape), gain=box.true_gain)


def rollouts(n):
    """n open-loop rollouts, with starts and actions drawn as in later use."""
    starts, actions = box.transitions(n, rng).state, rng.uniform(-0.15, 0.15, size=(n, horizon, 2))
    return Rollouts.simulate(true_system, starts, actions, axes=(0, 1), rng=rng)


cap = HorizonCapture(model, box.strata, axes=(0, 1)).fit(rollouts(n))
fresh = rollouts(5000)
print(cap.coverage(fresh, alpha=0.1, volumes=False))
print(cap.coverage(fresh, alpha=0.1, simultaneous=True, volumes=False))

plan = np.tile([0.1, 0.05], (horizon, 1))
for h, region in enumerate(cap.regions([0.2, 0.2], plan, alpha=0.1, simultaneous=True), start=1):
    print(f"after step {h}: {len(region.cells()):,} cells, {region}")
cap.save("box.horizon")
