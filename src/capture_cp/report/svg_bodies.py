"""Bodies as measured and predicted, as SVG for pages: without a GPU, in the colours of the page's style (see `svg`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.report.solids import LIGHT, View, normals, rotation
from capture_cp.report.svg import path, text

Pose = Sequence[float]  # position in m and quaternion w x y z

#: Size of a picture, of the square in it that shows the bodies, and of the lens beside them; its largest magnification.
PICTURE, SQUARE, LENS = (360, 240), 186, 108
MOST, LEAST = 20.0, 1.7
#: Shades of a face, and height and angles (degrees) from which bodies are seen.
SHADES, HEIGHT_OF_VIEW, TURNS = 4, 20.0, range(15, 360, 30)


class Placed(NamedTuple):
    """Bodies in the world: corners (v, 3), faces (f, 3), edges (e, 2), the first corner of each, and links (l, 2, 3)."""

    corners: Floats
    faces: Ints
    edges: Ints
    firsts: tuple[int, ...]
    links: Floats

    @property
    def points(self) -> Floats:
        """All points (p, 3) that show where the bodies are."""
        return np.concatenate([self.corners, self.links.reshape(-1, 3)])


def placed(shapes: Sequence[Mapping[str, Any]], poses: Mapping[str, Pose]) -> Placed:
    """Shapes from `body_shapes` at their poses; the world stays where it is.

    A body without a shape is linked to its parent.
    """
    corners, faces, edges, links, firsts = [np.empty((0, 3))], [], [], [], [0]
    for shape in shapes:
        pose = poses.get(shape["name"], (0, 0, 0, 1, 0, 0, 0) if shape["name"] == "world" else None)
        if pose is None:
            continue
        if shape["vertices"]:
            turn = rotation(np.array(pose[3:]))
            corners.append(np.array(shape["vertices"]) @ turn.T + pose[:3])
            faces.append(np.array(shape["faces"], dtype=np.int64).reshape(-1, 3) + firsts[-1])
            edges.append(np.array(shape["edges"], dtype=np.int64).reshape(-1, 2) + firsts[-1])
            firsts.append(firsts[-1] + len(corners[-1]))
        else:
            links.append([poses.get(shape["parent"] or "", pose)[:3], pose[:3]])
    none = np.empty((0, 3), dtype=np.int64)
    joined = np.concatenate([none, *faces]), np.concatenate([none[:, :2], *edges])
    return Placed(np.concatenate(corners), *joined, tuple(firsts), np.array(links, dtype=float).reshape(-1, 2, 3))


def telling_view(pairs: Sequence[tuple[Placed, Placed]]) -> View:
    """The view in which measured and predicted bodies differ most."""
    views = [View.from_above(turn, HEIGHT_OF_VIEW) for turn in TURNS]
    moves = np.concatenate([np.empty((0, 3)), *(two.points - one.points for one, two in pairs)])
    return max(views, key=lambda view: float(np.linalg.norm(view.flat(moves), axis=1).max(initial=0.0)))


class Frame(NamedTuple):
    """A view, and what it shows: the middle (2,) of a square, and half of its side, in m."""

    view: View
    middle: Floats
    half: float

    @classmethod
    def around(cls, view: View, bodies: Iterable[Placed]) -> Frame:
        """The frame that holds bodies."""
        flat = view.flat(np.concatenate([one.points for one in bodies]))
        low, high = flat.min(axis=0), flat.max(axis=0)
        return cls(view, (low + high) / 2, max(float((high - low).max()), 1e-3) / 2)

    def flat(self, points: Floats) -> Floats:
        """Points (..., 3) in the picture, (..., 2)."""
        at = (self.view.flat(points) - self.middle) * (SQUARE / (2 * self.half)) * [1.0, -1.0]
        return np.asarray(at + np.array([SQUARE / 2 + 24, PICTURE[1] / 2]))


def scene(
    measured: Placed,
    predicted: Placed | None,
    frame: Frame,
    look: str,
    name: str,
    alt: str,
    start: Placed | None = None,
    ground: float | None = None,
    contacts: Floats | None = None,
    lens: bool = True,
) -> str:
    """Bodies as they were measured, solid, and as predicted, as a wireframe; with a lens where they differ most.

    `name` is an id of the page. Contacts are points (c, 3).
    """
    width, height = PICTURE if lens else (SQUARE + 48, PICTURE[1])
    parts = [] if ground is None else _ground(measured, frame, ground)
    if start is not None:
        parts.append(f'<path class="ghost" d="{path(_wires(start, frame)[0])}{path(frame.flat(start.links))}"/>')
    parts += _solid(measured, frame)
    if contacts is not None:
        parts += [f'<circle class="touch" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>' for x, y in frame.flat(contacts)]
    if predicted is not None:
        seen, hidden = _wires(predicted, frame)
        parts.append(f'<path class="wire far {look}" d="{path(hidden)}"/>')
        parts.append(f'<path class="wire {look}" d="{path(seen)}{path(frame.flat(predicted.links))}"/>')
        parts += [
            f'<circle class="knot {look}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in frame.flat(predicted.links[:, 1])
        ]
    view_box = f'viewBox="0 0 {width} {height}"'
    opened = f'<svg class="scene" {view_box} role="img" aria-label="{escape(alt)}"><g id="{escape(name)}">'
    shown = _lens(measured, predicted, frame, name) if lens and predicted is not None else ""
    return f"{opened}{''.join(parts)}</g>{shown}</svg>"


def _lens(measured: Placed, predicted: Placed, frame: Frame, name: str) -> str:
    """The place where two predictions differ most, magnified; nothing where that is seen without."""
    near = np.unique(measured.faces[_front(measured, frame)])  # a lens on the far side would show a face
    seen = np.concatenate([near, np.arange(len(measured.corners), len(measured.points))])
    one, two = frame.flat(measured.points[seen]), frame.flat(predicted.points[seen])
    apart = np.linalg.norm(two - one, axis=1)
    if not len(apart) or LENS / max(2.6 * float(apart.max()), 1e-9) < LEAST:
        return ""
    side = max(2.6 * float(apart.max()), LENS / MOST)
    most = np.flatnonzero(apart >= 0.9 * apart.max())  # of these, the one next to the lens
    (x, y), left = max((one + two)[most] / 2 - side / 2, key=lambda at: float(at[0] - at[1])), PICTURE[0] - LENS - 2
    larger, box = LENS / side, f'x="{left}" y="14" width="{LENS}" height="{LENS}"'
    shown = f'viewBox="{x:.2f} {y:.2f} {side:.2f} {side:.2f}" style="--zoom: {larger:.2f}"'
    return (
        f'<rect class="spot" x="{x:.2f}" y="{y:.2f}" width="{side:.2f}" height="{side:.2f}"/>'
        f'<path class="spot" d="M{x + side:.1f} {y:.1f}L{left} 14M{x + side:.1f} {y + side:.1f}L{left} {14 + LENS}"/>'
        f'<rect class="glass" {box}/><svg {box} {shown}><use href="#{escape(name)}"/></svg><rect class="rim" {box}/>'
        + text(left + LENS, 14 + LENS + 14, f"{larger:.{0 if larger > 3 else 1}f} times larger", "tick end")
    )


def _ground(bodies: Placed, frame: Frame, ground: float) -> list[str]:
    """The ground with the shadow of the bodies; how high they are where it is not in the picture."""
    points, (width, height) = bodies.points, PICTURE
    above = float(points[:, 2].min()) - ground
    if above > frame.half:
        return [text(10, height - 6, f"{1000 * above:.0f} mm above the ground", "tick")]
    far = 10 * frame.half  # beyond the picture from any side
    lines = np.arange(-far, far, frame.half / 2)
    grid = np.array([[(x, -far), (x, far)] for x in lines])
    grid = np.concatenate([grid, grid[..., ::-1]]) + points[:, :2].mean(axis=0)
    flat = frame.flat(np.concatenate([grid, np.full((*grid.shape[:-1], 1), ground)], axis=-1))
    found = [f'<rect class="ground" width="{width}" height="{height}"/><path class="tile" d="{path(flat)}"/>']
    for first, after in zip(bodies.firsts, bodies.firsts[1:]):
        below = bodies.corners[first:after] * [1.0, 1.0, 0.0] + [0.0, 0.0, ground]
        found.append(f'<path class="shadow" d="{path(_hull(frame.flat(below))[None], closed=True)}"/>')
    return found


def _solid(bodies: Placed, frame: Frame) -> list[str]:
    """Bodies, the farthest first: faces that are seen, in the shade of their direction, then edges; and links."""
    found, towards = [], frame.view.towards
    whole = [_part(bodies, first, after) for first, after in zip(bodies.firsts, bodies.firsts[1:])]
    for body in sorted(whole, key=lambda body: float(body.corners.mean(axis=0) @ towards)):
        corners = body.corners[body.faces[_front(body, frame)]]
        corners = corners[np.argsort(corners.mean(axis=1) @ towards, kind="stable")]
        light = 0.5 + 0.5 * normals(corners) @ LIGHT
        shade = np.clip((SHADES * light).astype(int), 0, SHADES - 1)
        for same in np.split(np.arange(len(shade)), np.flatnonzero(np.diff(shade)) + 1):
            look = f"face shade{shade[same[0]] if len(same) else 0}"
            found.append(f'<path class="{look}" d="{path(frame.flat(corners[same]), closed=True)}"/>')
        found.append(f'<path class="edge" d="{path(_wires(body, frame)[0])}"/>')
    if len(bodies.links):
        found.append(f'<path class="link" d="{path(frame.flat(bodies.links))}"/>')
        found += [f'<circle class="joint" cx="{x:.1f}" cy="{y:.1f}" r="5"/>' for x, y in frame.flat(bodies.links[:, 1])]
    return found


def _part(bodies: Placed, first: int, after: int) -> Placed:
    """The body with these corners."""
    of = [lines[(lines[:, 0] >= first) & (lines[:, 0] < after)] - first for lines in (bodies.faces, bodies.edges)]
    return Placed(bodies.corners[first:after], of[0], of[1], (0, after - first), bodies.links[:0])


def _front(bodies: Placed, frame: Frame) -> Bools:
    """Which faces turn towards the viewer: (f,)."""
    return np.asarray(normals(bodies.corners[bodies.faces]) @ frame.view.towards > 0)


def _wires(bodies: Placed, frame: Frame) -> tuple[Floats, Floats]:
    """Edges and outlines that are seen, and edges on the far side, as lines (n, 2, 2) of the picture."""
    faces = bodies.faces[_front(bodies, frame)]
    pairs, count = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0, return_counts=True)
    number = len(bodies.corners) + 1
    near = np.isin(bodies.edges @ [number, 1], pairs @ [number, 1])
    seen = np.concatenate([bodies.edges[near], pairs[count == 1]])
    return frame.flat(bodies.corners[seen]), frame.flat(bodies.corners[bodies.edges[~near]])


def _hull(points: Floats) -> Floats:
    """The convex outline of points (n, 2)."""
    from scipy.spatial import ConvexHull

    return np.asarray(points[ConvexHull(points, qhull_options="QJ").vertices])
