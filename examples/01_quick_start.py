"""Learn: fit on logged transitions, ask for a region, and check its coverage.

Run: python examples/01_quick_start.py [transitions]
Explained in: docs/index.md
"""

import sys

import numpy as np

from capture_cp import Capture, NearestParticles, Tree
from capture_lab.tasks.box import Box

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
rng = np.random.default_rng(0)

box = Box()  # a point in a walled box; the true system moves 1.5 times as far as the model predicts
log = box.transitions(n, rng)  # X (n, 4): position and push; Y (n, 2): next position
fresh = box.transitions(5000, rng)

cap = Capture(box.model, box.strata, score=NearestParticles(k=8), groups=Tree(), n_particles=16, seed=0)
cap.fit(log.X, log.Y)

x = [0.72, 0.78, 0.22, 0.15]  # at (0.72, 0.78), pushed to the upper right
for alpha in (0.3, 0.1, 0.02):  # the failure rate is chosen per query
    region = cap.region(x, alpha=alpha)
    print(f"alpha = {alpha}: {len(region.cells()):4d} cells, (1, 0.97) inside: {[1.0, 0.97] in region}")

print(cap.coverage(fresh.X, fresh.Y, alpha=0.1))
