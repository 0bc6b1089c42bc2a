"""Contact strata of a MuJoCo model approximated by balls and capsules, fast enough for rollouts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.checks import positive_number
from capture_cp.kernels.swept import Swept
from capture_cp.spaces.contact_strata import ContactStrata
from capture_cp.spaces.mujoco_model import Side, geoms_of, named, named_pairs
from capture_cp.spaces.swept_parts import given_spheres


class SweptStrata(ContactStrata):
    """Contact strata like `ContactStrata`, measured on spheres and capsules: fast enough for every step of a rollout.

    Distances between spheres, capsules, boxes and planes are exact, except between two boxes: there the first box is covered
    by spheres. Cylinders and meshes need spheres of your own. A cover contains its whole geom and protrudes a little, so
    geoms are treated as slightly larger: the distance of pair i is underestimated by at most `excess[i]`.

    Pass `params` to `swept_distances(params, y, frames, within, out)` and `swept_stratum(params, y, frames, out)` of
    `capture_cp.kernels.swept`. Both run inside any function that numba compiles, also for a GPU, and allocate nothing.

    Args:
        spacing: largest width of the cells of a cover; by default the smallest width of each geom. A smaller spacing makes
            covers protrude less.
        spheres: your own spheres (k, 4) by a name in pairs: x, y, z in the frame of the body, and a radius each.
        args, options: as for `ContactStrata`. If `coordinates` is a function, `params` is for complete qpos.

    Attributes:
        excess: how far the covers of each pair protrude at most, (pairs,); 0 where the distance is exact. Your own spheres
            count as exact.
    """

    def __init__(
        self,
        model: Any,
        pairs: Sequence[tuple[Side, Side]],
        *args: Any,
        spacing: float | None = None,
        spheres: Any = None,
        **options: Any,
    ) -> None:
        self.spacing = None if spacing is None else positive_number("spacing", spacing)
        self._sides, self._given = pairs, spheres
        super().__init__(model, pairs, *args, **options)

    def _prepare(self) -> None:
        sides = named_pairs(self._sides)
        given = given_spheres(self._given, {name for pair in sides for name in pair})
        # a name refers to geoms, or to user-defined spheres on a body
        found = {name: [given[name]] if name in given else geoms_of(self.model, name) for pair in sides for name in pair}
        body = {name: self._body_of(name) for name in found}
        contacts = [[(a, b, (body[one], body[other])) for a in found[one] for b in found[other]] for one, other in sides]
        self.excess = self._arrange(contacts, self.spacing)

    def _body_of(self, name: str) -> int:
        if name in named(self.model, "geom"):
            return int(self.model.geom_bodyid[self.model.geom(name).id])
        return int(self.model.body(name).id)

    @cached_property
    def params(self) -> Swept:
        """Arguments of the compiled functions: arrays and numbers."""
        rest = -1 if self.rest is None else self.rest
        return self._swept._replace(codes=self._codes, numbers=self._order, rest=rest)

    @property
    def n_links(self) -> int:
        """Number of rows of the table `frames` that the compiled functions need."""
        return len(self._swept.parent)

    def digest(self) -> str:
        """Digest of everything that the strata of a model depend on, and of the covers."""
        found = hashlib.sha256(super().digest().encode())
        for part in (self.params.segments, self.params.frame, self.params.items):
            found.update((np.round(np.asarray(part, dtype=np.float64), 9) + 0.0).tobytes())
        return found.hexdigest()
