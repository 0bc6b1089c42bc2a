"""Learn: use your own log file and a rough model, and check the regions on held-out data.

Run: python examples/02_your_model_and_data.py [log.csv]
Explained in: docs/learn/your-robot.md
"""

import sys
from pathlib import Path

import numpy as np

from capture_cp import Capture, FunctionStrata, Grid, Tree, read_transitions

shipped = Path(__file__).parents[1] / "docs" / "assets" / "pushes.csv"
log = read_transitions(
    sys.argv[1] if len(sys.argv) > 1 else shipped,
    state=["x", "y"],
    action=["push_x", "push_y"],
    next=["next_x", "next_y"],
)


def model(X, n_particles, rng):
    """Next positions (n, L, 2) of inputs X (n, 4): the model has the outer walls but not the pillar."""
    push = X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
    return np.clip(X[:, None, :2] + 1.2 * push, 0.0, 1.0)


def contact(Y):
    """0 free, 1 edge, 2 corner, -1 inside a wall or the pillar, for positions Y (n, 2): (n,)."""
    x, y = Y.T
    side, end = np.minimum(x, 1 - x), np.minimum(y, 1 - y)
    pillar = np.maximum.reduce([0.55 - x, x - 0.75, 0.3 - y, y - 0.6])
    distances = np.stack([side, end, pillar])
    return np.where(distances.min(axis=0) < -1e-9, -1, (distances < 0.015 + 1e-9).sum(axis=0))


grid = Grid.between((-0.05, -0.05), (1.05, 1.05), spacing=0.01)
strata = FunctionStrata(contact, ["free", "edge", "corner"], grid=grid)

order = np.random.default_rng(0).permutation(len(log))
fit, check = order[: 3 * len(log) // 4], order[3 * len(log) // 4 :]  # held out from the fit
cap = Capture(model, strata, groups=Tree(min_leaf=100)).fit(log.X[fit], log.Y[fit])
print(cap.coverage(log.X[check], log.Y[check], alpha=0.1))
print(cap.region([0.35, 0.75, 0.2, -0.25], alpha=0.1))
