"""Contact strata of a MuJoCo model approximated by balls and capsules, fast enough for rollouts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints, positive_number
from capture_cp.kernels.swept import Swept
from capture_cp.kernels.swept_batch import distances_of, strata_of
from capture_cp.spaces.geom_pairs import Side, geoms_of, named_pairs
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.mujoco_model import Coordinates, named
from capture_cp.spaces.pair_strata import PairStrata
from capture_cp.spaces.swept_parts import Parts, given_spheres


class SweptStrata(PairStrata):
    """Contact strata like `ContactStrata`, measured on spheres and capsules: fast enough for every step of a rollout.

    Distances between spheres, capsules, boxes and planes are exact, except between two boxes: there the first box is covered
    by spheres. Cylinders and meshes are covered by spheres too. A cover contains its whole geom and protrudes a little, so
    geoms are treated as slightly larger: the distance of pair i is underestimated by at most `excess[i]`.

    Pass `params` to `swept_distances(params, y, frames, within, out)` and `swept_stratum(params, y, frames, out)` of
    `capture_cp.kernels.swept`. Both run inside any function that numba compiles, also for a GPU, and allocate nothing.

    Args:
        model: an MJCF file, MJCF text, or an `mujoco.MjModel`.
        pairs: pairs of names, as for `ContactStrata`.
        coordinates: what a configuration consists of, as for `ContactStrata`. If it is a function, `params` is for complete
            qpos.
        reference: qpos (nq,) for the entries that `coordinates` leave out, or the name of a keyframe; by default the model's
            qpos0.
        tolerance: largest gap that counts as touching, in the model's unit of length.
        depth: deepest feasible overlap, equal to `tolerance` by default.
        at_most: largest number of contacts in a combination, 2 by default; with `seen`, any number.
        seen: configurations (n, dc) whose combinations of contacts become strata. Do not calibrate on the same ones.
        at_least: how often a combination must occur in `seen`; rarer combinations become part of "other contact".
        grid: needed only for cells of regions; one axis per number of a configuration.
        spacing: largest width of the cells of a cover; by default the smallest width of each geom. A smaller spacing makes
            covers protrude less.
        spheres: your own spheres (k, 4) by a name in pairs: x, y, z in the frame of the body, and a radius each.

    Attributes:
        pairs: names of the pairs, in the order of the contact bits.
        excess: how far the covers of each pair protrude at most, (pairs,); 0 where the distance is exact. Your own spheres
            count as exact.
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
        spacing: float | None = None,
        spheres: Any = None,
    ) -> None:
        self.spacing = None if spacing is None else positive_number("spacing", spacing)
        self._sides, self._given = pairs, spheres
        super().__init__(model, pairs, coordinates, reference, tolerance, depth, at_most, seen, at_least, grid)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "params"}

    def _prepare(self) -> None:
        sides = named_pairs(self._sides)
        given = given_spheres(self._given, {name for pair in sides for name in pair})
        # a name refers to geoms, or to user-defined spheres on a body
        found = {name: [given[name]] if name in given else geoms_of(self.model, name) for pair in sides for name in pair}
        body = {name: self._body_of(name) for name in found}
        self._parts, excess = Parts(self.model, sorted(set(body.values())), self.spacing), np.zeros(len(sides))
        for i, (one, other) in enumerate(sides):
            sticking = [self._parts.add(a, b, (body[one], body[other]), i) for a in found[one] for b in found[other]]
            excess[i] = max(sticking)
        self.excess = excess

    def _body_of(self, name: str) -> int:
        if name in named(self.model, "geom"):
            return int(self.model.geom_bodyid[self.model.geom(name).id])
        return int(self.model.body(name).id)

    @cached_property
    def params(self) -> Swept:
        """Arguments of the compiled functions: arrays and numbers."""
        return self._compiled(self._codes, self._order, -1 if self.rest is None else self.rest)

    def _compiled(self, codes: Ints, numbers: Ints, rest: int) -> Swept:
        held = self._reference
        return self._parts.compiled(self._entries, held, codes, numbers, rest, self.tolerance, self.depth)

    @property
    def n_links(self) -> int:
        """Number of rows of the table `frames` that the compiled functions need."""
        return len(self._parts.tree.rows)

    def distances(self, Y: Any, within: float = np.inf) -> Floats:
        """Signed distance of every pair at configurations Y (n, dc), negative where they overlap: (n, pairs).

        Beyond `within` any larger distance may be returned.
        """
        # while the combinations in `seen` are being determined, there are no strata yet
        params = self.params if hasattr(self, "names") else self._compiled(np.zeros(1, np.int64), np.zeros(1, np.int64), 0)
        return distances_of(self._given_to_kernels(Y), params, len(self.pairs), float(within))

    def _numbers(self, Y: Floats) -> Ints:
        return strata_of(self._given_to_kernels(Y), self.params, len(self.pairs))

    def _given_to_kernels(self, Y: Any) -> Floats:
        """Configurations (n, dc), or qpos (n, nq) if `coordinates` is a function."""
        return self._qpos(Y) if self._entries is None else self._checked(Y)

    def fingerprint(self) -> str:
        """Digest of everything that the strata of a model depend on, and of the covers."""
        digest = hashlib.sha256(super().fingerprint().encode())
        for part in (self.params.segments, self.params.frame, self.params.items):
            digest.update((np.round(np.asarray(part, dtype=np.float64), 9) + 0.0).tobytes())
        return digest.hexdigest()
