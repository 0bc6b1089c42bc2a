"""Rigid motions of many rows at once in NumPy: quaternions (w, x, y, z), rotation vectors, and frames of a MuJoCo model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats

Frame = tuple[Floats, Floats]  # position (n, 3) and quaternion (n, 4)
FREE, BALL, SLIDE, HINGE = range(4)  # MuJoCo's types of joints


def multiplied(a: Floats, b: Floats) -> Floats:
    """Quaternions of rotating first by `b` (..., 4), then by `a` (..., 4)."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q: Floats) -> Floats:
    """The inverse rotations of unit quaternions (..., 4)."""
    return q * [1.0, -1.0, -1.0, -1.0]


def rotated(q: Floats, v: Floats) -> Floats:
    """Vectors v (..., 3) rotated by unit quaternions q (..., 4)."""
    turn = 2 * np.cross(q[..., 1:], v)
    return np.asarray(v + q[..., :1] * turn + np.cross(q[..., 1:], turn))


def matrices(q: Floats) -> Floats:
    """Rotation matrices (n, 3, 3) of unit quaternions (n, 4)."""
    return np.stack([rotated(q, np.broadcast_to(axis, (len(q), 3))) for axis in np.eye(3)], axis=-1)


def from_vector(v: Floats) -> Floats:
    """Quaternions (..., 4) of rotation vectors (..., 3) in rad."""
    angle = np.linalg.norm(v, axis=-1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), 0.5 * np.sinc(angle / (2 * np.pi)) * v], axis=-1)


def to_vector(q: Floats) -> Floats:
    """Rotation vectors (..., 3) of unit quaternions (..., 4), of at most half a turn."""
    sine = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    half = np.arctan2(sine, np.abs(q[..., :1]))
    scale = np.where(sine > 1e-12, 2 * half / np.maximum(sine, 1e-12), 2.0)
    return np.asarray(np.where(q[..., :1] < 0, -1.0, 1.0) * scale * q[..., 1:])


def angle_between(a: Floats, b: Floats) -> Floats:
    """Angles (...) in rad between the rotations a (..., 4) and b (..., 4)."""
    return np.asarray(np.linalg.norm(to_vector(multiplied(conjugate(a), b)), axis=-1))


def frames(model: Any, qpos: Floats, bodies: Iterable[int]) -> dict[int, Frame]:
    """Frames of some bodies of a MuJoCo model, and of all that they hang from, at configurations qpos (n, nq)."""
    found: dict[int, Frame] = {0: (np.zeros((len(qpos), 3)), np.tile([1.0, 0.0, 0.0, 0.0], (len(qpos), 1)))}
    for body in bodies:
        chain = [int(body)]
        while chain[-1] not in found:
            chain.append(int(model.body_parentid[chain[-1]]))
        for one in reversed(chain[:-1]):
            found[one] = _moved(model, qpos, one, found[int(model.body_parentid[one])])
    return found


def placed(frame: Frame, pos: Floats, quat: Floats) -> Frame:
    """The frames with position pos (3,) and quaternion quat (4,) within other frames."""
    return frame[0] + rotated(frame[1], np.broadcast_to(pos, frame[0].shape)), multiplied(frame[1], quat)


def _moved(model: Any, qpos: Floats, body: int, parent: Frame) -> Frame:
    """The frame of a body whose parent's is known: through its joints in order, as MuJoCo does."""
    joints = range(int(model.body_jntadr[body]), int(model.body_jntadr[body]) + int(model.body_jntnum[body]))
    if len(joints) and model.jnt_type[joints[0]] == FREE:
        first = int(model.jnt_qposadr[joints[0]])
        return qpos[:, first : first + 3], qpos[:, first + 3 : first + 7]
    pos, quat = placed(parent, model.body_pos[body], model.body_quat[body])
    for j in joints:
        first, kind = int(model.jnt_qposadr[j]), int(model.jnt_type[j])
        axis = rotated(quat, np.broadcast_to(model.jnt_axis[j], pos.shape))
        if kind == SLIDE:
            pos = pos + axis * (qpos[:, first] - model.qpos0[first])[:, None]
            continue
        anchor = pos + rotated(quat, np.broadcast_to(model.jnt_pos[j], pos.shape))
        if kind == BALL:
            turn = qpos[:, first : first + 4]
        else:
            turn = from_vector(model.jnt_axis[j] * (qpos[:, first] - model.qpos0[first])[:, None])
        quat = multiplied(quat, turn)
        pos = anchor - rotated(quat, np.broadcast_to(model.jnt_pos[j], pos.shape))
    return pos, quat
