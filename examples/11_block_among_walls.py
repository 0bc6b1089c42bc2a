"""Learn: get strata and model from one MuJoCo file, for a block pushed among walls with uncertain parameters.

Run: python examples/11_block_among_walls.py [rows to use] (needs MuJoCo and matplotlib: pip install "capture-cp[sim,view]")
Explained in: docs/learn/three-robots.md
"""

import sys
from pathlib import Path

import numpy as np

from capture_cp import SE2, Capture, ContactStrata, Grid, NearestParticles, PerStratum, plot_strata, read_transitions
from capture_cp.models import mujoco_rollout

assets = Path(__file__).parents[1] / "docs" / "assets"
log = read_transitions(
    assets / "sliding-block.npz",
    state=["x", "y", "theta"],
    action=["push_x", "push_y"],
    next=["next_x", "next_y", "next_theta"],
)

# which walls the block touches, measured by MuJoCo; two at once are "other contact"
strata = ContactStrata(
    assets / "sliding-block.xml",
    pairs=[("block", ["left", "right", "front", "back"])],
    tolerance=0.004,  # m
    at_most=1,
    grid=Grid((-0.14, -0.1, -np.pi), (0.004, 0.004, np.pi / 30), (71, 51, 60), periodic=(2,)),
)

# 64 copies of the model with random friction and mass; each particle uses one of them
model = mujoco_rollout(
    assets / "sliding-block.xml",
    nstep=50,  # a quarter of a second
    randomise={"frictionloss": (0.7, 1.3), "friction": (0.5, 1.5), "mass": (0.9, 1.1)},
    control_noise=0.3,  # N
)

n = int(sys.argv[1]) if len(sys.argv) > 1 else len(log)
order = np.random.default_rng(0).permutation(len(log))[:n]
fit, check = order[: 2 * n // 3], order[2 * n // 3 :]
score = NearestParticles(k=4, metric=SE2(length=0.05))
cap = Capture(model, strata, score=score, groups=PerStratum(), n_particles=8).fit(log.X[fit], log.Y[fit])
print(cap.coverage(log.X[check], log.Y[check], alpha=0.1))

region = cap.region([0.05, 0.03, 0.4, 5.0, 6.0], alpha=0.1)  # pushed into a corner
print(region)
ax = region.plot(plot_strata(strata))
ax.set(xlabel="x (m)", ylabel="y (m)")
ax.legend(loc="lower left", fontsize=7)
ax.figure.savefig("block.png", dpi=150, bbox_inches="tight")
