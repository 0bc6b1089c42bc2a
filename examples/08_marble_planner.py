"""Learn: plan on the marble labyrinth with the compiled planner, record the episode, and make a video of it.

Run: python examples/08_marble_planner.py [samples]
Explained in: docs/learn/planning.md
"""

import sys
from dataclasses import replace

import numpy as np

from capture_cp import Tree
from capture_cp.planning import run_episode
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.recorded import recorded_info

options = MarbleOptions()
task = options.at("center")  # pits and the goal stop the marble
data = task.calibration(seed=0)  # two transitions at each point of the paper's grid of states and actions
cap = task.method("capture", tree=Tree(per_stratum=False, max_leaves=20)).fit(data.X, data.Y)

row = task.rows["capture"]
settings = replace(row.planner, samples=int(sys.argv[1]) if len(sys.argv) > 1 else 4096)
planner, start = task.planner(cap, settings, row.weights, alpha=0.1, seed=0), task.starts(1)[0]
planner.plan(start)  # the first plan compiles
info = recorded_info(options, task, "center") | {"method": "capture"}
run = run_episode(planner, task.closed_loop(start), start, max_steps=task.max_steps, seed=1, info=info)
run = run.with_regions(cap, task.axes)
print(f"{run.outcome} after {run.steps} steps, {np.median(run.plan_ms):.0f} ms per plan")
run.save("marble.npz")
print("now try: capture view --task marble --replay marble.npz --save marble.gif")
