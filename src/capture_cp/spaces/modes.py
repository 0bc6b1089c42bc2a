"""Contact modes of configurations: which bodies of a MuJoCo model touch, or at how many points the only pair does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, positive_number
from capture_cp.spaces.mujoco_model import mujoco_module, read_model

#: Modes by the number of touching points of one pair of bodies.
COUNTED = ("free", "1 point", "2 points", "3+ points")
#: Gap (m) up to which bodies touch.
TOUCH = 3e-3


class ContactModes:
    """The contact mode of each configuration qpos (n, nq) of a model.

    By default modes are named by the bodies that touch, "finger-cube + cube" for a cube between finger and ground. Where
    only one pair of bodies can touch, the number of touching points counts; where none can, all is "free".

    Args:
        model: an MJCF or URDF file, MJCF text, or an `mujoco.MjModel`.
        touch: gap in m up to which geoms touch.
        by: "bodies" or "count"; by default whichever fits the model.
    """

    def __init__(self, model: Any, touch: float = TOUCH, by: str | None = None) -> None:
        if by not in (None, "bodies", "count"):
            raise CaptureError(f"modes are by {by!r}; expected bodies or count.")
        self.model, self.touch = read_model(model), positive_number("touch", touch)
        self.pairs = _pairs(self.model)
        self.by = by or ("count" if len(self.pairs) == 1 else "bodies")
        self.names: tuple[str, ...] = COUNTED if self.by == "count" and self.pairs else ("free",)
        mujoco = mujoco_module()
        flags = mujoco.mjtDisableBit
        self.model.opt.disableflags &= ~int(flags.mjDSBL_CONTACT)
        self.model.opt.disableflags |= int(flags.mjDSBL_MIDPHASE)  # its boxes know the original margins
        self.model.geom_margin[:] = self.model.pair_margin[:] = self.touch  # contacts are reported from this gap on

    def index(self, qpos: Floats) -> Ints:
        """The mode of each configuration, (n,), a number into `names`; which names exist depends on what occurs."""
        found = np.zeros(len(qpos), dtype=np.int64)
        if not self.pairs:
            return found
        mujoco, data = mujoco_module(), None
        data = mujoco.MjData(self.model)
        names, known = list(self.names), {name: i for i, name in enumerate(self.names)}
        for i, row in enumerate(qpos):
            data.qpos[:] = row
            mujoco.mj_kinematics(self.model, data)
            mujoco.mj_comPos(self.model, data)
            mujoco.mj_collision(self.model, data)
            if data.ncon:
                name = self._name(data)
                if name not in known:
                    known[name] = len(names)
                    names.append(name)
                found[i] = known[name]
        self.names = tuple(names)
        return found

    def points(self, qpos: Floats) -> Floats:
        """The points (c, 3) that touch at one configuration qpos (nq,)."""
        mujoco = mujoco_module()
        data = mujoco.MjData(self.model)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        return np.array(data.contact.pos[data.contact.dist < self.touch]).reshape(-1, 3)

    def _name(self, data: Any) -> str:
        near = data.contact.dist < self.touch
        if self.by == "count":
            return COUNTED[min(int(near.sum()), len(COUNTED) - 1)]
        roots = self.model.body_weldid[self.model.geom_bodyid[data.contact.geom[near]]]
        pairs = sorted({tuple(sorted(pair)) for pair in roots.tolist()})
        return " + ".join(self._pair(one, other) for one, other in pairs) or COUNTED[0]

    def _pair(self, one: int, other: int) -> str:
        """The name of two touching bodies; of one alone where the other is the ground or fixed to it."""
        return "-".join(body_name(self.model, body) for body in (one, other) if body)


def body_name(model: Any, body: int) -> str:
    """The name of a body; its number where it has none."""
    return model.body(body).name or f"body {body}"


def joint_name(model: Any, joint: int) -> str:
    """The name of a joint; that of its body where it has none."""
    return model.joint(joint).name or body_name(model, int(model.jnt_bodyid[joint]))


def _pairs(model: Any) -> set[tuple[int, int]]:
    """The pairs of moving bodies, or of one and the fixed world, whose geoms may touch by the rules of MuJoCo."""
    root, parent = model.body_weldid, model.body_weldid[model.body_parentid[model.body_weldid]]
    excluded = {(int(code) >> 16, int(code) & 0xFFFF) for code in model.exclude_signature}
    filtered = not model.opt.disableflags & int(mujoco_module().mjtDisableBit.mjDSBL_FILTERPARENT)

    def may_touch(one: int, other: int) -> bool:
        a, b = (int(model.geom_bodyid[geom]) for geom in (one, other))
        kin = filtered and root[a] and root[b] and (parent[a] == root[b] or parent[b] == root[a])
        types, affinities = model.geom_contype, model.geom_conaffinity
        meet = types[one] & affinities[other] or types[other] & affinities[one]
        return bool(root[a] != root[b] and not kin and meet and (min(a, b), max(a, b)) not in excluded)

    listed: Sequence[tuple[int, int]] = list(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist()))
    dynamic = [pair for pair in combinations(range(model.ngeom), 2) if may_touch(*pair)]
    found = [sorted(int(root[model.geom_bodyid[geom]]) for geom in pair) for pair in [*listed, *dynamic]]
    return {(one, other) for one, other in found}
