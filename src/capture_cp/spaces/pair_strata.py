"""Strata as combinations of contacts: which of the listed pairs of geoms touch, from their signed distances."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.spaces.geom_pairs import Side, geom_pairs
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.mujoco_model import Coordinates, qpos_entries, read_model, reference_qpos, unit_quaternions
from capture_cp.spaces.projection import project_rows
from capture_cp.spaces.strata import INFEASIBLE, FunctionStrata

FREE, OTHER = "free", "other contact"
MOST_STRATA = 512  # with more, no log would have rows for every stratum
#: Model fields that distances depend on; rounded in the fingerprint, so that another build of MuJoCo does not change it.
_GEOMETRY = (
    *("body_parentid", "body_pos", "body_quat", "jnt_type", "jnt_bodyid", "jnt_qposadr", "jnt_pos", "jnt_axis", "qpos0"),
    *("geom_type", "geom_bodyid", "geom_dataid", "geom_pos", "geom_quat", "geom_size"),
    *("mesh_vertadr", "mesh_vert", "hfield_size", "hfield_data"),
)


class PairStrata(FunctionStrata):
    """Base class of `ContactStrata` and `SweptStrata`: everything except how a distance is measured.

    A subclass implements `distances` and, for setup once the model and its pairs are known, `_prepare`.
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
        self.tolerance = length("tolerance", tolerance)
        self.depth = self.tolerance if depth is None else length("depth", depth)
        self._geoms = geom_pairs(self.model, pairs)
        self.pairs = tuple(self._geoms)
        self.coordinates: Any = coordinates
        self._entries = None if callable(coordinates) else _entries(self.model, coordinates)
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

    def _prepare(self) -> None:
        """Prepare to measure distances; called once the model and its pairs are known."""

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        raise NotImplementedError

    def project(self, Y: Any, m: int) -> Floats:
        """Configurations Y (n, dc) moved onto stratum number m: (n, dc). Rows that do not reach it are returned unchanged.

        The pairs that touch in stratum m are brought to the middle of -depth..tolerance by Newton steps, each the shortest
        in coordinates, and other pairs that are too near are moved apart. Rows already in stratum m stay unchanged, and so
        do all rows for "other contact", which is not a single combination.
        """
        if whole_number("m", m, 0) >= len(self.names):
            raise CaptureError(f"m is {m}; expected the number of a stratum, 0 to {len(self.names) - 1}.")
        moved = self._checked(Y).copy()
        if m == self.rest or not len(moved):
            return moved
        away = np.flatnonzero(self.index(moved) != m)
        touching = np.asarray(self.features)[m] > 0
        found = project_rows(self.distances, moved[away], touching, self.tolerance, self.depth)
        if self._entries is not None:
            found = unit_quaternions(self.model, found, self._entries)
        arrived = self.index(found) == m
        moved[away[arrived]] = found[arrived]
        return moved

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

    def _qpos(self, Y: Any) -> Floats:
        """Configurations Y (n, dc) as qpos (n, nq)."""
        Y = self._checked(Y)
        if self._entries is None:
            given = self.coordinates(Y)
            return finite_array("what coordinates(Y) returned", given, (len(Y), self.model.nq), "(n, nq): one qpos per row")
        qpos = np.tile(self._reference, (len(Y), 1))
        qpos[:, self._entries] = Y
        return qpos


def length(name: str, value: Any) -> float:
    """`value` as a length of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= float(value) < np.inf:
        raise CaptureError(f"{name} is {value!r}; expected a length of at least 0 in the model's unit.")
    return float(value)


def _entries(model: Any, coordinates: Any) -> Ints:
    return np.arange(model.nq) if coordinates is None else qpos_entries(model, coordinates)


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
