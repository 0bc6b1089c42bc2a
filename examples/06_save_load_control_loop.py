"""Learn: calibrate once, save the calibration, and use its regions in a control loop to avoid corners.

Run: python examples/06_save_load_control_loop.py [transitions]
Explained in: docs/use/control-loop.md
"""

import sys
import time

import numpy as np

from capture_cp import Capture
from capture_lab.tasks.box import Box

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
box = Box()

# once, offline
log = box.transitions(n, np.random.default_rng(0))
Capture(box.model, box.strata).fit(log.X, log.Y).save("box.capture")

# on the robot: the file holds groups and scores, the model and the strata come from your program
cap = Capture.load("box.capture", model=box.model, strata=box.strata)
rng = np.random.default_rng(1)
state, goal, held, times = np.array([0.1, 0.9]), np.array([0.4, 0.2]), [], []
for _ in range(12):
    began = time.perf_counter()
    push = np.clip((goal - state) / box.true_gain, -0.15, 0.15)
    region = cap.region([*state, *push], alpha=0.05)
    if len(region.cells("corner")):  # this robot must not end up in a corner
        push *= 0.3
        region = cap.region([*state, *push], alpha=0.05)
    times.append(1e3 * (time.perf_counter() - began))
    state = box.step(state, push + box.noise * rng.standard_normal(2), box.true_gain)
    held.append(state in region)
print(f"ends at {state.round(2)}, {np.linalg.norm(state - goal):.2f} from the goal")
print(f"{sum(held)} of {len(held)} regions held; {np.median(times):.1f} ms per decision")
