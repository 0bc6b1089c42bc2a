"""Strata from a MuJoCo model: each combination of touching geom pairs is a stratum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.kernels.geoms import geom_distances
from capture_cp.spaces.geom_pairs import Side
from capture_cp.spaces.geoms import compiled_geoms
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.links import knows
from capture_cp.spaces.mujoco_model import Coordinates, mujoco_module
from capture_cp.spaces.overlaps import is_exact, overlap_depths
from capture_cp.spaces.pair_strata import PairStrata

#: Rows that are measured at a time before the depths of their overlaps are computed.
BLOCK = 4096
#: Distances this close to a deciding value are taken from MuJoCo, so that a label does not depend on rounding.
CLOSE_CALL = 1e-7


class ContactStrata(PairStrata):
    """Contact strata of a MuJoCo model, such as "free", "peg-wall" and "peg-wall + peg-floor".

    A pair touches where its signed distance is at most `tolerance`. A configuration is infeasible where a pair overlaps by
    more than `depth`. Pairs that are not listed are ignored.

    The strata are fixed before anything is fitted: all combinations of up to `at_most` contacts, or only those that occur
    among the configurations `seen`. All other combinations form the last stratum, "other contact". It needs no data: until
    it has enough, regions include all of it.

    Args:
        model: an MJCF file, MJCF text, or an `mujoco.MjModel`.
        pairs: pairs of names, one contact each. A name refers to a geom, or to all colliding geoms of a body. A list of
            names on either side makes one pair per name: `[("peg", ["left", "right", "floor"])]` is three pairs.
        coordinates: what a configuration consists of: all of qpos by default, the listed joints or entries of qpos, or a
            function that maps configurations (n, dc) to qpos (n, nq).
        reference: qpos (nq,) for the entries that `coordinates` leave out, or the name of a keyframe; by default the model's
            qpos0.
        tolerance: largest gap that counts as touching, in the model's unit of length.
        depth: deepest feasible overlap, equal to `tolerance` by default.
        at_most: largest number of contacts in a combination, 2 by default; with `seen`, any number.
        seen: configurations (n, dc) whose combinations of contacts become strata. Do not calibrate on the same ones.
        at_least: how often a combination must occur in `seen`; rarer combinations become part of "other contact".
        grid: needed only for cells of regions; one axis per number of a configuration.

    Attributes:
        pairs: names of the pairs, in the order of the contact bits.
        features: contact bits of each stratum, (M, pairs); "other contact" has all of them.
        rest: number of the stratum "other contact", None if every combination has its own stratum.
    """

    def __init__(
        self,
        model: Any,
        pairs: Sequence[tuple[Side, Side]],
        coordinates: Coordinates | Callable[[Floats], Any] | None = None,
        reference: Any = None,
        tolerance: float = 1e-3,
        depth: float | None = None,
        at_most: int | None = None,
        seen: Any = None,
        at_least: int = 1,
        grid: Grid | None = None,
    ) -> None:
        self._spare: list[Any] = []
        super().__init__(model, pairs, coordinates, reference, tolerance, depth, at_most, seen, at_least, grid)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_spare": []}

    def _prepare(self) -> None:
        # with its native collision detection off, MuJoCo measures only overlaps
        self.model.opt.disableflags &= ~int(mujoco_module().mjtDisableBit.mjDSBL_NATIVECCD)
        self._starts = np.cumsum([0, *map(len, self._geoms.values())])[:-1]
        self._compiled = compiled_geoms(self.model, list(self._geoms.values())) if knows(self.model) else None

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        return self._distances(self._qpos(Y), min(float(within), 1e10))

    def _distances(self, qpos: Floats, limit: float) -> Floats:
        if self._compiled is None:
            return self._by_mujoco(qpos, limit)
        distances, known = geom_distances(qpos, *self._compiled, limit)
        if not known.all():
            self._complete(distances, known, qpos, limit)
        return np.asarray(np.minimum.reduceat(distances, self._starts, axis=1))

    def _deciding(self, Y: Floats, within: float) -> Floats:
        qpos = self._qpos(Y)
        distances = self._distances(qpos, within)
        if self._compiled is not None:
            close = np.abs(distances - self.tolerance) < CLOSE_CALL
            close |= np.abs(distances + self.depth) < CLOSE_CALL
            rows = np.flatnonzero(close.any(axis=1))
            if len(rows):
                distances[rows] = np.where(close[rows], self._by_mujoco(qpos[rows], within), distances[rows])
        return distances

    def _complete(self, distances: Floats, known: Bools, qpos: Floats, limit: float) -> None:
        """Measure with MuJoCo the entries of `distances` (n, geom pairs) without a formula, which are not `known`."""
        mujoco, model = mujoco_module(), self.model
        geoms = [pair for pairs in self._geoms.values() for pair in pairs]
        group = np.repeat(np.arange(len(self.pairs)), [len(pairs) for pairs in self._geoms.values()])
        best = np.minimum.reduceat(np.where(known, distances, limit), self._starts, axis=1)
        data = self._data()
        for i in np.flatnonzero(~known.all(axis=1)).tolist():
            data.qpos[:] = qpos[i]
            mujoco.mj_kinematics(model, data)
            for j in np.flatnonzero(~known[i]).tolist():
                # a pair farther away than another pair of the same contact does not matter; still, MuJoCo gets the
                # original limit, on which its results for height fields depend
                if distances[i, j] <= best[i, group[j]]:
                    distances[i, j] = mujoco.mj_geomDistance(model, data, *geoms[j], limit, None)
                    best[i, group[j]] = min(best[i, group[j]], distances[i, j])
        self._spare.append(data)

    def _by_mujoco(self, qpos: Floats, limit: float) -> Floats:
        """Signed distance of every pair at qpos (n, nq), up to `limit`, all measured by MuJoCo: (n, pairs)."""
        data, distances = self._data(), np.empty((len(qpos), len(self.pairs)))
        for first in range(0, len(qpos), BLOCK):
            distances[first : first + BLOCK] = self._measured(data, qpos[first : first + BLOCK], limit)
        self._spare.append(data)
        return distances

    def _data(self) -> Any:
        """One MjData per thread, cached: creating one takes longer than measuring hundreds of rows."""
        return self._spare.pop() if self._spare else mujoco_module().MjData(self.model)

    def _measured(self, data: Any, qpos: Floats, limit: float) -> Floats:
        """Signed distance of every pair at a few qpos (n, nq), up to `limit`: (n, pairs)."""
        mujoco, model = mujoco_module(), self.model
        geoms = [pair for pairs in self._geoms.values() for pair in pairs]
        exact = [is_exact(model, *pair) for pair in geoms]
        distances = np.empty((len(qpos), len(geoms)))
        overlaps: dict[int, list[tuple[int, Floats]]] = {}
        for i, row in enumerate(qpos):
            data.qpos[:] = row
            mujoco.mj_kinematics(model, data)
            for j, (a, b) in enumerate(geoms):
                distances[i, j] = mujoco.mj_geomDistance(model, data, a, b, limit, None)
                if distances[i, j] < 0 and exact[j]:
                    pose = np.hstack([data.geom_xpos[[a, b]], data.geom_xmat[[a, b]]])
                    overlaps.setdefault(j, []).append((i, pose))
        for j, found in overlaps.items():
            rows, poses = np.array([i for i, _ in found]), np.array([pose for _, pose in found])
            depths = overlap_depths(model, *geoms[j], poses)
            distances[rows, j] = np.where(depths >= 0, -depths, distances[rows, j])
        return np.asarray(np.minimum.reduceat(distances, self._starts, axis=1))
