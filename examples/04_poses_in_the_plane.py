"""Learn: regions of planar poses (x, z, θ), for a rod that may touch a table with either end, or lie flat.

Run: python examples/04_poses_in_the_plane.py [transitions]
Explained in: docs/use/angles-and-poses.md
"""

import sys

import numpy as np

from capture_cp import SE2, Capture, FunctionStrata, Grid, NearestParticles, PerStratum

HALF, TOUCH = 0.1, 0.012  # half the rod's length, and the distance that counts as touching (m)
NOISE = [0.01, 0.01, 0.1]  # m, m, rad


def contact(Y):
    """0 in the air, 1 left end down, 2 right end down, 3 flat, -1 through the table, for poses Y (n, 3): (n,)."""
    rise = HALF * np.sin(Y[:, 2])
    height = np.stack([Y[:, 1] - rise, Y[:, 1] + rise], axis=1)
    down = (np.abs(height) <= TOUCH).astype(int)
    return np.where((height < -TOUCH).any(axis=1), -1, down[:, 0] + 2 * down[:, 1])


def move(pose, push):
    """Poses (..., 3) after a push (..., 3); the table stops a rod that would go through it."""
    after = pose + push
    after[..., 1] = np.maximum(after[..., 1], HALF * np.abs(np.sin(after[..., 2])))
    return after


def model(X, n_particles, rng):
    """Next poses (n, L, 3): the table is right, the gain is wrong."""
    return move(X[:, None, :3], X[:, None, 3:] + NOISE * rng.standard_normal((len(X), n_particles, 3)))


n = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
rng = np.random.default_rng(1)
pose = rng.uniform([-0.1, 0.0, -np.pi], [0.1, 0.06, np.pi], size=(2 * n, 3))
pose[:, 1] += HALF * np.abs(np.sin(pose[:, 2]))
push = rng.uniform(-1, 1, (2 * n, 3)) * [0.1, 0.1, 0.5]
X, Y = np.hstack([pose, push]), move(pose, 1.3 * push + NOISE * rng.standard_normal((2 * n, 3)))

# the angle is a periodic axis; in the SE(2) metric a radian counts as half the rod's length
grid = Grid((-0.3, 0.0, -np.pi), (0.02, 0.02, 2 * np.pi / 72), (31, 16, 72), periodic=(2,))
strata = FunctionStrata(contact, ["air", "left end", "right end", "flat"], grid=grid)
score = NearestParticles(k=8, metric=SE2(length=HALF))
cap = Capture(model, strata, score=score, groups=PerStratum()).fit(X[:n], Y[:n])
print(cap.coverage(X[n:], Y[n:], alpha=0.1))
print(cap.region([-0.08, 0.1, 0.1, 0.09, -0.08, -0.1], alpha=0.1).sample(3, rng).round(3))
