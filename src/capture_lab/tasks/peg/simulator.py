"""What all true systems of the peg task share: MuJoCo, transitions in batches, and closed-loop steps."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, finite_rows, same_length, whole_number
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_lab.tasks.peg.mjcf import SUBSTEPS
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings

#: Poses (x, z, theta) allowed as starts and targets of the peg: the paper's grid extended by 1 cm and 10 degrees.
REACH: Floats = np.array([[-0.04, -0.02, -np.radians(50)], [0.04, 0.06, np.radians(50)]])
#: Largest overlap (m) of a start with the receptacle. The 0.01 mm² that the paper allows are a corner 0.10 mm deep in a
#: face, or 0.11 mm deep in another corner.
DEEPEST_START = 1.2e-4
#: Largest peg and hole that the scene has space for (m).
LARGEST = 0.1


class Landing(NamedTuple):
    """The peg at the end of a control step, and whether it is at rest and in the plane.

    Attributes:
        poses: (n, 3).
        velocities: of the pose, (n, 3) in m/s, m/s, rad/s.
        off_plane: larger distance of the peg's two ends from the plane of the hole, (n,) in metres.
    """

    poses: Floats
    velocities: Floats
    off_plane: Floats


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
        return self.land(poses, displacements).poses

    def land(self, poses: Floats, displacements: Floats) -> Landing:
        """Like `transitions`, with the velocities at the end and the distance from the plane."""
        start, move = _pose_rows("poses", poses), _pose_rows("displacements", displacements)
        same_length("poses", start, "displacements", move)
        _check_reach(start)
        landing = Landing(np.empty_like(start), np.empty_like(start), np.empty(len(start)))
        depth = np.zeros(len(start))

        def work(rows: Ints) -> None:
            data = self._mujoco.MjData(self.model)
            for i in rows:  # one by one: vectorised arithmetic may round a row differently in another batch
                depth[i] = self._place(data, start[i])
                if depth[i] <= DEEPEST_START:
                    self._advance(data, start[i] + move[i])
                    landing.poses[i], landing.velocities[i], landing.off_plane[i] = self._read(data)

        with ThreadPoolExecutor(self.threads) as pool:  # MuJoCo releases Python's lock while it steps
            list(pool.map(work, np.array_split(np.arange(len(start)), self.threads)))
        _check_outside(start, depth)
        return landing

    # -- closed loop --------------------------------------------------------------------------------------------------

    def reset(self, pose: Floats) -> Floats:
        """Put the peg at rest at a pose (3,); returns the pose."""
        start = finite_array("pose", pose, (3,), "(3,): x, z, theta in m, m, rad")
        _check_reach(start[None])
        self._started = False
        _check_outside(start[None], np.array([self._place(self.data, start)]))
        self._mujoco.mj_camlight(self.model, self.data)  # so that the scene can be drawn before the first step
        self._started = True
        return self._read(self.data)[0]

    def step(self, action: Floats, rng: np.random.Generator) -> Floats:
        """One control step with an action (3,) in mm, mm, degrees, disturbed; returns the pose (3,).

        The simulator continues from its present state, velocities included.
        """
        if not self._started:
            raise CaptureError("the peg has not been placed yet; call reset(pose) before step(action, rng).")
        wanted = finite_array("action", action, (3,), "(3,): x, z in mm and theta in degrees")
        self._advance(self.data, self._read(self.data)[0] + self.applied(wanted, rng)[0])
        return self._read(self.data)[0]

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

    def _read(self, data: Any) -> tuple[Floats, Floats, float]:
        """Pose (3,), velocity (3,) and distance from the plane, from the peg's site at the present joint positions."""
        mujoco, site = self._mujoco, self.model.site("peg").id
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_comVel(self.model, data)
        velocity = np.empty(6)
        mujoco.mj_objectVelocity(self.model, data, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        (x, y, z), axis = data.site_xpos[site], data.site_xmat[site][2::3]
        pose = np.array([x, z, np.arctan2(-axis[0], axis[2])])
        off_plane = abs(y) + self.settings.peg_length / 2 * abs(axis[1])
        return pose, velocity[[3, 5, 1]] * [1, 1, -1], float(off_plane)


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
