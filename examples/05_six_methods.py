"""Learn: compare the six methods of the paper on the same transitions, stratum by stratum.

Run: python examples/05_six_methods.py [transitions]
Explained in: docs/learn/methods.md
"""

import sys

import numpy as np

from capture_cp import Tree, method
from capture_cp.capture.methods import METHODS
from capture_lab.tasks.box import Box

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
rng = np.random.default_rng(0)
box = Box()
log, fresh = box.transitions(n, rng), box.transitions(10_000, rng)

found = {}
for name in METHODS:
    cap = method(name, box, box.strata, tree=Tree())  # one tree per stratum, for methods that use strata
    found[name] = cap.fit(log.X, log.Y).coverage(fresh.X, fresh.Y, alpha=0.1)

unit = found["capture"].all.volume
print(f"{'coverage, %':12}", *(f"{name:>8}" for name in ("all", *box.strata.names)), f"{'volume':>8}")
for name, coverage in found.items():
    print(f"{name:12}", *(f"{100 * row.coverage:8.1f}" for row in coverage), f"{coverage.all.volume / unit:8.2f}")
