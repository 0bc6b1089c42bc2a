"""The true systems of the peg in MuJoCo: on rails in the plane of the hole, the fast one, or in the hand of a Panda."""

from __future__ import annotations

import cmath
import json
import math
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Final

import numpy as np

from capture_cp.base.checks import (
    CaptureError,
    Floats,
    Ints,
    finite_array,
    finite_rows,
    known_name,
    same_length,
    whole_number,
)
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_lab.tasks.peg.mjcf import FLOOR, SUBSTEPS, arm_model, planar_model
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings

#: From the flange to the centre of the peg, whose upper half the fingers hold (m).
GRIP = 0.115
#: Position of the arm's base, behind the hole (m). All of REACH is then 9 degrees or more from the joint limits.
BASE = -0.52
#: Pose at which the controller's inertia is computed: above the hole, upright.
WORKING_POSE: Floats = np.array([0.0, 0.025, 0.0])
#: The joints that move the peg in the plane of the hole, and the one that turns the hand about the peg.
SHOULDER, ELBOW, WRIST, HAND = 1, 3, 5, 6
#: Stiffness factor of the joints that would leave the plane: friction must not push the peg off it.
HOLD = 16.0
#: Poses (x, z, theta) allowed as starts and targets of the peg: the paper's grid extended by 1 cm and 10 degrees.
REACH: Floats = np.array([[-0.04, -0.02, -np.radians(50)], [0.04, 0.06, np.radians(50)]])
#: Largest overlap (m) of a start with the receptacle. The 0.01 mm² that the paper allows are a corner 0.10 mm deep in a
#: face, or 0.11 mm deep in another corner.
DEEPEST_START = 1.2e-4
#: Largest peg and hole that the scene has space for (m).
LARGEST = 0.1


class PegSystem(ABC):
    """The true system: a controller moves the peg towards a target, against friction and walls.

    The controller's target is the pose at the start of the control step plus the commanded displacement, held for the
    whole step, as in the simulation suite the paper builds on: motion blocked by contact is not made up for later. A
    target beyond `REACH` is clipped to it.

    Attributes:
        name: name of this variant in commands and tables.
        settings: sizes, noise, gain and friction.
        threads: threads of `transitions`; its results do not depend on them.
        model, data: MuJoCo's objects, for drawing; `data` holds the state of the closed loop.
    """

    name: ClassVar[str]

    def __init__(self, settings: PegSettings | None = None, threads: int | None = None) -> None:
        self.settings = settings or PegSettings()
        self.threads = (os.cpu_count() or 1) if threads is None else whole_number("threads", threads, 1)
        _check_sizes(self.settings)
        self._mujoco = mujoco_module()
        self.model = self._build()
        self.data = self._mujoco.MjData(self.model)
        self._started = False

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process is built again, and must be reset before it steps."""
        return type(self), (self.settings, self.threads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r}, threads={self.threads})"

    # -- implemented by variants --------------------------------------------------------------------------------------

    @abstractmethod
    def _build(self) -> Any:
        """Its MuJoCo model, with a site `peg` at the centre of the peg."""

    @abstractmethod
    def _joints(self, pose: Floats) -> Floats:
        """Joint positions (nq,) that put the peg at a pose (3,)."""

    @abstractmethod
    def _controls(self, target: Floats) -> Floats:
        """Controls (nu,) that send the peg to a pose (3,)."""

    # -- batches ------------------------------------------------------------------------------------------------------

    def applied(self, actions: Floats, rng: np.random.Generator) -> Floats:
        """The displacements (n, 3) in m, m, rad that actions (n, 3) in mm, mm, degrees become: noise, bound, gain."""
        wanted = finite_rows("actions", actions, 3, "(n, 3): x, z in mm and theta in degrees")
        noisy = wanted + self.settings.noise * rng.standard_normal(wanted.shape)
        return np.asarray(self.settings.gain * np.clip(noisy, -self.settings.bound, self.settings.bound) * ACTION_UNIT)

    def transitions(self, poses: Floats, displacements: Floats) -> Floats:
        """Poses (n, 3) one control step after the peg, at rest at poses (n, 3), is moved by displacements (n, 3).

        All in m, m, rad; `applied` converts actions. Bit-identical for any batch and any number of threads.
        """
        start, move = _pose_rows("poses", poses), _pose_rows("displacements", displacements)
        same_length("poses", start, "displacements", move)
        return self.along(start, move[:, None])[:, 0]

    def along(self, starts: Floats, moves: Floats) -> Floats:
        """Poses (n, H, 3) after each displacement (n, H, 3), from rest at starts (n, 3); velocities are kept on the way."""
        _check_reach(starts)
        poses, depth = np.empty_like(moves), np.zeros(len(starts))

        def work(rows: Ints) -> None:
            data = self._mujoco.MjData(self.model)
            for i in rows:  # one by one: vectorised arithmetic may round a row differently in another batch
                depth[i], pose = self._place(data, starts[i]), starts[i]
                for h in range(moves.shape[1] if depth[i] <= DEEPEST_START else 0):
                    self._advance(data, pose + moves[i, h])
                    pose = poses[i, h] = self._read(data)

        with ThreadPoolExecutor(self.threads) as pool:  # MuJoCo releases Python's lock while it steps
            list(pool.map(work, np.array_split(np.arange(len(starts)), self.threads)))
        _check_outside(starts, depth)
        return poses

    # -- closed loop --------------------------------------------------------------------------------------------------

    def reset(self, pose: Floats) -> Floats:
        """Put the peg at rest at a pose (3,); returns the pose."""
        start = finite_array("pose", pose, (3,), "(3,): x, z, theta in m, m, rad")
        _check_reach(start[None])
        self._started = False
        _check_outside(start[None], np.array([self._place(self.data, start)]))
        self._mujoco.mj_camlight(self.model, self.data)  # so that the scene can be drawn before the first step
        self._started = True
        return self._read(self.data)

    def step(self, action: Floats, rng: np.random.Generator) -> Floats:
        """One control step with an action (3,) in mm, mm, degrees, disturbed; returns the pose (3,).

        The simulator continues from its present state, velocities included.
        """
        if not self._started:
            raise CaptureError("the peg has not been placed yet; call reset(pose) before step(action, rng).")
        wanted = finite_array("action", action, (3,), "(3,): x, z in mm and theta in degrees")
        self._advance(self.data, self._read(self.data) + self.applied(wanted, rng)[0])
        return self._read(self.data)

    # -- MuJoCo -------------------------------------------------------------------------------------------------------

    def _place(self, data: Any, pose: Floats) -> float:
        """Put the peg at rest; returns how deep it is in the receptacle (m)."""
        self._mujoco.mj_resetData(self.model, data)
        data.qpos[:] = self._joints(pose)
        self._mujoco.mj_kinematics(self.model, data)
        self._mujoco.mj_collision(self.model, data)
        return max(0.0, -float(data.contact.dist.min())) if data.ncon else 0.0

    def _advance(self, data: Any, target: Floats) -> None:
        data.ctrl[:] = self._controls(np.clip(target, *REACH))
        self._mujoco.mj_step(self.model, data, SUBSTEPS)

    def _read(self, data: Any) -> Floats:
        """The pose (3,) of the peg's site at the present joint positions."""
        site = self.model.site("peg").id
        self._mujoco.mj_kinematics(self.model, data)
        (x, _, z), axis = data.site_xpos[site], data.site_xmat[site][2::3]
        return np.array([x, z, np.arctan2(-axis[0], axis[2])])


@cache
def panda() -> dict[str, Any]:
    """The arm's published parameters."""
    text = resources.files("capture_lab.tasks.peg").joinpath("panda.json").read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


class PlanarSystem(PegSystem):
    """A rectangle in a slot whose joints are its pose; each is driven to its target, critically damped."""

    name = "planar"

    def _build(self) -> Any:
        return self._mujoco.MjModel.from_xml_string(planar_model(self.settings))

    def _joints(self, pose: Floats) -> Floats:
        return pose

    def _controls(self, target: Floats) -> Floats:
        return target


class ArmSystem(PegSystem):
    """Seven joints under operational-space control, without gravity, the peg fixed in the hand.

    In the plane the arm has as many joints as a pose has numbers, so the operational-space law
    τ = Jᵀ Λ (ω² (c* - c) - 2 ω ċ), with the inertia Λ = (J M⁻¹ Jᵀ)⁻¹ at the peg, is the joint law
    τ = M (ω² (q* - q) - 2 ω q̇) up to the curvature of a move of millimetres. The other joints are held by the same law, more
    stiffly. With M = L Lᵀ, taken at the working pose, it needs no callback: MuJoCo drives seven tendons, the columns of L,
    each like a unit mass. There are no torque limits: such a stiff controller needs tens of times the real arm's torque.
    """

    name = "arm"

    def _build(self) -> Any:
        self._shape: Floats = np.eye(7)
        self._shape = np.asarray(np.linalg.cholesky(self._gains(self._compile())))
        return self._compile()

    def _compile(self) -> Any:
        return self._mujoco.MjModel.from_xml_string(arm_model(self.settings, panda(), BASE, GRIP, self._shape))

    def _gains(self, model: Any) -> Floats:
        """The controller's inertia (7, 7): that of the joints at the working pose, in the plane and across it separately."""
        data, inertia = self._mujoco.MjData(model), np.empty((7, 7))
        data.qpos[:] = self._joints(WORKING_POSE)
        self._mujoco.mj_forward(model, data)
        for row, unit in zip(inertia, np.eye(7)):
            self._mujoco.mj_mulM(model, data, row, unit)
        in_plane = np.isin(np.arange(7), (SHOULDER, ELBOW, WRIST))
        return np.where(np.equal.outer(in_plane, in_plane), inertia, 0.0) * np.where(in_plane, 1.0, HOLD)

    def _joints(self, pose: Floats) -> Floats:
        return inverse_kinematics(pose)

    def _controls(self, target: Floats) -> Floats:
        return inverse_kinematics(target) @ self._shape


SYSTEMS: Final[dict[str, type[PegSystem]]] = {variant.name: variant for variant in (PlanarSystem, ArmSystem)}


def make_system(name: str = "planar", settings: PegSettings | None = None, threads: int | None = None) -> PegSystem:
    """The true system of that name; needs MuJoCo. `threads` (by default all cores) affect its speed only."""
    return SYSTEMS[known_name("system", name, SYSTEMS)](settings, threads)


def inverse_kinematics(pose: Floats) -> Floats:
    """Joint angles (7,) that put the peg at a pose (3,), elbow up: two links to the wrist, which then turns the hand.

    Points and directions of the plane are complex numbers x + i z; the shoulder leans to negative angles.
    """
    joints, flange = panda()["joints"], panda()["flange"]
    upper, fore = complex(joints[3]["a"], joints[2]["d"]), complex(joints[4]["a"], joints[4]["d"])
    hand = complex(joints[6]["a"], -flange["d"] - GRIP)
    shoulder = complex(BASE, FLOOR + joints[0]["d"])
    x, z, theta = pose.tolist()
    wrist = complex(x, z) - hand * cmath.exp(1j * theta) - shoulder
    cosine = (abs(wrist) ** 2 - abs(upper) ** 2 - abs(fore) ** 2) / (2 * abs(upper) * abs(fore))
    bend = -math.acos(cosine)  # of the forearm against the upper arm
    lift = cmath.phase(wrist / (abs(upper) + abs(fore) * cmath.exp(1j * bend)))
    angles = np.zeros(7)
    angles[SHOULDER] = cmath.phase(upper) - lift
    angles[ELBOW] = cmath.phase(upper) + bend - cmath.phase(fore)
    angles[WRIST] = theta - lift - bend + cmath.phase(fore)
    angles[HAND] = math.pi - math.radians(flange["turn"])  # the fingers close across the plane
    return angles


def _check_sizes(settings: PegSettings) -> None:
    size = max(settings.peg_length, settings.hole_depth, settings.hole_width)
    if size > LARGEST:
        raise CaptureError(
            f"the peg or its hole measures {size * 1e3:.1f} mm; the scene allows at most {LARGEST * 1e3:.0f} mm, "
            "so make it smaller."
        )


def _pose_rows(name: str, rows: Floats) -> Floats:
    return finite_rows(name, rows, 3, "(n, 3): x, z, theta in m, m, rad")


def _check_reach(poses: Floats) -> None:
    out = np.flatnonzero(((poses < REACH[0]) | (poses > REACH[1])).any(axis=1))
    if len(out):
        raise CaptureError(
            f"{len(out)} of {len(poses)} poses are out of reach, first {_text(poses[out[0]])}; expected x, z, theta "
            f"(m, m, rad) between {_text(REACH[0])} and {_text(REACH[1])}."
        )


def _check_outside(poses: Floats, depth: Floats) -> None:
    inside = np.flatnonzero(depth > DEEPEST_START)
    if len(inside):
        worst = inside[depth[inside].argmax()]
        raise CaptureError(
            f"{len(inside)} of {len(poses)} poses lie inside the receptacle or the table, the worst, {_text(poses[worst])}, "
            f"by {depth[worst] * 1e3:.3f} mm; start the peg from feasible poses."
        )


def _text(pose: Floats) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in pose) + ")"
