"""Learn: make strata from an occupancy map: free cells, cells next to one obstacle, cells next to two.

Run: python examples/03_strata_from_a_grid.py [transitions]
Explained in: docs/use/strata.md
"""

import sys

import numpy as np

from capture_cp import Capture, Grid, GridStrata, PerStratum

MAP = """
##########
#........#
#..##....#
#..##....#
#........#
#.....#..#
#........#
##########
"""

n = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
blocked = np.array([[mark == "#" for mark in row] for row in MAP.split()]).T[:, ::-1]  # [x, y], y up
fine = blocked.repeat(8, axis=0).repeat(8, axis=1)  # eight cells per metre
grid = Grid(origin=(1 / 16, 1 / 16), spacing=1 / 8, shape=fine.shape)

near_x = np.roll(fine, 1, axis=0) | np.roll(fine, -1, axis=0)
near_y = np.roll(fine, 1, axis=1) | np.roll(fine, -1, axis=1)
labels = np.where(fine, -1, near_x.astype(int) + near_y)
strata = GridStrata(grid, labels, names=["free", "edge", "corner"])
print(strata, dict(zip(strata.names, strata.sizes.tolist())))


def drive(position, move):
    """Positions (n, 2) after a move (n, 2); obstacles stop it, axis by axis."""
    for _ in range(20):
        for axis in (0, 1):
            tried = position.copy()
            tried[:, axis] += move[:, axis] / 20
            position = np.where(strata.index(tried)[:, None] < 0, position, tried)
    return position


def model(X, n_particles, rng):
    """The model: the same map, but the wheels never slip."""
    rows = np.repeat(X, n_particles, axis=0)
    return drive(rows[:, :2], rows[:, 2:] + 0.1 * rng.standard_normal((len(rows), 2))).reshape(len(X), n_particles, 2)


rng = np.random.default_rng(0)
start = grid.centre(rng.choice(strata.cells("free"), 2 * n))
move = rng.uniform(-1.5, 1.5, (2 * n, 2))
after = drive(start, 0.7 * move + 0.1 * rng.standard_normal((2 * n, 2)))  # the true wheels slip
X = np.hstack([start, move])
cap = Capture(model, strata, groups=PerStratum()).fit(X[:n], after[:n])
print(cap.coverage(X[n:], after[n:], alpha=0.1))
