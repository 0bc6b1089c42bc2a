"""Learn: plan on the marble labyrinth with the compiled planner, record the episode, and make a video of it.

Run: python examples/08_marble_planner.py [samples]
"""

import sys
from dataclasses import replace

import numpy as np

from capture_cp import Tree, method
from capture_cp.planning import run_episode
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.planner import PLANNER, POSITION, marble_planner, start_state, true_system
from capture_cp.tasks.marble.task import Marble

settings = replace(PLANNER, samples=int(sys.argv[1]) if len(sys.argv) > 1 else 4096)
task = Marble(load_map("center"), absorb=True)  # pits and the goal stop the marble

data = task.design_transitions("grid", 2, np.random.default_rng(0))  # the paper's grid of states and actions
cap = method("capture", task, task.strata, tree=Tree(per_stratum=False, max_leaves=20)).fit(data.X, data.Y)

planner = marble_planner(cap, task, settings, alpha=0.1, seed=0)
planner.plan(start_state(task))  # the first plan compiles
info = {"map": "center", "method": "capture"}
run = run_episode(planner, true_system(task), start_state(task), max_steps=100, seed=1, info=info)
run = run.with_regions(cap, POSITION)
print(f"{run.outcome} after {run.steps} steps, {np.median(run.plan_ms):.0f} ms a plan")
run.save("marble.npz")
print("now try: capture video marble.npz --out marble.gif")
