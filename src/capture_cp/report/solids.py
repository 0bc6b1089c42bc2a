"""Pictures of bodies without a GPU: solid, as outlines in a flat view, and the edges of wireframes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.report.canvas import rgb
from capture_cp.report.panel import Image, Shape
from capture_cp.report.scene import HIDDEN_GROUP, Body, Points, geom_body

#: Corners around a round body, and rows of them along a quarter of its profile.
AROUND, ROWS = 32, 8
#: Direction of the light, fraction of a colour that is seen in the shade, and pixels per side that become one.
LIGHT, SHADE, FINE = np.array([-0.35, -0.45, 0.82]), 0.55, 2
#: Half a side of a plane without end (m), and the largest angle (radians) between faces that look like one.
ENDLESS, FLAT = 1.0, 0.02
#: Of shapes of bodies: the same two numbers, the angle of a fold that is drawn, the most faces of a geom, and the smallest
#: geom beside the largest of its body.
COARSE, FOLD, MOST_FACES, TINY = (16, 5), 0.7, 400, 0.04

_HFIELD, _ELLIPSOID = 1, 4  # of MuJoCo's types of geoms

Triangles = tuple[Floats, Ints]


class View(NamedTuple):
    """A direction of view without perspective: unit vectors (3,) to the right, up and towards the viewer."""

    name: str
    right: Floats
    up: Floats
    towards: Floats

    @classmethod
    def from_above(cls, turn: float, height: float) -> View:
        """The view from an angle around the vertical, counted from x, and from a height, both in degrees."""
        a, h = np.radians(turn), np.radians(height)
        towards = np.array([np.cos(h) * np.cos(a), np.cos(h) * np.sin(a), np.sin(h)])
        right = np.array([-np.sin(a), np.cos(a), 0.0])
        return cls("from above", right, np.cross(towards, right), towards)

    def flat(self, points: Any) -> Floats:
        """Points (..., 3) of the world in the picture: (..., 2)."""
        return np.stack([np.asarray(points) @ self.right, np.asarray(points) @ self.up], axis=-1)


#: From the front, x to the right and z up; and from above, x to the right and y up.
SIDE = View("side view", *np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]))
TOP = View("top view", *np.eye(3))


# -- triangles ----------------------------------------------------------------------------------------------------------


def triangles(body: Body, fineness: tuple[int, int] = (AROUND, ROWS)) -> Triangles:
    """Vertices (v, 3) of a body in the world, and its faces (f, 3), counter-clockwise seen from outside."""
    a, b = float(body.size[0]), float(body.size[1])
    if body.kind == "mesh":
        assert body.mesh is not None
        corners, faces = body.mesh
    elif body.kind in ("box", "plane"):
        half = body.size if body.kind == "box" else np.append(np.where(body.size[:2] > 0, body.size[:2], ENDLESS), 1e-6)
        corners, faces = np.asarray(half) * _cube()[0], _cube()[1]
    else:
        corners, faces = _round(body.kind, a, 0.0 if body.kind == "sphere" else b, *fineness)
    return corners @ np.asarray(body.turn).T + body.place, faces


@lru_cache(1)
def _cube() -> Triangles:
    corners = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return corners, np.array([face for a, b, c, d in quads for face in ((a, b, c), (a, c, d))])


@lru_cache(256)
def _round(kind: str, radius: float, half: float, around: int, rows: int) -> Triangles:
    """A sphere, a capsule or a cylinder along z: the surface that its profile describes when it turns."""
    if kind == "cylinder":
        radii, heights = radius * np.array([0.0, 1, 1, 0]), half * np.array([1.0, 1, -1, -1])
    else:
        turn = np.linspace(0, np.pi / 2, rows)
        turn, along = np.append(turn, turn + np.pi / 2), np.repeat([half, -half], rows)
        radii, heights = radius * np.sin(turn), radius * np.cos(turn) + along
    angles = np.linspace(0, 2 * np.pi, around, endpoint=False)
    corners = np.stack([np.outer(radii, np.cos(angles)), np.outer(radii, np.sin(angles))], axis=-1)
    corners = np.concatenate([corners, np.repeat(heights[:, None, None], around, axis=1)], axis=-1).reshape(-1, 3)
    first, after = (around * np.arange(len(radii) - 1)[:, None] + (np.arange(around) + i) % around for i in (0, 1))
    faces = np.stack([first, first + around, after + around, first, after + around, after], axis=-1).reshape(-1, 3)
    corners, same = np.unique(corners.round(12), axis=0, return_inverse=True)  # the poles are one corner each
    faces = same.ravel()[faces]
    return corners, faces[[len(set(face)) == 3 for face in faces.tolist()]]


def normals(corners: Floats) -> Floats:
    """Unit normals (f, 3) of triangles (f, 3, 3); zero where a triangle has no area."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(across, axis=1, keepdims=True)
    return np.asarray(np.divide(across, length, out=np.zeros_like(across), where=length > 0))


# -- pictures -----------------------------------------------------------------------------------------------------------


def outlines(bodies: Iterable[Body], view: View, **look: Any) -> tuple[Shape, ...]:
    """The convex outlines of bodies in a view, the farthest first; in their own colours unless `look` has another."""
    from scipy.spatial import ConvexHull

    found = []
    for body in _back_to_front(bodies, view):
        points = view.flat(triangles(body)[0])
        hull = points[ConvexHull(points, qhull_options="QJ").vertices]
        found.append(Shape(hull, **(dict[str, Any](fill=body.colour, opacity=body.opacity) | look)))
    return tuple(found)


def sharp_edges(corners: Floats, faces: Ints, fold: float = FLAT) -> Ints:
    """Pairs (e, 2) of corners between faces (f, 3) whose directions differ by at least an angle, or of one face only."""
    pairs = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    pairs, which, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    across = np.repeat(normals(corners[faces]), 3, axis=0)
    mean = np.stack([np.bincount(which.ravel(), across[:, axis]) for axis in range(3)], axis=1) / count[:, None]
    sharp = (count == 1) | (np.linalg.norm(mean, axis=1) < np.cos(fold / 2))
    return np.asarray(pairs[sharp])


def body_shapes(model: Any) -> list[dict[str, Any]]:
    """Shapes of the bodies of a MuJoCo model as plain lists, for pictures that are drawn again without it.

    For each body `name`, `parent` (None below the world), and, in the body's frame in m, `vertices`, `faces` and the folded
    `edges` of its visible geoms: all empty where it has none. The world is among them only if it has more than planes.
    """
    named = [model.body(i).name or f"body {i}" for i in range(model.nbody)]
    shapes = []
    for i, name in enumerate(named):
        corners, faces, folds = _joined(_solids(model, i))
        if i or len(corners):
            parent = named[model.body_parentid[i]] if model.body_parentid[i] else None
            lists = {"vertices": corners.round(5).tolist(), "faces": faces.tolist(), "edges": folds.tolist()}
            shapes.append({"name": name, "parent": parent, **lists})
    return shapes


def _solids(model: Any, body: int) -> list[Triangles]:
    """The geoms of a body in its frame, of few faces each: those that a viewer shows, without those too small to be seen."""
    geoms = np.flatnonzero((model.geom_bodyid == body) & (model.geom_type > _HFIELD))
    shown = geoms[model.geom_group[geoms] < HIDDEN_GROUP]
    geoms = shown if len(shown) else geoms
    reach = model.geom_rbound[geoms]
    found = []
    for geom in geoms[reach >= TINY * reach.max(initial=0.0)]:
        turn = rotation(model.geom_quat[geom])
        solid = geom_body(model, int(geom), model.geom_pos[geom].copy(), turn)
        if solid is not None:
            found.append(_simplified(*triangles(solid, COARSE)))
        elif model.geom_type[geom] == _ELLIPSOID:
            corners, faces = _round("sphere", 1.0, 0.0, *COARSE)
            found.append((model.geom_size[geom] * corners @ turn.T + model.geom_pos[geom], faces))
    return found


def _joined(solids: Sequence[Triangles]) -> tuple[Floats, Ints, Ints]:
    """Corners (v, 3), faces (f, 3) and folded edges (e, 2) of several solids together."""
    first = np.cumsum([0, *(len(corners) for corners, _ in solids)]).tolist()
    corners = [corners for corners, _ in solids]
    faces = [faces + start for (_, faces), start in zip(solids, first)]
    folds = [sharp_edges(*solid, FOLD) + start for solid, start in zip(solids, first)]
    none = np.empty((0, 3), dtype=np.int64)
    return (
        np.concatenate([np.empty((0, 3)), *corners]),
        np.concatenate([none, *faces]),
        np.concatenate([none[:, :2], *folds]),
    )


def _simplified(corners: Floats, faces: Ints) -> Triangles:
    """At most `MOST_FACES` faces: corners in one cell of a grid become one, and cells grow until that is reached."""
    pitch = float(np.ptp(corners, axis=0).max()) / 40
    while len(faces) > MOST_FACES:
        _, which = np.unique(np.floor(corners / pitch), axis=0, return_inverse=True)
        count = np.bincount(which.ravel())
        corners = np.stack([np.bincount(which.ravel(), axis) / count for axis in corners.T], axis=1)
        faces = which.ravel()[faces]
        faces = np.unique(faces[[len(set(face)) == 3 for face in faces.tolist()]], axis=0)
        pitch *= 1.3
    return corners, faces


def rotation(quaternion: Floats) -> Floats:
    """The rotation (3, 3) of a unit quaternion w x y z."""
    w, x, y, z = quaternion
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + 2 * w * cross + 2 * cross @ cross)


def rendered(
    bodies: Iterable[Body],
    view: View,
    low: Floats,
    high: Floats,
    pixels: int,
    points: Sequence[Points] = (),
    ground: str = "#ffffff",
) -> Image:
    """A solid picture of the part of a view between two corners (2,), `pixels` wide; what is near hides what is far.

    Points are balls whose diameter is their size.
    """
    from capture_cp.kernels.triangles import paint_triangles

    if not pixels > 0 or not (np.asarray(high) > np.asarray(low)).all():
        raise CaptureError(f"a picture of {pixels} pixels from {low} to {high}; expected a corner above the other.")
    pitch = float(high[0] - low[0]) / (FINE * pixels)
    rows = FINE * max(1, round(float(high[1] - low[1]) / (FINE * pitch)))
    picture = np.tile(rgb(ground), (rows, FINE * pixels, 1))
    nearest = np.full(picture.shape[:2], -np.inf)

    def paint(corners: Floats, colours: Floats, opacity: float) -> None:
        """Paint triangles (f, 3, 3), those that face the viewer, in the colours (f, 3) of their bodies."""
        directions = normals(corners)
        seen = directions @ view.towards > 0
        across = (view.flat(corners[seen]) - low) / pitch
        at = np.stack([rows - across[..., 1], across[..., 0], corners[seen] @ view.towards], axis=-1)
        light = SHADE + (1 - SHADE) * np.maximum(directions[seen] @ LIGHT, 0.0)
        paint_triangles(picture, nearest, at, light[:, None] * colours[seen], opacity)

    ordered = _back_to_front(bodies, view)
    for clear in (False, True):  # what is transparent is seen on everything behind it
        for body in [body for body in ordered if (body.opacity < 1) == clear]:
            corners, faces = triangles(body)
            paint(corners[faces], np.tile(rgb(body.colour), (len(faces), 1)), body.opacity)
        if not clear:
            corners, faces = _ball()
            for cloud in points:
                balls = cloud.size / 2 * corners[faces] + np.asarray(cloud.at)[:, None, None]
                paint_of = rgb(cloud.colours) if isinstance(cloud.colours, str) else cloud.colours[:, None]
                colours = np.broadcast_to(paint_of, (len(cloud.at), len(faces), 3))
                paint(balls.reshape(-1, 3, 3), colours.reshape(-1, 3), 1.0)
    fine = picture.reshape(rows // FINE, FINE, pixels, FINE, 3)
    return Image(fine.mean(axis=(1, 3)).astype(np.uint8), np.asarray(low), np.asarray(high), smooth=True)


@lru_cache(1)
def _ball() -> Triangles:
    """An octahedron of radius 1: round enough for a dot."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    faces = [(0, 1, 2), (1, 3, 2), (3, 4, 2), (4, 0, 2), (1, 0, 5), (3, 1, 5), (4, 3, 5), (0, 4, 5)]
    return corners, np.array(faces)


def _back_to_front(bodies: Iterable[Body], view: View) -> list[Body]:
    """Bodies by the distance of their places from the viewer, the farthest first."""
    return sorted(bodies, key=lambda body: float(np.asarray(body.place) @ view.towards))
