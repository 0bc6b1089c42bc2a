"""Learn: calibrate the peg insertion on its simulator, and list a region of poses by contact.

Run: python examples/09_peg.py [transitions] (needs MuJoCo: pip install "capture-cp[sim]")
Explained in: docs/results/peg.md
"""

import sys

import numpy as np

from capture_cp.conformal.groups import Tree
from capture_lab.tasks.peg.task import Peg

n = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
peg = Peg()  # or Peg(system="arm"): the same peg held by a Panda
rng = np.random.default_rng(0)
log = peg.transitions(n, rng)  # X (n, 6): pose (m, m, rad) and action (mm, mm, degrees); Y (n, 3): next pose
fresh = peg.transitions(n // 2, rng)

# few transitions and eleven strata: the paper's single tree shares leaves between strata with little data
cap = peg.method("capture", tree=Tree(per_stratum=False)).fit(log.X, log.Y)
print(cap.coverage(fresh.X, fresh.Y, alpha=0.1, volumes=False))

region = cap.region([0.002, 0.0265, 0.02, 0.5, -2.5, -1.0], alpha=0.1)  # pressed down next to the hole
for name, regime in zip(peg.strata.names, peg.strata.regimes):
    if len(region.cells(name)):
        print(f"{name:24} {regime:6} {len(region.cells(name)):6,} cells")
