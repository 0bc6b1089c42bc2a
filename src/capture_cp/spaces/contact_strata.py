"""Strata from a MuJoCo model: a stratum is which of the listed pairs of geoms touch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.mujoco_model import Coordinates, mujoco_module, named, qpos_entries, read_model, reference_qpos
from capture_cp.spaces.overlaps import is_exact, overlap_depths
from capture_cp.spaces.strata import INFEASIBLE, FunctionStrata

#: A geom or a body by name, or several, each of which makes pairs of its own.
Side = str | Sequence[str]

FREE, OTHER = "free", "other contact"
MOST_PAIRS, MOST_STRATA = 62, 512  # bits of a code; beyond, no log would have rows for every stratum
#: Rows that are measured before the depths of their overlaps are worked out.
BLOCK = 4096
#: What distances depend on; rounded in the fingerprint, so that another build of MuJoCo does not change it.
_GEOMETRY = (
    *("body_parentid", "body_pos", "body_quat", "jnt_type", "jnt_bodyid", "jnt_qposadr", "jnt_pos", "jnt_axis", "qpos0"),
    *("geom_type", "geom_bodyid", "geom_dataid", "geom_pos", "geom_quat", "geom_size"),
    *("mesh_vertadr", "mesh_vert", "hfield_size", "hfield_data"),
)


class ContactStrata(FunctionStrata):
    """Strata of contact, measured by MuJoCo on any model: "free", "peg-wall", "peg-wall + peg-floor".

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
        grid: needed only for cells and volumes of regions; as many axes as a configuration has numbers.

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
        self.model = read_model(model)
        # without its own collision detection MuJoCo measures only overlaps
        self.model.opt.disableflags &= ~int(mujoco_module().mjtDisableBit.mjDSBL_NATIVECCD)
        self.tolerance = _length("tolerance", tolerance)
        self.depth = self.tolerance if depth is None else _length("depth", depth)
        self._geoms = _geom_pairs(self.model, pairs)
        self.pairs = tuple(self._geoms)
        self.coordinates: Any = coordinates
        self._entries = None if callable(coordinates) else _entries(self.model, coordinates)
        self._reference = reference_qpos(self.model, reference)
        self._spare: list[Any] = []
        if grid is not None and self._entries is not None and grid.dims != len(self._entries):
            raise CaptureError(
                f"the grid has {grid.dims} axes and a configuration {len(self._entries)} coordinates; they must agree, so "
                "name the grid's coordinates with coordinates=[...]."
            )
        limit = None if at_most is None else whole_number("at_most", at_most, 1)
        whole_number("at_least", at_least, 1)
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

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        qpos = self._qpos(Y)
        # one MjData a thread at a time, kept: making one takes longer than to measure hundreds of rows
        data = self._spare.pop() if self._spare else mujoco_module().MjData(self.model)
        distances = np.empty((len(qpos), len(self.pairs)))
        for first in range(0, len(qpos), BLOCK):
            rows = slice(first, first + BLOCK)
            distances[rows] = self._measured(data, qpos[rows], min(float(within), 1e10))
        self._spare.append(data)
        return distances

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
        starts = np.cumsum([0, *map(len, self._geoms.values())])[:-1]
        return np.minimum.reduceat(distances, starts, axis=1)

    def fingerprint(self) -> str:
        """Digest of the names, the pairs, the model's geometry, the tolerances and the grid's labels."""
        digest = hashlib.sha256(super().fingerprint().encode())
        digest.update(repr((self._geoms, self.tolerance, self.depth)).encode())
        for part in (
            () if self._entries is None else self._entries,
            self._reference,
            *(getattr(self.model, name) for name in _GEOMETRY),
        ):
            digest.update((np.round(np.asarray(part, dtype=np.float64), 9) + 0.0).tobytes())
        return digest.hexdigest()

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
        distances = self.distances(Y, within=2 * self.tolerance + 1e-9)
        codes = (distances <= self.tolerance) @ (1 << np.arange(len(self.pairs)))
        return np.where((distances < -self.depth).any(axis=1), INFEASIBLE, codes)

    def _found(self, seen: Any, at_most: int | None, at_least: int) -> list[int]:
        codes, counts = np.unique(self._contact_codes(seen), return_counts=True)
        kept = codes[(counts >= at_least) & (codes > 0)].tolist()
        if at_most is not None:
            kept = [code for code in kept if code.bit_count() <= at_most]
        return _limited([0, *sorted(kept, key=lambda code: (code.bit_count(), code))])

    def _qpos(self, Y: Any) -> Floats:
        """Configurations Y (n, dc) as qpos (n, nq)."""
        width = None if self._entries is None else len(self._entries)
        Y = finite_array("Y", Y, (None, width), "(n, dc): one configuration per row")
        if self._entries is None:
            given = self.coordinates(Y)
            return finite_array("what coordinates(Y) returned", given, (len(Y), self.model.nq), "(n, nq): one qpos per row")
        qpos = np.tile(self._reference, (len(Y), 1))
        qpos[:, self._entries] = Y
        return qpos


def _length(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= float(value) < np.inf:
        raise CaptureError(f"{name} is {value!r}; expected a length of at least 0 in the model's unit.")
    return float(value)


def _entries(model: Any, coordinates: Any) -> Ints:
    return np.arange(model.nq) if coordinates is None else qpos_entries(model, coordinates)


# -- pairs ----------------------------------------------------------------------------------------------------------------


def _geom_pairs(model: Any, pairs: Any) -> dict[str, list[tuple[int, int]]]:
    """Numbers of the geoms behind each pair, by the pair's name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for pair in _listed(pairs):
        for one, other in product(*(list(side) if isinstance(side, list | tuple) else [side] for side in pair)):
            name, geoms = f"{one}-{other}", list(product(_geoms(model, one), _geoms(model, other)))
            if name in found or f"{other}-{one}" in found or any(a == b for a, b in geoms):
                raise CaptureError(f"the pair {name} is listed twice, or is one geom with itself; list each contact once.")
            _check_measurable(model, name, geoms)
            found[name] = geoms
    if len(found) > MOST_PAIRS:
        raise CaptureError(
            f"{len(found)} pairs are listed; at most {MOST_PAIRS} can be distinguished, so name bodies instead."
        )
    return found


def _listed(pairs: Any) -> Sequence[Any]:
    sound = isinstance(pairs, list | tuple) and len(pairs) > 0
    if not sound or any(not isinstance(pair, list | tuple) or len(pair) != 2 or [] in pair for pair in pairs):
        raise CaptureError(f'pairs are {pairs!r}; expected a list of two names each, such as [("peg", ["wall", "floor"])].')
    return list(pairs)


def _geoms(model: Any, name: Any) -> list[int]:
    """The geom of that name, or the geoms of the body of that name that take part in collisions."""
    if name in named(model, "geom"):
        return [model.geom(name).id]
    bodies = named(model, "body")
    body = model.body(known_name("geom or body", name, [*named(model, "geom"), *bodies]))
    first, count = body.geomadr[0], body.geomnum[0]
    geoms = [g for g in range(first, first + count) if model.geom_contype[g] or model.geom_conaffinity[g]]
    if not geoms:
        raise CaptureError(f"body {name} has no geom that collides; name a geom, or a body that has one.")
    return geoms


def _check_measurable(model: Any, name: str, geoms: list[tuple[int, int]]) -> None:
    types = mujoco_module().mjtGeom
    flat = {int(types.mjGEOM_PLANE), int(types.mjGEOM_HFIELD)}
    if any({int(model.geom_type[a]), int(model.geom_type[b])} <= flat for a, b in geoms):
        raise CaptureError(f"the pair {name} is of planes or height fields only, whose distance MuJoCo does not measure.")


# -- combinations ---------------------------------------------------------------------------------------------------------


def _combinations(pairs: int, at_most: int) -> list[int]:
    """Codes of all combinations of up to `at_most` contacts, the fewest first."""
    sizes = range(min(at_most, pairs) + 1)
    total = sum(comb(pairs, size) for size in sizes)
    if total > MOST_STRATA:
        return _limited(range(total))
    return [sum(1 << i for i in chosen) for size in sizes for chosen in combinations(range(pairs), size)]


def _limited(codes: Sequence[int]) -> list[int]:
    if len(codes) > MOST_STRATA:
        raise CaptureError(
            f"the contacts make {len(codes)} strata, more than {MOST_STRATA}; lower at_most, list fewer pairs, or give "
            "configurations as seen= and raise at_least."
        )
    return list(codes)
