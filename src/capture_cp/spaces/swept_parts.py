"""The pairs of a sphere-swept robot as covers and objects they may touch, in the form that compiled code uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array
from capture_cp.kernels import swept as kernel
from capture_cp.kernels.geoms import BOX, CAPSULE, MESH, PLANE, SPHERE
from capture_cp.spaces.covers import cover_of, holding_ball, points
from capture_cp.spaces.geoms import frame_row, hull_corners
from capture_cp.spaces.links import WORLD, Place, Tree

ROUND = (SPHERE, CAPSULE)
#: All corners of a box of half sizes 1.
CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class Parts:
    """Covers and items, collected pair by pair.

    Args:
        model: an `mujoco.MjModel`.
        bodies: numbers of the bodies involved.
        spacing: largest width of the cells that covers are made from, or None.
    """

    def __init__(self, model: Any, bodies: list[int], spacing: float | None) -> None:
        self.model, self.spacing, self.tree = model, spacing, Tree(model, bodies)
        self.still = [frame_row(WORLD)]
        self.covers: list[tuple[int, Floats]] = []
        self.items: list[tuple[int, int, int, int]] = []
        self.sizes: list[Floats] = []
        self._known: dict[Any, tuple[int, float]] = {}
        self._frames: dict[int, int] = {}

    def add(self, one: int | Floats, other: int | Floats, bodies: tuple[int, int], pair: int) -> float:
        """Add a pair of geoms, or of spheres (k, 4) on a body; returns how far their covers protrude in total."""
        kinds = [int(self.model.geom_type[side]) if isinstance(side, int) else SPHERE for side in (one, other)]
        if _round_first(kinds[1]) > _round_first(kinds[0]):
            one, other, kinds, bodies = other, one, kinds[::-1], bodies[::-1]
        cover, excess = self._cover(one, bodies[0], corners=kinds[1] == PLANE)
        half, more = np.zeros(3), 0.0
        if isinstance(other, int) and kinds[1] in (BOX, PLANE):
            target = self._frame(other)
            half = np.array(self.model.geom_size[other])
        else:
            target, more = self._cover(other, bodies[1], corners=False)
        sort = {PLANE: kernel.PLANE, BOX: kernel.BOX}.get(kinds[1], kernel.COVER)
        self.items.append((cover, sort, target, pair))
        self.sizes.append(half)
        return excess + more

    def compiled(
        self, entries: Ints | None, held: Floats, codes: Ints, numbers: Ints, rest: int, tolerance: float, depth: float
    ) -> kernel.Swept:
        """All parts as arrays, for configurations of these entries of qpos."""
        frame = np.array([cover[0] for cover in self.covers], dtype=np.int64)
        ball = np.array([holding_ball(cover[1]) for cover in self.covers])
        start = np.cumsum([0, *(len(cover[1]) for cover in self.covers)])
        segments = np.concatenate([cover[1] for cover in self.covers])
        order = sorted(range(len(self.items)), key=self.items.__getitem__)  # the items of a cover consecutively
        items, size = np.array(self.items, dtype=np.int64)[order], np.array(self.sizes)[order]
        links, still = self.tree.links(entries, held), np.array(self.still)
        return kernel.Swept(*links, still, frame, ball, start, segments, items, size, codes, numbers, rest, tolerance, depth)

    def _cover(self, side: int | Floats, body: int, corners: bool) -> tuple[int, float]:
        """Number of the cover of a geom or of user spheres, and how far it protrudes; `corners` suffice against a plane."""
        key = (side, corners) if isinstance(side, int) else (side.tobytes(), body)
        if key not in self._known:
            excess, place = 0.0, self.tree.places[body]
            if not isinstance(side, int):
                segments = points(side[:, :3], side[:, 3])
            else:
                place, kind = self.tree.place_of_geom(side), int(self.model.geom_type[side])
                if corners and kind == BOX:
                    segments = points(CUBE * self.model.geom_size[side], 0.0)
                elif corners and kind == MESH:
                    segments = points(hull_corners(self.model, side), 0.0)
                else:
                    segments, excess = cover_of(self.model, side, self.spacing)
            self.covers.append(_on_link(place, segments))
            self._known[key] = len(self.covers) - 1, excess
        return self._known[key]

    def _frame(self, geom: int) -> int:
        """Identifier of the frame of a box or a plane."""
        if geom not in self._frames:
            place = self.tree.place_of_geom(geom)
            if place[0] >= 0:
                self._frames[geom] = self.tree.attach(place)
            else:
                self.still.append(frame_row(place))
                self._frames[geom] = -len(self.still)
        return self._frames[geom]


def _round_first(kind: int) -> int:
    """Sort key for which of two geoms is covered: round geoms are their own cover; those neither round nor flat need one."""
    if kind in ROUND:
        return 3
    return {BOX: 1, PLANE: 0}.get(kind, 2)


def given_spheres(spheres: Any, names: set[str]) -> dict[str, Floats]:
    """Spheres (k, 4) by the name of the geom or body they replace, checked: x, y, z in the body's frame, and a radius."""
    if spheres is None:
        return {}
    if not isinstance(spheres, dict) or not set(spheres) <= names:
        raise CaptureError(
            f"spheres are for {list(spheres) if isinstance(spheres, dict) else spheres!r}; expected a dictionary from names "
            f"in pairs ({', '.join(sorted(names))}) to spheres (k, 4)."
        )
    meaning = "(k, 4): x, y, z in the frame of the body, and the radius"
    found = {name: finite_array(f"spheres of {name}", given, (None, 4), meaning) for name, given in spheres.items()}
    for name, given in found.items():
        if not len(given) or (given[:, 3] < 0).any():
            raise CaptureError(f"spheres of {name} are empty or have a negative radius; expected {meaning}.")
    return found


def _on_link(place: Place, segments: Floats) -> tuple[int, Floats]:
    """The identifier of a frame, and the segments (b, 7) of a pose, in that frame."""
    link, origin, turn = place
    moved = segments.copy()
    moved[:, :3], moved[:, 3:6] = origin + segments[:, :3] @ turn.T, segments[:, 3:6] @ turn.T
    return (link if link >= 0 else -1), moved
