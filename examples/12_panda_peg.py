"""Learn: measure contacts on an arm whose configurations are poses of the object it holds: a Panda with a peg.

Run: python examples/12_panda_peg.py [rows to use] (needs MuJoCo and matplotlib: pip install "capture-cp[sim,view]")
Explained in: docs/learn/three-robots.md
"""

import sys
from pathlib import Path

import numpy as np

from capture_cp import Capture, ContactStrata, Grid, NearestParticles, PerStratum, read_transitions
from capture_lab.tasks.peg.simulator import inverse_kinematics
from capture_lab.tasks.peg.task import Peg

log = read_transitions(
    Path(__file__).parents[1] / "docs" / "assets" / "panda-peg.npz",
    state=["x", "z", "theta"],  # m, m, rad
    action=["move_x", "move_z", "turn"],  # mm, mm, degrees
    next=["next_x", "next_z", "next_theta"],
)

peg, degree = Peg(system="arm"), np.pi / 180
strata = ContactStrata(
    peg.true_system().model,  # a compiled model, or a path to your arm's MJCF
    pairs=[("peg", ["left", "right"])],  # the blocks on either side of the hole
    coordinates=lambda Y: np.array([inverse_kinematics(pose) for pose in Y]),  # poses (n, 3) to joint angles (n, 7)
    tolerance=0.75e-3,
    grid=Grid.between((-0.02, 0, -24 * degree), (0.02, 0.04, 24 * degree), (1e-3, 1e-3, 2 * degree)),
)

n = int(sys.argv[1]) if len(sys.argv) > 1 else len(log)
order = np.random.default_rng(0).permutation(len(log))[:n]
fit, check = order[: 5 * n // 8], order[5 * n // 8 :]
score = NearestParticles(k=4, metric=peg.metric)
cap = Capture(peg.model, strata, score=score, groups=PerStratum(), n_particles=8).fit(log.X[fit], log.Y[fit])
print(cap.coverage(log.X[check], log.Y[check], alpha=0.1))

region = cap.region([0.002, 0.0265, 0.02, 0.5, -2.5, -1.0], alpha=0.1)  # pressed down next to the hole
print(region)
ax = region.plot()
ax.set(xlim=(-0.006, 0.012), ylim=(0.018, 0.034), xlabel="x (m)", ylabel="z (m)")
ax.legend(loc="upper right", fontsize=7)
ax.figure.savefig("peg.png", dpi=150, bbox_inches="tight")
