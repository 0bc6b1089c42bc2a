"""A scene in three dimensions as plain arrays, made by a task or from a log: bodies, points, a flat picture, a handle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.report.canvas import Picture

Kind = Literal["plane", "sphere", "capsule", "cylinder", "box", "mesh"]
#: Kinds of geoms by their numbers in MuJoCo, and the first of its groups that its own viewer hides.
MUJOCO_KINDS: dict[int, Kind] = {0: "plane", 2: "sphere", 3: "capsule", 5: "cylinder", 6: "box", 7: "mesh"}
HIDDEN_GROUP = 3
UPRIGHT: Floats = np.eye(3)


@dataclass(frozen=True)
class Body:
    """One solid, measured as in MJCF.

    Attributes:
        kind: its shape.
        size: (3,) half sides of a box or plane; the radius of a sphere; radius and half length, along z, of a capsule or a
            cylinder; nothing for a mesh. A plane of size 0 has no end.
        place: (3,) position of its middle.
        colour: "#rrggbb".
        turn: (3, 3) rotation.
        opacity: from 0 to 1.
        mesh: vertices (n, 3) and triangles (m, 3) of a mesh.
    """

    kind: Kind
    size: Floats
    place: Floats
    colour: str
    turn: Floats = field(default_factory=lambda: UPRIGHT)
    opacity: float = 1.0
    mesh: tuple[Floats, Ints] | None = None


@dataclass(frozen=True)
class Points:
    """Points (n, 3) of one size; `colours` are one "#rrggbb", or (n, 3) from 0 to 255."""

    at: Floats
    colours: str | Floats
    size: float
    shape: Literal["circle", "square", "diamond", "sparkle"] = "circle"


@dataclass(frozen=True)
class Handle:
    """A handle at a place (3,) that people drag along some axes of a frame with rotation `turn` (3, 3)."""

    place: Floats
    axes: tuple[bool, bool, bool] = (True, True, True)
    turn: Floats = field(default_factory=lambda: UPRIGHT)


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn in three dimensions at one time.

    Attributes:
        bodies: solids by name, among them goals and hazards.
        points: regions, particles and paths, by name.
        picture: lies flat about the origin; its longer side has length `side`.
        box: texts along the three edges of a cube of length `side` about the origin; none without a cube.
        handle: to drag, if there is one.
        scale: factor on all lengths; cameras and handles are made for scenes of about one unit.
    """

    bodies: Mapping[str, Body] = field(default_factory=dict)
    points: Mapping[str, Points] = field(default_factory=dict)
    picture: Picture | None = None
    side: float = 1.2
    box: tuple[str, ...] = ()
    handle: Handle | None = None
    scale: float = 1.0


def mujoco_bodies(model: Any, data: Any) -> dict[str, Body]:
    """The visible geoms of a MuJoCo model in the state of `data`, by name, or by number where they have none."""
    bodies = {}
    for i in range(model.ngeom):
        body = geom_body(model, i, data.geom_xpos[i].copy(), data.geom_xmat[i].reshape(3, 3).copy())
        if body is not None and model.geom_group[i] < HIDDEN_GROUP:
            bodies[(model.geom(i).name or f"geom {i}").replace(" ", "-")] = body
    return bodies


def geom_body(model: Any, i: int, place: Floats, turn: Floats) -> Body | None:
    """Geom i of a MuJoCo model at a place (3,) with rotation `turn` (3, 3); None if its kind cannot be drawn."""
    kind = MUJOCO_KINDS.get(int(model.geom_type[i]))
    if kind is None:
        return None
    *colour, opacity = model.geom_rgba[i].tolist()
    shown = "#" + "".join(f"{round(255 * part):02x}" for part in colour)
    mesh = _mesh(model, int(model.geom_dataid[i])) if kind == "mesh" else None
    return Body(kind, model.geom_size[i].copy(), place, shown, turn, opacity, mesh)


def _mesh(model: Any, mesh: int) -> tuple[Floats, Ints]:
    corner, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
    corners = model.mesh_vert[corner : corner + int(model.mesh_vertnum[mesh])]
    return corners.astype(np.float64), model.mesh_face[face : face + int(model.mesh_facenum[mesh])].astype(np.int64)
