"""The peg on rails: two slides and a hinge in the plane of the hole, the fast variant of the true system."""

from __future__ import annotations

from typing import Any

from capture_cp.base.checks import Floats
from capture_lab.tasks.peg.mjcf import planar_model
from capture_lab.tasks.peg.simulator import PegSystem


class PlanarSystem(PegSystem):
    """A rectangle in a slot whose joints are its pose; each is driven to its target, critically damped."""

    name = "planar"

    def _build(self) -> Any:
        return self._mujoco.MjModel.from_xml_string(planar_model(self.settings))

    def _joints(self, pose: Floats) -> Floats:
        return pose

    def _controls(self, target: Floats) -> Floats:
        return target
