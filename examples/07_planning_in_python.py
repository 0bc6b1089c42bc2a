"""Learn: plan with regions and plain Python functions: go around a pit, with a model that underestimates every push.

Run: python examples/07_planning_in_python.py [samples]
Explained in: docs/learn/planning.md
"""

import sys

import numpy as np

from capture_cp import method
from capture_cp.planning import MPPI, PythonRollout, run_episode
from capture_lab.tasks.box import Box

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 300
box = Box()
data = box.transitions(20_000, np.random.default_rng(0))
cap = method("capture", box, box.strata).fit(data.X, data.Y)

start, goal, pit, pit_radius = np.array([0.1, 0.85]), np.array([0.9, 0.15]), np.array([0.3, 0.45]), 0.15
centres = box.strata.grid.centre(np.arange(box.strata.grid.size))
hazard = np.linalg.norm(centres - pit, axis=1) < pit_radius  # the cells to stay out of


def step(states, actions, rng):
    """The rough model: next states (n, 2)."""
    return box.step(states, actions + box.noise * rng.standard_normal(actions.shape), gain=1.0)


def cost(stage):
    """Stage costs (N,): the remaining distance, and the region cells in the pit."""
    return np.linalg.norm(stage.mean - goal, axis=1) + 10 * stage.hazard


def world(state, action, rng):
    """The true system: next state (2,), and the outcome once the episode has ended."""
    after = box.step(state, action + box.noise * rng.standard_normal(2), box.true_gain)
    if np.linalg.norm(after - pit) < pit_radius:
        return after, "fell"
    return after, "arrived" if np.linalg.norm(after - goal) < 0.08 else None


rollout = PythonRollout(cap, step, cost, hazard, axes=(0, 1), alpha=0.1)
bound = np.full(2, 0.2)
planner = MPPI(rollout, horizon=4, samples=samples, temperature=0.05, noise=0.02 * np.eye(2), low=-bound, high=bound)
run = run_episode(planner, world, start, max_steps=40, seed=0).with_regions(cap, axes=(0, 1))
print(f"{run.outcome} after {run.steps} steps; {run.inside.sum()} of {run.steps} regions held")
run.save("run.npz")  # states, actions, plans, particles and thresholds of every step
