"""Geoms of a MuJoCo model as covers and the objects they may touch, in the form that compiled code uses.

A cover is a set of segments (b, 7): the start of each, the vector to its end (0 for a ball), and a radius. Spheres and
capsules are their own covers. Boxes are divided into cells, and each cell gets a ball. Of other geoms users give the balls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array
from capture_cp.kernels import swept as kernel
from capture_cp.kernels.kinematics import BALL, FIXED, FREE, HINGE, SLIDE, Links
from capture_cp.kernels.swept import Boxes, Swept
from capture_cp.spaces.mujoco_model import BOX, CAPSULE, HFIELD, MESH, PLANE, SPHERE, mujoco_module

#: A pose in the world or on a link: the link's number (-1: the world), an origin (3,) and a rotation (3, 3).
Place = tuple[int, Floats, Floats]

WORLD: Place = (-1, np.zeros(3), np.eye(3))

ROUND = (SPHERE, CAPSULE)
#: All corners of a box of half sizes 1.
CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
#: Radius of the ball of a height field, which is not bounded here.
ANYWHERE = 1e10
#: Largest number of balls per geom; with more, MuJoCo is as fast.
MOST_BALLS = 4096


class Parts:
    """Covers and items, collected pair by pair.

    Args:
        model: an `mujoco.MjModel`.
        bodies: numbers of the bodies involved.
        spacing: largest width of the cells that covers are made from, or None.
        exact: whether to leave covers without segments where they would protrude, so that distances to them are unknown.
    """

    def __init__(self, model: Any, bodies: list[int], spacing: float | None = None, exact: bool = False) -> None:
        self.model, self.spacing, self.exact, self.tree = model, spacing, exact, Tree(model, bodies)
        self.still = [_frame_row(WORLD)]
        #: frame, segments and a ball that contains them, of each cover
        self.covers: list[tuple[int, Floats, Floats]] = []
        self.items: list[tuple[int, int, int, int]] = []
        self.sizes: list[Floats] = []
        self.boxes: list[tuple[int, Floats]] = []
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
        if self.exact and isinstance(one, int) and kinds == [BOX, BOX]:
            self.boxes.append((self._frame(one), np.array(self.model.geom_size[one])))
        else:
            self.boxes.append((0, np.zeros(3)))
        return excess + more

    def compiled(self, entries: Ints | None, held: Floats, tolerance: float, depth: float) -> tuple[Swept, Boxes, Ints]:
        """All parts as arrays, for configurations of these entries of qpos and without strata; and the item of each pair."""
        frame = np.array([cover[0] for cover in self.covers], dtype=np.int64)
        segments, ball = np.concatenate([cover[1] for cover in self.covers]), np.array([cover[2] for cover in self.covers])
        start = np.cumsum([0, *(len(cover[1]) for cover in self.covers)])
        order = sorted(range(len(self.items)), key=self.items.__getitem__)  # the items of a cover consecutively
        items, size = np.array(self.items, dtype=np.int64)[order], np.array(self.sizes)[order]
        links, still, none = self.tree.links(entries, held), np.array(self.still), np.zeros(0, dtype=np.int64)
        swept = Swept(*links, still, frame, ball, start, segments, items, size, none, none, -1, tolerance, depth)
        boxes = [np.array(part) for part in zip(*(self.boxes[i] for i in order))]
        return swept, Boxes(*boxes), np.argsort(order)

    def _cover(self, side: int | Floats, body: int, corners: bool) -> tuple[int, float]:
        """Number of the cover of a geom or of user spheres, and how far it protrudes; `corners` suffice against a plane."""
        key = (side, corners) if isinstance(side, int) else (side.tobytes(), body)
        if key not in self._known:
            excess, reach, place = 0.0, 0.0, self.tree.places[body]
            if not isinstance(side, int):
                segments = _balls(side[:, :3], side[:, 3])
            else:
                place, kind = self.tree.place_of_geom(side), int(self.model.geom_type[side])
                reach = ANYWHERE if kind == HFIELD else float(self.model.geom_rbound[side])
                if corners and kind == BOX:
                    segments = _balls(CUBE * self.model.geom_size[side], 0.0)
                elif corners and kind == MESH:
                    segments = _balls(hull_corners(self.model, side), 0.0)
                elif self.exact and kind not in ROUND:
                    segments = np.empty((0, 7))
                else:
                    segments, excess = cover_of(self.model, side, self.spacing)
            link, origin, turn = place
            moved = np.column_stack([origin + segments[:, :3] @ turn.T, segments[:, 3:6] @ turn.T, segments[:, 6]])
            ball = _holding_ball(moved) if len(moved) else np.append(origin, reach)
            self.covers.append((max(link, -1), moved, ball))
            self._known[key] = len(self.covers) - 1, excess
        return self._known[key]

    def _frame(self, geom: int) -> int:
        """Identifier of the frame of a box or a plane."""
        if geom not in self._frames:
            place = self.tree.place_of_geom(geom)
            if place[0] >= 0:
                self._frames[geom] = self.tree.attach(place)
            else:
                self.still.append(_frame_row(place))
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


# -- covers ---------------------------------------------------------------------------------------------------------------


def cover_of(model: Any, geom: int, spacing: float | None) -> tuple[Floats, float]:
    """Segments (b, 7) in the geom's frame that cover it, and how far they protrude from it at most.

    `spacing` is the largest width of a cell, the thinnest width of the geom by default.
    """
    kind, size = int(model.geom_type[geom]), np.array(model.geom_size[geom])
    if kind == SPHERE:
        return np.array([[0, 0, 0, 0, 0, 0, size[0]]]), 0.0
    if kind == CAPSULE:
        return np.array([[0, 0, -size[1], 0, 0, 2 * size[1], size[0]]]), 0.0
    if kind != BOX:
        raise CaptureError(
            f"geom {model.geom(geom).name or geom} is not a sphere, capsule or box, so it has no automatic cover; pass its "
            "spheres as spheres={name: (k, 4)}."
        )
    counts = np.ceil(2 * size / (2 * size.min() if spacing is None else spacing) - 1e-9).astype(int)
    if (total := int(counts.astype(float).prod())) > MOST_BALLS:
        raise CaptureError(f"a geom would need {total:,} spheres, more than {MOST_BALLS:,}; use a larger spacing.")
    cell = size / counts
    axes = [cell[k] * (2 * np.arange(counts[k]) + 1) - size[k] for k in range(3)]
    middles = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    radius = float(np.linalg.norm(cell))
    return _balls(middles, radius), float(radius - cell.min())


def _balls(middles: Floats, radius: Any) -> Floats:
    """Balls around centres (b, 3) as segments (b, 7)."""
    return np.column_stack([middles, np.zeros((len(middles), 3)), np.broadcast_to(radius, len(middles))])


def _holding_ball(segments: Floats) -> Floats:
    """A ball that contains all segments (b, 7): its centre and radius (4,)."""
    ends = np.concatenate([segments[:, :3], segments[:, :3] + segments[:, 3:6]])
    radii = np.tile(segments[:, 6], 2)
    middle = ((ends - radii[:, None]).min(axis=0) + (ends + radii[:, None]).max(axis=0)) / 2
    return np.append(middle, (np.linalg.norm(ends - middle, axis=1) + radii).max())


def hull_corners(model: Any, geom: int) -> Floats:
    """Corners of a mesh's convex hull, which MuJoCo uses for collisions, in the geom's frame: (v, 3)."""
    mesh = int(model.geom_dataid[geom])
    first, graph = int(model.mesh_vertadr[mesh]), int(model.mesh_graphadr[mesh])
    vertices = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=np.float64)
    if graph < 0:  # the model has no hull: use every vertex
        return vertices
    count = int(model.mesh_graph[graph])
    # the graph holds the numbers of vertices and faces, then a list of edges for each vertex, then the vertices
    return np.asarray(vertices[model.mesh_graph[graph + 2 + count : graph + 2 + 2 * count]])


def _frame_row(place: Place) -> Floats:
    """A place in the world as a row of frames: (12,)."""
    return np.concatenate([place[1], place[2].ravel()])


# -- links -----------------------------------------------------------------------------------------------------------------


@dataclass
class Tree:
    """The kinematic tree of some bodies of a model, as links.

    Args:
        model: an `mujoco.MjModel`.
        bodies: numbers of the bodies whose poses are needed; other bodies get links only if these are attached to them.
    """

    model: Any
    bodies: Iterable[int]
    rows: list[tuple[int, int, int, float, Floats, Floats, Floats]] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted: set[int] = set()
        for body in self.bodies:
            while body not in wanted:  # up to the world body, which is its own parent
                wanted.add(body)
                body = int(self.model.body_parentid[body])
        self.places: dict[int, Place] = {0: WORLD}
        for body in sorted(wanted - {0}):
            self.places[body] = self._body(body)

    def place_of_geom(self, geom: int) -> Place:
        """Pose of a geom: its link, origin (3,) and rotation (3, 3)."""
        place = self.places[int(self.model.geom_bodyid[geom])]
        return _moved(place, self.model.geom_pos[geom], rotation(self.model.geom_quat[geom]))

    def attach(self, place: Place) -> int:
        """Number of a new link rigidly attached at a pose."""
        parent, origin, turn = place
        return self._add(parent, FIXED, 0, 0.0, origin, turn)

    def links(self, entries: Ints | None = None, held: Any = None) -> Links:
        """The links for configurations of these entries of qpos, all by default; other entries are fixed at `held` (nq,)."""
        column = np.full(self.model.nq, -1, dtype=np.int64)
        chosen = np.arange(self.model.nq) if entries is None else entries
        column[chosen] = np.arange(len(chosen))
        rest = np.array(self.model.qpos0 if held is None else held, dtype=np.float64)
        parent, kind, first = (np.array([row[i] for row in self.rows], dtype=np.int64) for i in range(3))
        zero = np.array([row[3] for row in self.rows], dtype=np.float64)
        fixed = np.array([np.r_[row[4], row[5].ravel()] for row in self.rows]).reshape(-1, 12)
        axis = np.array([row[6] for row in self.rows], dtype=np.float64).reshape(-1, 3)
        return Links(parent, kind, first, zero, fixed, axis, column, rest)

    def _add(
        self, parent: int, kind: int, first: int, zero: float, origin: Floats, turn: Floats, axis: Floats | None = None
    ) -> int:
        self.rows.append((parent, kind, first, zero, origin, turn, np.zeros(3) if axis is None else axis))
        return len(self.rows) - 1

    def _body(self, body: int) -> Place:
        """Pose of a body; adds the links of its joints."""
        model, types = self.model, mujoco_module().mjtJoint
        parent = self.places[int(model.body_parentid[body])]
        place = _moved(parent, model.body_pos[body], rotation(model.body_quat[body]))
        start = int(model.body_jntadr[body])
        for joint in range(start, start + int(model.body_jntnum[body])):
            (link, origin, turn), kind, first = place, int(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
            arm, axis, zero = np.array(model.jnt_pos[joint]), np.array(model.jnt_axis[joint]), float(model.qpos0[first])
            if kind == int(types.mjJNT_FREE):
                place = self._add(-1, FREE, first, 0.0, np.zeros(3), np.eye(3)), np.zeros(3), np.eye(3)
            elif kind == int(types.mjJNT_SLIDE):
                # keeps the rotation of its link; the body's own rotation is applied by the following links
                place = self._add(link, SLIDE, first, zero, origin, np.eye(3), turn @ axis), np.zeros(3), turn
            elif kind == int(types.mjJNT_BALL):
                place = self._add(link, BALL, first, 0.0, origin + turn @ arm, turn), -arm, np.eye(3)
            else:
                up = _upright(axis)
                place = self._add(link, HINGE, first, zero, origin + turn @ arm, turn @ up), -up.T @ arm, up.T
        return place


def rotation(quaternion: Any) -> Floats:
    """Rotation matrix (3, 3) of a quaternion (4,)."""
    matrix = np.empty(9)
    mujoco_module().mju_quat2Mat(matrix, np.asarray(quaternion, dtype=np.float64))
    return matrix.reshape(3, 3)


def _moved(place: Place, shift: Any, turn: Floats) -> Place:
    link, origin, turned = place
    return link, origin + turned @ np.asarray(shift), turned @ turn


def _upright(axis: Floats) -> Floats:
    """A rotation (3, 3) that takes z to a unit vector (3,)."""
    if axis[2] == 1.0:
        return np.eye(3)
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = np.cross(other, axis)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])
