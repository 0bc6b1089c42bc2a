"""Drawing of scenes in viser, one after another: the middle of the live page (needs viser, extra `view`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import rgb
from capture_cp.report.scene import Body, Handle, Points, Scene

#: Size of the handle, width of a plane without end, and distance between its lines.
HANDLE, ENDLESS, CELL = 0.22, 4.0, 0.1
#: Images of viser have their top at -y.
TURNED = (0.0, 1.0, 0.0, 0.0)


class LiveScene:
    """Draws scenes on a server; of bodies only what has changed is sent. Drawn by one thread only.

    Args:
        server: viser's.
        dragged: called with the place (3,) to which a person dragged the handle.
    """

    def __init__(self, server: Any, dragged: Callable[[Floats], None]) -> None:
        self._draws, self._dragged = server.scene, dragged
        self._solids: dict[str, tuple[Body, Any]] = {}
        self._clouds: set[str] = set()
        self._box: tuple[str, ...] = ()
        self._handle: Any = None
        self._draws.add_frame("/task", show_axes=False)
        self._draws.add_light_hemisphere("/task/sky", intensity=2.5, position=(0.0, 0.0, 3.0))

    def draw(self, scene: Scene) -> None:
        """Show a scene in place of the one before."""
        for name in [name for name in self._solids if name not in scene.bodies]:
            self._solids.pop(name)[1].remove()
        for name, body in scene.bodies.items():
            self._solid(name, body, scene.scale)
        for name in self._clouds | scene.points.keys():
            self._cloud(name, scene.points.get(name), scene.scale)
        if scene.picture is not None:
            size = scene.side * np.array(scene.picture.shape[1::-1]) / max(scene.picture.shape[:2])
            self._draws.add_image("/task/picture", scene.picture, *size, format="jpeg", jpeg_quality=92, wxyz=TURNED)
        if scene.box != self._box:
            self._box = scene.box
            self._edges(scene.side)
        if scene.handle is not None:
            self._put(scene.handle, scene.scale)

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _solid(self, name: str, body: Body, scale: float) -> None:
        before: Body | None
        handle: Any
        before, handle = self._solids.get(name, (None, None))
        if before is None or not _alike(before, body):
            if handle is not None:
                handle.remove()
            before, handle = None, self._made(f"/task/body/{name}", body, scale)
        if before is None or not np.array_equal(before.place, body.place):
            handle.position = scale * body.place
        if before is None or not np.array_equal(before.turn, body.turn):
            handle.wxyz = _quaternion(body.turn)
        self._solids[name] = body, handle

    def _made(self, name: str, body: Body, scale: float) -> Any:
        """A new solid of viser's, at the origin."""
        size, draws = scale * np.asarray(body.size), self._draws
        look: dict[str, Any] = {"color": _paint(body.colour), "opacity": None if body.opacity == 1 else body.opacity}
        if body.kind == "plane":
            width, height = np.where(size[:2] > 0, 2 * size[:2], scale * ENDLESS)
            return draws.add_grid(name, width=width, height=height, cell_size=scale * CELL)
        if body.kind == "box":
            return draws.add_box(name, dimensions=tuple(2 * size), **look)
        if body.kind == "sphere":
            return draws.add_icosphere(name, radius=size[0], subdivisions=4, **look)
        if body.kind == "cylinder":
            return draws.add_cylinder(name, radius=size[0], height=2 * size[1], **look)
        corners, faces = _capsule(size[0], size[1]) if body.mesh is None else (scale * body.mesh[0], body.mesh[1])
        return draws.add_mesh_simple(name, corners, faces, **look)

    # -- points, pictures, cubes, handles -----------------------------------------------------------------------------

    def _cloud(self, name: str, cloud: Points | None, scale: float) -> None:
        path = f"/task/points/{name}"
        if cloud is None or not len(cloud.at):
            if name in self._clouds:
                self._draws.remove_by_name(path)
                self._clouds.remove(name)
            return
        paint = np.tile(rgb(cloud.colours), (len(cloud.at), 1)) if isinstance(cloud.colours, str) else cloud.colours
        look = {
            "point_size": scale * cloud.size,
            "point_shape": cloud.shape,
            "precision": "float32",
            "point_shading": "flat",
        }
        self._draws.add_point_cloud(path, scale * cloud.at, paint.astype(np.uint8), **look)
        self._clouds.add(name)

    def _edges(self, side: float) -> None:
        """The edges of a cube about the origin, with a text along each axis."""
        half = side / 2
        corners = half * np.array(list(product((-1.0, 1.0), repeat=3)))
        edges = np.array([(a, b) for a, b in combinations(corners, 2) if (a != b).sum() == 1])
        self._draws.add_line_segments("/task/box", edges, (160, 160, 160), thickness=0.004)
        places = (0.0, -half - 0.08, -half), (half + 0.08, 0.0, -half), (-half - 0.05, -half - 0.05, 0.0)
        for axis, (text, place) in enumerate(zip(self._box, places)):
            self._draws.add_label(f"/task/axis{axis}", text, position=place, anchor="center-center")

    def _put(self, handle: Handle, scale: float) -> None:
        """Move the handle, which is made when it is first needed."""
        place = scale * handle.place
        if self._handle is None:
            options: dict[str, Any] = {"active_axes": handle.axes, "disable_rotations": True, "depth_test": False}
            self._handle = self._draws.add_transform_controls("/task/handle", HANDLE, position=place, **options)
            self._handle.on_update(lambda event: self._moved(event, scale))
        if not np.allclose(self._handle.position, place, atol=1e-6):
            self._handle.position = place
        turn = _quaternion(handle.turn)
        if not np.allclose(self._handle.wxyz, turn, atol=1e-6):
            self._handle.wxyz = turn

    def _moved(self, event: Any, scale: float) -> None:
        if event.client is not None:  # by a person, not by this program
            self._dragged(np.asarray(event.target.position) / scale)


def _alike(one: Body, other: Body) -> bool:
    """Whether two bodies differ in place and rotation only."""
    same = (one.kind, one.colour, one.opacity) == (other.kind, other.colour, other.opacity)
    meshes = (one.mesh is None) == (other.mesh is None)
    if one.mesh is not None and other.mesh is not None:
        meshes = all(map(np.array_equal, one.mesh, other.mesh))
    return same and meshes and np.array_equal(one.size, other.size)


def _capsule(radius: float, half: float) -> tuple[Floats, Any]:
    """Vertices (n, 3) and triangles (m, 3) of a capsule along z about the origin."""
    import trimesh

    mesh = trimesh.creation.capsule(height=2 * half, radius=radius, count=(16, 16))
    mesh.apply_translation(-mesh.bounds.mean(axis=0))
    return np.asarray(mesh.vertices), mesh.faces


def _quaternion(turn: Floats) -> Floats:
    import viser.transforms as transforms

    return np.asarray(transforms.SO3.from_matrix(turn).wxyz)


def _paint(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(part) for part in rgb(colour))
    return red, green, blue
