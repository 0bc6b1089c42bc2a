"""Covers of geoms by balls and capsules, and how far a cover protrudes.

A cover is a set of segments (b, 7): the start of each, the vector to its end (0 for a ball), and a radius. Spheres and
capsules are their own covers. Boxes, cylinders and meshes are divided into cells, and each cell that intersects them gets a
ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.kernels.geoms import BOX, CAPSULE, CYLINDER, MESH, SPHERE
from capture_cp.spaces.geoms import hull_corners

#: Largest number of balls per geom; with more, MuJoCo is as fast.
MOST_BALLS = 4096


def cover_of(model: Any, geom: int, spacing: float | None) -> tuple[Floats, float]:
    """Segments (b, 7) in the geom's frame that cover it, and how far they protrude from it at most.

    `spacing` is the largest width of a cell, the thinnest width of the geom by default.
    """
    kind, size = int(model.geom_type[geom]), np.array(model.geom_size[geom])
    if kind == SPHERE:
        return np.array([[0, 0, 0, 0, 0, 0, size[0]]]), 0.0
    if kind == CAPSULE:
        return np.array([[0, 0, -size[1], 0, 0, 2 * size[1], size[0]]]), 0.0
    if kind == BOX:
        middles, cell = _cells(-size, size, spacing)
        least = most = np.zeros(len(middles))
    elif kind == CYLINDER:
        half = np.array([size[0], size[0], size[1]])
        middles, cell = _cells(-half, half, spacing)
        outside = np.stack([np.hypot(middles[:, 0], middles[:, 1]) - size[0], np.abs(middles[:, 2]) - size[1]])
        least = most = np.linalg.norm(np.maximum(outside, 0), axis=0)
    elif kind == MESH:
        corners = hull_corners(model, geom)
        middles, cell = _cells(corners.min(axis=0), corners.max(axis=0), spacing)
        least, most = np.array([_from_hull(corners, middle) for middle in middles]).T
    else:
        raise CaptureError(
            f"geom {model.geom(geom).name or geom} is not a sphere, capsule, box, cylinder or mesh, so it has no automatic "
            "cover; pass its spheres as spheres={name: (k, 4)}."
        )
    radius = float(np.linalg.norm(cell))
    kept = least <= radius
    sticks_out = radius - cell.min() if kind == BOX else most[kept].max() + radius
    return points(middles[kept], radius), float(sticks_out)


def points(middles: Floats, radius: Any) -> Floats:
    """Balls around centres (b, 3) as segments (b, 7)."""
    return np.column_stack([middles, np.zeros((len(middles), 3)), np.broadcast_to(radius, len(middles))])


def holding_ball(segments: Floats) -> Floats:
    """A ball that contains all segments (b, 7): its centre and radius (4,)."""
    ends = np.concatenate([segments[:, :3], segments[:, :3] + segments[:, 3:6]])
    radii = np.tile(segments[:, 6], 2)
    middle = ((ends - radii[:, None]).min(axis=0) + (ends + radii[:, None]).max(axis=0)) / 2
    return np.append(middle, (np.linalg.norm(ends - middle, axis=1) + radii).max())


def _cells(low: Floats, high: Floats, spacing: float | None) -> tuple[Floats, Floats]:
    """Centres (c, 3) of the cells that a box is divided into, and their half sizes (3,)."""
    width = np.maximum(high - low, 1e-9)
    counts = np.ceil(width / (width.min() if spacing is None else spacing) - 1e-9).astype(int)
    if (total := int(counts.astype(float).prod())) > MOST_BALLS:
        raise CaptureError(f"a geom would need {total:,} spheres, more than {MOST_BALLS:,}; use a larger spacing.")
    cell = width / counts / 2
    axes = [low[k] + cell[k] * (2 * np.arange(counts[k]) + 1) for k in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3), cell


def _from_hull(corners: Floats, point: Floats, steps: int = 200) -> tuple[float, float]:
    """Lower and upper bound of the distance of a point to the convex hull of corners (v, 3).

    Gilbert's algorithm: step from the nearest point so far towards the corner that lies farthest ahead.
    """
    near = corners[np.argmin(np.linalg.norm(corners - point, axis=1))] - point
    enough, least = 1e-3 * float(np.ptp(corners, axis=0).max()), 0.0
    for _ in range(steps):
        most, ahead = float(np.linalg.norm(near)), corners[np.argmin(corners @ near)] - point
        way = near - ahead
        gap = float(near @ way)
        least = max(least, most - gap / most) if most > 0 else 0.0
        if most - least <= enough:
            break
        near = near - min(1.0, gap / float(way @ way)) * way
    return least, float(np.linalg.norm(near))
