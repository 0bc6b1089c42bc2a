"""The MuJoCo model of a shelf with the arm in front of it: the arm's file with boards, walls and glasses added."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from capture_cp.base.checks import positive_number
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_lab.tasks.shelf.shelves import Corners, Shelf

JOINTS = tuple(f"joint{i}" for i in range(1, 8))
#: Parts of the arm that may touch the shelf or a glass, and fixtures that they may touch.
PARTS, FIXTURES = ("forearm", "wrist", "palm", "jar"), ("board", "wall")
WOOD, GLASS = ".8 .68 .5 1", ".55 .8 .9 .55"


@dataclass(frozen=True)
class Physics:
    """Properties of the true arm that the model lacks.

    Attributes:
        payload: mass of the jar (kg), which is not compensated.
        stiffness: stiffness of the impedance controller, as a fraction of that in the arm's file.
        friction: coefficient of friction of all contacts.
        noise: standard deviation of the disturbance of every commanded joint angle (rad).
    """

    payload: float = 2.0
    stiffness: float = 1.0
    friction: float = 0.6
    noise: float = 0.012

    def __post_init__(self) -> None:
        positive_number("payload", self.payload)
        positive_number("stiffness", self.stiffness)
        for name, value in (("friction", self.friction), ("noise", self.noise)):
            if value != 0:
                positive_number(name, value)


def scene_text(shelf: Shelf, physics: Physics) -> str:
    """MJCF of the arm in front of a shelf; glasses are drawn, and touch nothing."""
    root = ET.fromstring(_arm())
    world = root.find("worldbody")
    assert world is not None
    for kind, boxes, opacity in (("board", shelf.boards, 1.0), ("wall", shelf.walls, 0.35)):
        _add_boxes(world, kind, boxes, opacity)
    body = ET.SubElement(world, "body", name="glass")
    for name, glass in shelf.glasses.items():
        x, y, z, _, _, way, radius = glass.segment
        ends = _row((x, y, z, x, y, z + way))
        look = {"fromto": ends, "size": repr(radius), "rgba": GLASS, "conaffinity": "2"}
        ET.SubElement(body, "geom", {"class": "drawn"}, name=f"glass {name}", **look)
    ET.SubElement(world, "site", name="goal", pos=_row(shelf.goal), size=repr(shelf.within), rgba="0 .62 .45 .5")
    for geom in root.iter("geom"):
        if geom.get("friction"):
            geom.set("friction", f"{physics.friction!r} 0 0")
        if geom.get("name") == "jar":
            geom.set("mass", repr(physics.payload))
    for servo in root.iter("position"):
        for gain, power in (("kp", 1.0), ("kv", 0.5)):  # keeps the damping ratio
            servo.set(gain, repr(float(servo.get(gain, "0")) * physics.stiffness**power))
    return ET.tostring(root, encoding="unicode")


def scene_model(shelf: Shelf, physics: Physics) -> Any:
    """The compiled model of a shelf."""
    return mujoco_module().MjModel.from_xml_string(scene_text(shelf, physics))


def _add_boxes(world: ET.Element, kind: str, boxes: Mapping[str, Corners], opacity: float) -> None:
    body = ET.SubElement(world, "body", name=kind)
    colour = " ".join((*WOOD.split()[:3], repr(opacity)))
    for name, corners in boxes.items():
        low, high = np.array(corners)
        where = {"pos": _row((low + high) / 2), "size": _row((high - low) / 2), "rgba": colour}
        ET.SubElement(body, "geom", {"class": "fixed"}, name=f"{kind} {name}", **where)


@cache
def _arm() -> str:
    return resources.files("capture_lab.tasks.shelf").joinpath("panda.xml").read_text(encoding="utf-8")


def _row(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)
