"""Strata from a MuJoCo model: each combination of touching geom pairs is a stratum."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.kernels.geoms import geom_distances
from capture_cp.spaces.geoms import compiled_geoms
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_cp.spaces.pair_strata import PairStrata


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

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_spare": []}

    def _prepare(self) -> None:
        self._spare: list[Any] = []
        # with its native collision detection off, MuJoCo measures only overlaps
        self.model.opt.disableflags &= ~int(mujoco_module().mjtDisableBit.mjDSBL_NATIVECCD)
        self._starts = np.cumsum([0, *map(len, self._geoms.values())])[:-1]
        self._compiled = compiled_geoms(self.model, list(self._geoms.values()))

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        qpos, limit = self._qpos(Y), min(float(within), 1e10)
        distances, known = geom_distances(qpos, *self._compiled, limit)
        if not known.all():
            self._complete(distances, known, qpos, limit)
        return np.asarray(np.minimum.reduceat(distances, self._starts, axis=1))

    def _complete(self, distances: Floats, known: Bools, qpos: Floats, limit: float) -> None:
        """Measure with MuJoCo the entries of `distances` (n, geom pairs) without a formula, which are not `known`."""
        mujoco, model = mujoco_module(), self.model
        geoms = [pair for pairs in self._geoms.values() for pair in pairs]
        group = np.repeat(np.arange(len(self.pairs)), [len(pairs) for pairs in self._geoms.values()])
        best = np.minimum.reduceat(np.where(known, distances, limit), self._starts, axis=1)
        # one MjData per thread is kept: creating one takes longer than measuring hundreds of rows
        data = self._spare.pop() if self._spare else mujoco.MjData(model)
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
