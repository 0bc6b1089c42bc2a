"""Strata from a MuJoCo model: each combination of touching geom pairs is a stratum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, positive_number, whole_number
from capture_cp.kernels.swept import item_distances
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.mujoco_model import (
    Coordinates,
    Side,
    geom_pairs,
    mujoco_module,
    qpos_entries,
    read_model,
    reference_qpos,
)
from capture_cp.spaces.strata import INFEASIBLE, FunctionStrata
from capture_cp.spaces.swept_parts import Parts

FREE, OTHER = "free", "other contact"
MOST_STRATA = 512  # with more, no log would have rows for every stratum
#: Model fields that distances depend on; rounded in the digest, so that another build of MuJoCo does not change it.
_GEOMETRY = (
    *("body_parentid", "body_pos", "body_quat", "jnt_type", "jnt_bodyid", "jnt_qposadr", "jnt_pos", "jnt_axis", "qpos0"),
    *("geom_type", "geom_bodyid", "geom_dataid", "geom_pos", "geom_quat", "geom_size"),
    *("mesh_vertadr", "mesh_vert", "hfield_size", "hfield_data"),
)


class ContactStrata(FunctionStrata):
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
        self.model = read_model(model)
        self.tolerance = positive_number("tolerance", tolerance, or_zero=True)
        self.depth = self.tolerance if depth is None else positive_number("depth", depth, or_zero=True)
        self._geoms = geom_pairs(self.model, pairs)
        self.pairs = tuple(self._geoms)
        self.coordinates: Any = coordinates
        self._entries = None if callable(coordinates) else qpos_entries(self.model, coordinates)
        self._reference = reference_qpos(self.model, reference)
        if grid is not None and self._entries is not None and grid.dims != len(self._entries):
            raise CaptureError(
                f"the grid has {grid.dims} axes, but a configuration has {len(self._entries)} coordinates; list the grid's "
                "coordinates with coordinates=[...]."
            )
        limit = None if at_most is None else whole_number("at_most", at_most, 1)
        whole_number("at_least", at_least, 1)
        self._prepare()
        codes = _combinations(len(self.pairs), limit or 2) if seen is None else self._found(seen, limit, at_least)
        self.rest = len(codes) if len(codes) < 2 ** len(self.pairs) else None
        bits = [[code >> i & 1 for i in range(len(self.pairs))] for code in codes]
        names = [" + ".join(np.array(self.pairs)[np.flatnonzero(row)]) or FREE for row in bits]
        if self.rest is not None:
            names, bits = [*names, OTHER], [*bits, [1] * len(self.pairs)]
        self._order = np.argsort(codes)
        self._codes = np.array(codes, dtype=np.int64)[self._order]
        super().__init__(self._numbers, names, grid, bits)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_spare": []}

    def _prepare(self) -> None:
        """Prepare to measure distances; called once the model and its pairs are known."""
        self._spare: list[Any] = []
        # with its native collision detection off, MuJoCo measures only overlaps
        self.model.opt.disableflags &= ~int(mujoco_module().mjtDisableBit.mjDSBL_NATIVECCD)
        self._flat = [pair for pairs in self._geoms.values() for pair in pairs]
        body = self.model.geom_bodyid.tolist()
        contacts = [[(one, other, (body[one], body[other])) for one, other in pairs] for pairs in self._geoms.values()]
        self._arrange(contacts, exact=True)

    def _arrange(self, contacts: list[list[Any]], spacing: float | None = None, exact: bool = False) -> Floats:
        """Arrange pairs of geoms and their bodies, by contact, for compiled code; how far covers protrude: (pairs,)."""
        bodies = {body for pairs in contacts for *_, two in pairs for body in two}
        parts = Parts(self.model, sorted(bodies), spacing, exact)
        excess = [max(parts.add(one, other, two, i) for one, other, two in pairs) for i, pairs in enumerate(contacts)]
        self._starts = np.cumsum([0, *map(len, contacts)])[:-1]
        self._swept, self._boxes, self._item = parts.compiled(self._entries, self._reference, self.tolerance, self.depth)
        return np.array(excess)

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        rows, limit = self._rows(Y), min(float(within), 1e10)
        distances, known = item_distances(rows, self._swept, self._boxes, limit)
        distances, known = distances[:, self._item], known[:, self._item]
        if not known.all():
            self._complete(distances, known, rows, limit)
        return np.asarray(np.minimum.reduceat(distances, self._starts, axis=1))

    def _complete(self, distances: Floats, known: Bools, rows: Floats, limit: float) -> None:
        """Measure with MuJoCo the entries of `distances` (n, geom pairs) without a formula, which are not `known`."""
        mujoco, model = mujoco_module(), self.model
        qpos = np.tile(self._reference, (len(rows), 1))
        qpos[:, slice(None) if self._entries is None else self._entries] = rows
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
                    distances[i, j] = mujoco.mj_geomDistance(model, data, *self._flat[j], limit, None)
                    best[i, group[j]] = min(best[i, group[j]], distances[i, j])
        self._spare.append(data)

    def digest(self) -> str:
        """Digest of the names, the pairs, the model's geometry, the tolerances and the grid's labels."""
        found = hashlib.sha256(super().digest().encode())
        found.update(repr((self._geoms, self.tolerance, self.depth)).encode())
        for part in (
            () if self._entries is None else self._entries,
            self._reference,
            *(getattr(self.model, name) for name in _GEOMETRY),
        ):
            found.update((np.round(np.asarray(part, dtype=np.float64), 9) + 0.0).tobytes())
        return found.hexdigest()

    def _numbers(self, Y: Floats) -> Ints:
        """Stratum of each configuration (n, dc): (n,)."""
        codes = self._contact_codes(Y)
        place = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        number = self._order[place]
        if self.rest is not None:
            number = np.where(self._codes[place] == codes, number, self.rest)
        return np.where(codes == INFEASIBLE, INFEASIBLE, number)

    def _contact_codes(self, Y: Floats) -> Ints:
        """Contacts of each configuration (n, dc) as a number, bit i for pair i, -1 where infeasible: (n,)."""
        distances = self.distances(Y, 2 * self.tolerance + 1e-9)
        codes = (distances <= self.tolerance) @ (1 << np.arange(len(self.pairs)))
        return np.where((distances < -self.depth).any(axis=1), INFEASIBLE, codes)

    def _found(self, seen: Any, at_most: int | None, at_least: int) -> list[int]:
        codes, counts = np.unique(self._contact_codes(seen), return_counts=True)
        kept = codes[(counts >= at_least) & (codes > 0)].tolist()
        if at_most is not None:
            kept = [code for code in kept if code.bit_count() <= at_most]
        return _limited([0, *sorted(kept, key=lambda code: (code.bit_count(), code))])

    def _checked(self, Y: Any) -> Floats:
        """Configurations (n, dc) as an array."""
        width = None if self._entries is None else len(self._entries)
        return finite_array("Y", Y, (None, width), "(n, dc): one configuration per row")

    def _rows(self, Y: Any) -> Floats:
        """Configurations Y (n, dc), or qpos (n, nq) if `coordinates` is a function."""
        if self._entries is not None:
            return self._checked(Y)
        given = self.coordinates(self._checked(Y))
        return finite_array("what coordinates(Y) returned", given, (len(Y), self.model.nq), "(n, nq): one qpos per row")


def _combinations(pairs: int, at_most: int) -> list[int]:
    """Codes of all combinations of up to `at_most` contacts, ordered by number of contacts."""
    sizes = range(min(at_most, pairs) + 1)
    total = sum(comb(pairs, size) for size in sizes)
    if total > MOST_STRATA:
        return _limited(range(total))
    return [sum(1 << i for i in chosen) for size in sizes for chosen in combinations(range(pairs), size)]


def _limited(codes: Sequence[int]) -> list[int]:
    if len(codes) > MOST_STRATA:
        raise CaptureError(
            f"the contacts make {len(codes)} strata, more than {MOST_STRATA}; lower at_most, list fewer pairs, or pass "
            "configurations as seen= and raise at_least."
        )
    return list(codes)
