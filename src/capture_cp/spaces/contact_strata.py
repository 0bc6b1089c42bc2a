"""Strata from a MuJoCo model: a stratum is which of the listed pairs of geoms touch."""

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

#: Rows that are measured before the depths of their overlaps are worked out.
BLOCK = 4096
#: A distance this close to one that decides is MuJoCo's own, so that a label does not hang on how a formula rounds.
CLOSE_CALL = 1e-7


class ContactStrata(PairStrata):
    """Strata of contact, measured on any MuJoCo model: "free", "peg-wall", "peg-wall + peg-floor".

    A pair touches where its signed distance is at most `tolerance`. A configuration is infeasible where a pair lies deeper
    inside each other than `depth`. Pairs that are not listed are not looked at.

    The strata are fixed before anything is fitted: all combinations of up to `at_most` contacts, or only those that occur
    among the configurations `seen`. What remains is the last stratum, "other contact": it needs no data, and regions take it
    in wholly until it has enough.

    Args:
        model: an MJCF file, MJCF text, or an `mujoco.MjModel`.
        pairs: pairs of names, one contact each. A name is that of a geom, or of a body for all its geoms that collide. A
            list of names on either side makes a pair of each: `[("peg", ["left", "right", "floor"])]` are three.
        coordinates: what a configuration holds: all of qpos by default, the joints or entries of qpos listed, or what a
            function turns into qpos, (n, dc) to (n, nq).
        reference: qpos (nq,) of what `coordinates` leave out, or the name of a keyframe; the model's qpos0 by default.
        tolerance: largest gap that counts as touching, in the model's unit of length.
        depth: deepest overlap that is feasible, as deep as `tolerance` by default.
        at_most: most contacts of a combination, 2 by default; with `seen`, any number.
        seen: configurations (n, dc) whose combinations of contacts become strata. Take others than those to calibrate on.
        at_least: how often a combination must be among `seen`; rarer ones are left to "other contact".
        grid: needed only for cells of regions; as many axes as a configuration has numbers.

    Attributes:
        pairs: names of the pairs, in the order of the contact bits.
        features: contact bits of each stratum, (M, pairs); "other contact" has all of them.
        rest: number of the stratum "other contact", None where every combination has its own.
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
        # without its own collision detection MuJoCo measures only overlaps
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
        """Measure by MuJoCo what has no formula: entries of `distances` (n, geom pairs) that are not `known`."""
        mujoco, model = mujoco_module(), self.model
        geoms = [pair for pairs in self._geoms.values() for pair in pairs]
        group = np.repeat(np.arange(len(self.pairs)), [len(pairs) for pairs in self._geoms.values()])
        best = np.minimum.reduceat(np.where(known, distances, limit), self._starts, axis=1)
        data = self._data()
        for i in np.flatnonzero(~known.all(axis=1)).tolist():
            data.qpos[:] = qpos[i]
            mujoco.mj_kinematics(model, data)
            for j in np.flatnonzero(~known[i]).tolist():
                # what is farther than another pair of the same contact does not count; yet MuJoCo is told the limit
                # asked for, on which its answers for height fields depend
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
        """One MjData a thread at a time, kept: making one takes longer than to measure hundreds of rows."""
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
