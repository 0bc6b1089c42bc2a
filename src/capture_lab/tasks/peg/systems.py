"""The two true systems of the peg: on rails in the plane of the hole, the fast variant, or in the hand of a Franka Panda."""

from __future__ import annotations

import cmath
import json
import math
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np

from capture_cp.base.checks import Floats, known_name
from capture_lab.tasks.peg.mjcf import FLOOR, arm_model, planar_model
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.simulator import PegSystem

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
