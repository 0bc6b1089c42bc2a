"""A model's record of its training transitions, to prevent calibration on them by mistake."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from capture_cp.base.arrays import digest
from capture_cp.base.checks import Bools, Floats
from capture_cp.base.streams import stream

#: Numbers are equal within this fraction of their column's spread, and of its largest number: a copy in float32 or in
#: a CSV file with six decimals is still the same transition.
OF_SPREAD, OF_SIZE = 1e-4, 1e-7
MOST_ASKED = 2_000  # rows that are tested for continuing a training run


class TrainingRows:
    """Training transitions X (n, dx), Y (n, dc), and the names of their episodes (n,), if known."""

    def __init__(self, X: Floats, Y: Floats, episodes: Any = None) -> None:
        self.X, self.Y = X, Y
        self.episodes = None if episodes is None else frozenset(np.asarray(episodes).tolist())

    def seen(self, X: Floats, Y: Floats, episodes: Any = None) -> Bools:
        """Which transitions X (m, dx), Y (m, dc) are training transitions, or from one of their episodes: (m,)."""
        found = np.zeros(len(X), dtype=bool)
        if self.episodes is not None and episodes is not None:
            found |= np.array([name in self.episodes for name in np.asarray(episodes).tolist()], dtype=bool)
        if len(X) == 0 or X.shape[1] != self.X.shape[1] or Y.shape[1] != self.Y.shape[1]:
            return found  # rows of another shape cannot be compared
        return found | _near(self._transitions, np.hstack([X, Y]) / self._tolerance)

    def share_continued(self, X: Floats, episodes: Any = None) -> float:
        """Fraction of transitions X (m, dx) that begin where a training transition ended, beyond chance.

        Which columns of X are the configuration is unknown, so every block of as many columns as Y has is tried. 0 if the
        names of episodes distinguish the runs.
        """
        if len(X) == 0 or X.shape[1] != self.X.shape[1] or (self.episodes is not None and episodes is not None):
            return 0.0
        dims, tolerance = self.Y.shape[1], self._tolerance[self.X.shape[1] :]
        rows = X[stream(0, "TrainingRows").permutation(len(X))[:MOST_ASKED]]
        shares = [0.0]
        for first in range(X.shape[1] - dims + 1):
            begins = rows[:, first : first + dims] / tolerance
            by_chance = _near(self._ends, begins + 10.0).mean()  # how often rows are this near to an unrelated point
            shares.append(float(_near(self._ends, begins).mean() - by_chance))
        return max(shares)

    def digest(self) -> str:
        """Digest of the transitions, independent of their order."""
        rows = np.hstack([self.X, self.Y]) + 0.0  # -0.0 is 0.0
        return digest(rows[np.lexsort(rows.T)])

    @cached_property
    def _tolerance(self) -> Floats:
        rows = np.hstack([self.X, self.Y])
        tolerance = OF_SPREAD * rows.std(axis=0) + OF_SIZE * np.abs(rows).max(axis=0)
        return np.where(tolerance > 0, tolerance, 1e-12)

    @cached_property
    def _transitions(self) -> cKDTree:
        return _tree(np.hstack([self.X, self.Y]) / self._tolerance)

    @cached_property
    def _ends(self) -> cKDTree:
        return _tree(self.Y / self._tolerance[self.X.shape[1] :])


def _tree(rows: Floats) -> cKDTree:
    return cKDTree(rows, balanced_tree=False, compact_nodes=False)  # fast to build, even with many equal rows


def _near(tree: cKDTree, rows: Floats) -> Bools:
    """Which rows (m, d) have a row of the tree within 1 in every column: (m,)."""
    distance, _ = tree.query(rows, p=np.inf, distance_upper_bound=1.0)
    return np.asarray(np.isfinite(distance))
