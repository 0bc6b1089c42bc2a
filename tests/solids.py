"""Signed distances of convex solids, worked out without any collision library.

Two convex solids overlap exactly where the origin lies in their Minkowski difference; their distance, or the depth of their
overlap, is the distance of the origin from its surface. A solid here is the convex hull of a few points, grown by a radius:
a ball is one point, a capsule two, a box eight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)


@dataclass(frozen=True)
class Solid:
    """The convex hull of `points` (v, 3), grown by `radius`, and the attributes of the MuJoCo geom that is the same."""

    points: np.ndarray
    radius: float
    geom: str
    asset: str = ""

    def at(self, place: np.ndarray, turn: Rotation) -> np.ndarray:
        """The points, moved: (v, 3)."""
        return turn.apply(self.points) + place

    def outer_point(self, direction: np.ndarray, turn: Rotation, rng: np.random.Generator) -> np.ndarray:
        """A point (3,) of the turned hull, between up to four of its points that lie farthest along a unit vector (3,)."""
        points = turn.apply(self.points)
        farthest = points[np.argsort(points @ direction)[-int(rng.integers(1, 5)) :]]
        return rng.dirichlet(np.ones(len(farthest))) @ farthest


def box(*half: float) -> Solid:
    return Solid(CUBE * half, 0.0, f'type="box" size="{_text(half)}"')


def ball(radius: float) -> Solid:
    return Solid(np.zeros((1, 3)), radius, f'type="sphere" size="{radius}"')


def capsule(radius: float, half: float) -> Solid:
    return Solid(np.array([[0, 0, -half], [0, 0, half]]), radius, f'type="capsule" size="{radius} {half}"')


def hull(name: str, corners: int, size: float, seed: int) -> Solid:
    """A mesh: so many random points on a ball's surface, centred as MuJoCo centres meshes."""
    points = np.random.default_rng(seed).standard_normal((corners, 3))
    points *= size / np.linalg.norm(points, axis=1, keepdims=True)
    return Solid(points, 0.0, f'type="mesh" mesh="{name}"', f'<mesh name="{name}" vertex="{_text(points.ravel())}"/>')


def signed_distance(one: np.ndarray, other: np.ndarray) -> float:
    """Of the convex hulls of points (v, 3) and (w, 3): their distance, or minus the depth of their overlap."""
    difference = (one[:, None] - other[None]).reshape(-1, 3)
    if len(one) <= 2 and len(other) <= 2:  # at most a parallelogram, which has no inside
        corners = difference[[0, 1, 3, 2]] if len(difference) == 4 else np.resize(difference, (4, 3))
        return _from_triangles(corners[[[0, 1, 2], [0, 2, 3]]])
    surface = ConvexHull(difference)
    depth = -float(surface.equations[:, 3].max())
    return -depth if depth >= 0 else _from_triangles(difference[surface.simplices])


def _from_triangles(corners: np.ndarray) -> float:
    """Distance of the origin to the nearest of triangles (n, 3, 3)."""
    nearest = min(_from_edges(corners[:, i], corners[:, (i + 1) % 3]) for i in range(3))
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normal, axis=1)
    whole = area > 1e-14 * np.abs(corners).max() ** 2
    corners, normal = corners[whole], normal[whole] / area[whole, None]
    height = np.einsum("ni,ni->n", corners[:, 0], normal)
    # the foot of the perpendicular is inside where it is to the left of every edge
    foot = height[:, None] * normal
    sides = [_left(corners[:, i], corners[:, (i + 1) % 3], foot, normal) for i in range(3)]
    above = np.abs(height[np.all(sides, axis=0)])
    return float(min(nearest, above.min(initial=np.inf)))


def _left(start: np.ndarray, end: np.ndarray, point: np.ndarray, normal: np.ndarray) -> np.ndarray:
    return np.einsum("ni,ni->n", np.cross(end - start, point - start), normal) >= 0


def _from_edges(start: np.ndarray, end: np.ndarray) -> float:
    along = end - start
    length = np.einsum("ni,ni->n", along, along)
    share = np.clip(-np.einsum("ni,ni->n", start, along) / np.where(length > 0, length, 1.0), 0, 1)
    return float(np.linalg.norm(start + share[:, None] * along, axis=1).min())


def _text(numbers) -> str:
    return " ".join(repr(float(number)) for number in numbers)
