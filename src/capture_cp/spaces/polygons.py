"""Obstacles and footprints as polygons: vertex lists, or objects with a `__geo_interface__` such as shapely polygons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, pi
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, positive_number, whole_number
from capture_cp.spaces.grid import Grid

HEADINGS = 72
_CORNERS = "(v, 2): x and y of one corner per row"


def labelled_cells(
    obstacles: Any,
    bounds: Any,
    spacing: Any,
    radius: Any,
    footprint: Any,
    headings: Any,
    tolerance: Any,
    walls: bool,
) -> tuple[Grid, Ints]:
    """A grid and the number of obstacles touched at each cell, -1 where infeasible; arguments as in `from_polygons`."""
    box, step = _checked_bounds(bounds), positive_number("spacing", spacing)
    polygons = [_rings(f"obstacle {i}", part) for i, part in enumerate(_parts(obstacles))]
    polygons += _walls(box) if walls else []
    if not polygons:
        raise CaptureError("there are no obstacles, so nothing can be touched; list some, or pass walls=True.")
    edges = [np.concatenate([_edges(ring) for ring in rings]) for rings in polygons]
    corners = np.zeros((1, 2)) if footprint is None else _footprint(footprint)
    grown = 0.0 if radius is None else positive_number("radius", radius, or_zero=True)
    turning = footprint is not None or headings is not None
    grid = _grid(box, step, (HEADINGS if headings is None else whole_number("headings", headings, 1)) if turning else None)
    size = float(np.hypot(*corners.T).max())
    reach = _tolerance(tolerance, grid, size)
    x, y = (grid.origin[axis] + grid.spacing[axis] * np.arange(grid.shape[axis]) for axis in (0, 1))
    margin = (size + grown + reach) * (1 + 1e-9)
    boxes = np.array([[*(part[:, :2].min(axis=0) - margin), *(part[:, :2].max(axis=0) + margin)] for part in edges])
    solid = np.concatenate(edges), np.cumsum([0, *map(len, edges)]), boxes
    angles = grid.origin[2] + grid.spacing[2] * np.arange(grid.shape[2]) if turning else np.zeros(1)
    from capture_cp.kernels.polygons import touched

    slices = [touched(x, y, _turned(corners, a), *solid, grown, reach) for a in angles]
    return grid, np.stack(slices, axis=-1).ravel()


def _grid(box: Floats, step: float, headings: int | None) -> Grid:
    flat = Grid.between(box[:2].tolist(), box[2:].tolist(), step)
    if headings is None:
        return flat
    turn = 2 * pi / headings
    return Grid([*flat.origin, -pi], [step, step, turn], [*flat.shape, headings], periodic=(2,))


def _tolerance(given: Any, grid: Grid, size: float) -> float:
    """The tolerance, at least the distance that the footprint may move within half a cell."""
    half = hypot(*grid.spacing[:2]) / 2 + (size * float(grid.spacing[2]) / 2 if grid.dims == 3 else 0.0)
    if given is None:
        return half
    tolerance = positive_number("tolerance", given)
    if tolerance < half * (1 - 1e-9):
        raise CaptureError(
            f"tolerance is {tolerance:g}, but within half a cell the robot moves by up to {half:.4g}; choose a smaller "
            "spacing, more headings, or a larger tolerance."
        )
    return tolerance


# -- polygons -------------------------------------------------------------------------------------------------------------


def _parts(obstacles: Any) -> list[Any]:
    """The obstacles as a list; a MultiPolygon is split into its polygons."""
    shape = getattr(obstacles, "__geo_interface__", obstacles)
    if isinstance(shape, Mapping):
        if shape.get("type") == "MultiPolygon":
            return [{"type": "Polygon", "coordinates": rings} for rings in shape["coordinates"]]
        return [shape]
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise CaptureError(f"obstacles are {obstacles!r}; expected a list of polygons, each a list of corners (x, y).")
    parts = list(shape)
    if parts and isinstance(parts[0], Sequence | np.ndarray) and np.ndim(parts[0]) == 1:
        raise CaptureError("obstacles are the corners of one polygon; put it in a list: [polygon].")
    return parts


def _rings(name: str, polygon: Any) -> list[Floats]:
    """Rings of one polygon, the outer one first, each (v, 2) and not closed."""
    shape = getattr(polygon, "__geo_interface__", polygon)
    if isinstance(shape, Mapping):
        if shape.get("type") != "Polygon" or not shape.get("coordinates"):
            raise CaptureError(f"{name} is a {shape.get('type')} or is empty; expected a Polygon with corners.")
        rings = [_ring(name, ring) for ring in shape["coordinates"]]
    else:
        rings = [_ring(name, shape)]
    from capture_cp.kernels.polygons import inside

    outer = _edges(rings[0])
    if not all(inside(hole[0, 0], hole[0, 1], outer) for hole in rings[1:]):
        raise CaptureError(f"{name} has a hole that lies outside it; a hole must lie inside its polygon.")
    return rings


def _ring(name: str, corners: Any) -> Floats:
    ring = finite_array(name, corners, (None, None), _CORNERS)[:, :2]  # a third number, a height, is ignored
    if ring.shape[1] != 2:
        raise CaptureError(f"{name} has {ring.shape[1]} numbers per corner; expected {_CORNERS}.")
    ring = np.ascontiguousarray(ring[:-1] if len(ring) > 1 and (ring[0] == ring[-1]).all() else ring)
    from capture_cp.kernels.polygons import first_crossing

    one, other = first_crossing(ring)
    if one >= 0:
        raise CaptureError(
            f"{name} crosses itself: its edges from corner {one} and from corner {other} meet; list the corners in order "
            "around it."
        )
    x, y = ring.T
    area = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    if len(ring) < 3 or area <= 1e-12 * np.ptp(ring, axis=0).max() ** 2:
        raise CaptureError(f"{name} has {len(ring)} corners and area {area:g}; expected at least three, not on one line.")
    return ring


def _footprint(footprint: Any) -> Floats:
    rings = _rings("footprint", footprint)
    if len(rings) > 1:
        raise CaptureError("footprint has a hole; expected only the outline of the robot.")
    return rings[0]


def _edges(ring: Floats) -> Floats:
    return np.hstack([ring, np.roll(ring, -1, axis=0)])


def _walls(box: Floats) -> list[list[Floats]]:
    """Four solid strips around the bounds."""
    x0, y0, x1, y1 = box
    thick = max(x1 - x0, y1 - y0)
    left, bottom, right, top = x0 - thick, y0 - thick, x1 + thick, y1 + thick
    strips = [(left, bottom, x0, top), (x1, bottom, right, top), (left, bottom, right, y0), (left, y1, right, top)]
    return [[np.array([(a, b), (c, b), (c, d), (a, d)])] for a, b, c, d in strips]


def _turned(corners: Floats, angle: float) -> Floats:
    c, s = np.cos(angle), np.sin(angle)
    return np.ascontiguousarray(corners @ np.array([[c, s], [-s, c]]))


# -- numbers --------------------------------------------------------------------------------------------------------------


def _checked_bounds(bounds: Any) -> Floats:
    box = finite_array(
        "bounds", np.ravel(np.asarray(bounds, dtype=object)), (4,), "(4,): smallest x, smallest y, largest x, largest y"
    )
    if not (box[0] < box[2] and box[1] < box[3]):
        raise CaptureError(
            f"bounds are {box.tolist()}; expected smallest x, smallest y, largest x, largest y, in this order."
        )
    return box
