"""The links of a MuJoCo model, as arrays for compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.kernels.kinematics import BALL, FIXED, FREE, HINGE, SLIDE, Links
from capture_cp.spaces.mujoco_model import mujoco_module

#: A pose in the world or on a link: the link's number (-1: the world), an origin (3,) and a rotation (3, 3).
Place = tuple[int, Floats, Floats]

WORLD: Place = (-1, np.zeros(3), np.eye(3))


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
