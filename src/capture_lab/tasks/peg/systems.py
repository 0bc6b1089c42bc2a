"""The true systems of the peg task, by name: on rails, or in the hand of a Panda."""

from __future__ import annotations

from typing import Final

from capture_cp.base.checks import known_name
from capture_lab.tasks.peg.arm import ArmSystem
from capture_lab.tasks.peg.planar import PlanarSystem
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.simulator import PegSystem

SYSTEMS: Final[dict[str, type[PegSystem]]] = {variant.name: variant for variant in (PlanarSystem, ArmSystem)}


def make_system(name: str = "planar", settings: PegSettings | None = None, threads: int | None = None) -> PegSystem:
    """The true system of that name; needs MuJoCo. `threads` (by default all cores) affect its speed only."""
    return SYSTEMS[known_name("system", name, SYSTEMS)](settings, threads)
