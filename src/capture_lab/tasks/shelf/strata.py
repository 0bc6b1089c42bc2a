"""Strata of the arm by contact of its parts, computed by the functions that planners compile."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numba import prange

from capture_cp.base.checks import Floats, Ints, finite_rows
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.spaces.strata import FunctionStrata
from capture_cp.spaces.swept_strata import SweptStrata
from capture_lab.tasks.shelf.geometry import STRATA, Solids, angles_of, contact_stratum, link_frames, solids_of
from capture_lab.tasks.shelf.mjcf import FIXTURES, JOINTS, PARTS, Physics, scene_model
from capture_lab.tasks.shelf.shelves import Shelf

#: Largest gap that counts as touching, and deepest feasible overlap (m): the simulator's contacts are millimetres soft.
TOLERANCE, DEPTH = 0.005, 0.01


class ShelfStrata(FunctionStrata):
    """Free space, jar or hand on a board or a wall, and other contacts; palm and wrist are the hand.

    Attributes:
        solids: the arm and the shelf, in the form compiled functions need.
        swept: the same as a class of the library, which measures every part against every fixture.
        rest: number of the stratum of other contacts.
    """

    rest = len(STRATA) - 1

    def __init__(self, shelf: Shelf, physics: Physics) -> None:
        pairs: Any = [(list(PARTS), list(FIXTURES))]
        model = scene_model(shelf, physics)
        self.swept = SweptStrata(model, pairs, list(JOINTS), tolerance=TOLERANCE, depth=DEPTH, at_most=1)
        self.solids: Solids = solids_of(shelf, self.swept)
        self.limits: Floats = np.ascontiguousarray(model.jnt_range.T)
        super().__init__(self._numbers, STRATA)

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every part to boards and to walls at configurations Y (n, 7): (n, 8)."""
        return self.swept.distances(Y, within)

    def digest(self) -> str:
        """Digest of the names and of all measured solids."""
        return hashlib.sha256((super().digest() + self.swept.digest()).encode()).hexdigest()

    def _numbers(self, Y: Floats) -> Ints:
        return np.asarray(_strata_of(finite_rows("Y", Y, 7, "(n, 7): angles"), self.solids))


@parallel_kernel(cache=True)
def _strata_of(Y, solids):
    found = np.empty(Y.shape[0], dtype=np.int64)
    for i in prange(Y.shape[0]):
        frames = link_frames(solids.fixed, angles_of(Y[i]))
        found[i] = contact_stratum(solids.capsules, solids.boxes, frames, solids.tolerance, solids.depth)
    return found
