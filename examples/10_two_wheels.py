"""Learn: go from a CSV file of a wheeled robot to regions of poses, with a single stratum and the SE(2) metric.

Run: python examples/10_two_wheels.py [log.csv] (needs matplotlib for the picture)
Explained in: docs/learn/three-robots.md
"""

import sys
from pathlib import Path

import numpy as np

from capture_cp import SE2, Capture, Grid, NearestParticles, Tree, one_stratum, read_transitions

shipped = Path(__file__).parents[1] / "docs" / "assets" / "wheels.csv"
log = read_transitions(
    sys.argv[1] if len(sys.argv) > 1 else shipped,
    state=["x", "y", "theta"],
    action=["left", "right"],  # m/s of the wheels
    next=["next_x", "next_y", "next_theta"],
)


def unicycle(X, n_particles, rng):
    """Poses (n, L, 3) after half a second, from inputs X (n, 5): no slip, track width from the data sheet."""
    speed = X[:, None, 3:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
    forward, turn = speed.mean(axis=-1), (speed[..., 1] - speed[..., 0]) / 0.3
    heading = X[:, None, 2] + 0.25 * turn
    x, y = X[:, None, 0] + 0.5 * forward * np.cos(heading), X[:, None, 1] + 0.5 * forward * np.sin(heading)
    return np.stack([x, y, X[:, None, 2] + 0.5 * turn], axis=-1)


grid = Grid((-1, -1, -np.pi), (0.03, 0.03, np.pi / 24), (167, 167, 48), periodic=(2,))
score = NearestParticles(k=8, metric=SE2(length=0.2))  # a radian counts as 20 cm

order = np.random.default_rng(0).permutation(len(log))
fit, check = order[: 2 * len(log) // 3], order[2 * len(log) // 3 :]
cap = Capture(unicycle, one_stratum(grid), score=score, groups=Tree(min_leaf=100)).fit(log.X[fit], log.Y[fit])
print(cap.coverage(log.X[check], log.Y[check], alpha=0.1))

region = cap.region([1.5, 1.5, 0.5, 0.9, 0.4], alpha=0.1)
print(region)
ax = region.plot()
ax.set(xlim=(1.4, 2.1), ylim=(1.4, 2.1), xlabel="x (m)", ylabel="y (m)")
ax.figure.savefig("wheels.png", dpi=150, bbox_inches="tight")
