"""Labyrinth maps: JSON files in millimetres, six that ship with the package or your own."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name, positive_number
from capture_cp.base.files import Pathlike, existing_file
from capture_lab.tasks.marble.contact import Geometry
from capture_lab.tasks.marble.contact_table import count_squares, look_up
from capture_lab.tasks.marble.dynamics import clearances

SIDES = ("left", "right", "bottom", "top")
RADII = ("marble_radius", "pit_radius", "goal_radius")
MILLIMETRE = 1e-3
LARGEST = 2000.0  # mm: a grid of 1 mm cells, and the paths between them, must fit in memory
LARGEST_FILE = 1_000_000  # bytes
#: Limits on squares of the board times walls and pits, which need memory, and on grid cells times those, which take time.
MOST_PAIRS, MOST_WORK = 30_000_000, 300_000_000

#: The six sections of the paper, in the order of its planning table.
MAP_NAMES = ("center", "center-right", "bottom-left", "bottom-right", "top-left", "top-center")


@dataclass(frozen=True)
class Map:
    """One labyrinth. Lengths in millimetres, origin at the lower left corner, x to the right, y up.

    Attributes:
        name: name in tables.
        size: width and height of the board section.
        walls: boxes (x0, y0, x1, y1).
        start: centre of the marble at the start of an episode.
        goal: centre of the goal.
        pits: centres of the pits.
        framed: sides with a frame, which is a wall; the other sides are cuts through a larger maze, where the marble's
            centre stops at the edge.
    """

    name: str
    size: tuple[float, float]
    walls: tuple[tuple[float, float, float, float], ...]
    start: tuple[float, float]
    goal: tuple[float, float]
    pits: tuple[tuple[float, float], ...] = ()
    framed: tuple[str, ...] = ()
    marble_radius: float = 6.4
    pit_radius: float = 12.0
    goal_radius: float = 6.4

    # -- the same in metres, in the form the kernels need --------------------------------------------------------------

    @cached_property
    def geometry(self) -> Geometry:
        """The map in the form the kernels need."""
        margin = {side: self.marble_radius if side in self.framed else 0.0 for side in SIDES}
        width, height = self.size
        bounds = [margin["left"], width - margin["right"], margin["bottom"], height - margin["top"]]
        walls = np.array(self.walls, dtype=np.float64).reshape(-1, 4)
        pits = np.array([(*pit, self.pit_radius) for pit in self.pits], dtype=np.float64).reshape(-1, 3)
        goal = np.array([*self.goal, self.goal_radius])
        radius = self.marble_radius * MILLIMETRE
        bounds_, walls_, pits_, goal_ = (np.array(part) * MILLIMETRE for part in (bounds, walls, pits, goal))
        return Geometry(bounds_, walls_, radius, pits_, goal_, *look_up(bounds_, walls_, radius, pits_, goal_))

    def clearance(self, points: Floats) -> Floats:
        """Signed distance (m) of each position (n, 2) to the nearest obstacle, negative in collision: (n,)."""
        return np.asarray(clearances(np.ascontiguousarray(points, dtype=np.float64), self.geometry))


def tuning_variant(map: Map, shift: float = 2.0) -> Map:
    """The map mirrored left to right, with its pits `shift` millimetres further right and down.

    Made for choosing a planner's settings without using the maps it is evaluated on.
    """
    width, _ = map.size

    def mirror(x: float, y: float) -> tuple[float, float]:
        return width - x, y

    sides = {"left": "right", "right": "left"}
    return replace(
        map,
        name=f"{map.name} (variant)",
        walls=tuple((width - x1, y0, width - x0, y1) for x0, y0, x1, y1 in map.walls),
        start=mirror(*map.start),
        goal=mirror(*map.goal),
        pits=tuple((width - x + shift, y - shift) for x, y in map.pits),
        framed=tuple(sides.get(side, side) for side in map.framed),
    )


def with_pits(map: Map, radius: float) -> Map:
    """The map with pits of another radius (mm): wider ones leave narrower gaps."""
    changed = replace(map, pit_radius=positive_number("pit_radius", radius))
    _check_geometry(map.name, changed)
    _check_way(map.name, changed)
    return changed


def load_map(source: Pathlike) -> Map:
    """A map by name (one of `MAP_NAMES`) or from a JSON file, checked."""
    text = str(source)
    if not text.endswith(".json"):
        return _shipped(known_name("map (or give the path of a .json file)", text, MAP_NAMES))
    return _parse(existing_file(source, "map"))


@cache
def _shipped(name: str) -> Map:
    """A map of the package; its look-up tables are made once, however many tasks use it."""
    with resources.as_file(resources.files(__package__) / "maps" / f"{name}.json") as file:
        return _parse(file)


def _parse(file: Path) -> Map:
    if file.stat().st_size > LARGEST_FILE:
        raise CaptureError(f"map {file} is larger than {LARGEST_FILE // 1_000_000} MB; use a smaller map file.")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise CaptureError(f"map {file} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise CaptureError(f"map {file} must be a JSON object with size, walls, start and goal.")
    names = [field.name for field in fields(Map)]
    for key in content:
        known_name(f"key in map {file}", key, names)
    for key in ("size", "walls", "start", "goal"):
        if key not in content:
            raise CaptureError(f"map {file} has no {key!r}; it needs size, walls, start and goal.")
    parsed = Map(
        name=_text(file, content.get("name", file.stem)),
        size=_lengths(file, "size", content["size"], 2, positive=True),
        walls=tuple(_lengths(file, "walls", wall, 4) for wall in _list(file, content, "walls")),
        start=_lengths(file, "start", content["start"], 2),
        goal=_lengths(file, "goal", content["goal"], 2),
        pits=tuple(_lengths(file, "pits", pit, 2) for pit in _list(file, content, "pits")),
        framed=tuple(known_name(f"side in framed of map {file}", side, SIDES) for side in _list(file, content, "framed")),
        **{key: _lengths(file, key, [content[key]], 1, positive=True)[0] for key in RADII if key in content},
    )
    _check_size(file, parsed)
    _check_geometry(file, parsed)
    _check_way(file, parsed)
    return parsed


def _wrong(file: Pathlike, key: str, reason: str) -> CaptureError:
    return CaptureError(f"map {file}, key {key!r}: {reason}.")


def _list(file: Path, content: dict[str, Any], key: str) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise _wrong(file, key, f"expected a list, found {value!r}")
    return value


def _lengths(file: Path, key: str, value: Any, count: int, positive: bool = False) -> Any:
    sound = isinstance(value, list) and len(value) == count and all(_is_length(n) for n in value)
    if not sound or (positive and min(value) <= 0):
        kind = "positive numbers" if positive else "numbers"
        raise _wrong(file, key, f"expected {count} {kind} of at most {LARGEST:g} mm, found {repr(value)[:60]}")
    return tuple(float(n) for n in value)


def _text(file: Path, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(file, "name", f"expected text, found {repr(value)[:60]}")
    return value


def _is_length(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST


def _check_size(file: Path, parsed: Map) -> None:
    """Reject a map whose look-up tables would need too much memory or time, before any is made."""
    (width, height), marble, obstacles = parsed.size, parsed.marble_radius, len(parsed.walls) + len(parsed.pits)
    if 2 * marble >= min(parsed.size):
        raise CaptureError(
            f"map {file}, key 'marble_radius': a marble {2 * marble:g} mm wide does not fit on a board of {width:g} x "
            f"{height:g} mm."
        )
    squares = count_squares(width * MILLIMETRE, height * MILLIMETRE, marble * MILLIMETRE)
    if squares * obstacles > MOST_PAIRS or width * height * obstacles > MOST_WORK:
        raise CaptureError(
            f"map {file}: {len(parsed.walls):,} walls and {len(parsed.pits):,} pits are too many for a board of {width:g} x "
            f"{height:g} mm; expected at most {int(min(MOST_PAIRS / squares, MOST_WORK / (width * height))):,} in all."
        )


def _check_geometry(file: Pathlike, parsed: Map) -> None:
    width, height = parsed.size
    for wall in parsed.walls:
        x0, y0, x1, y1 = wall
        if not (x0 < x1 and y0 < y1):
            raise _wrong(file, "walls", f"wall {list(wall)} has no area; write [x0, y0, x1, y1] with x0 < x1 and y0 < y1")
        if min(x0, y0) < 0 or x1 > width or y1 > height:
            raise _wrong(file, "walls", f"wall {list(wall)} reaches outside the board of {width:g} x {height:g} mm")
    for key, points in (("pits", parsed.pits), ("start", (parsed.start,)), ("goal", (parsed.goal,))):
        for x, y in points:
            if not (0 <= x <= width and 0 <= y <= height):
                raise _wrong(file, key, f"({x:g}, {y:g}) is outside the board of {width:g} x {height:g} mm")
    for key in ("start", "goal"):
        point = np.array([getattr(parsed, key)]) * MILLIMETRE
        if parsed.clearance(point)[0] < 0:
            raise _wrong(
                file, key, f"the marble there overlaps a wall or the frame by {-1e3 * parsed.clearance(point)[0]:.1f} mm"
            )
    for x, y in parsed.pits:
        if np.hypot(x - parsed.start[0], y - parsed.start[1]) <= parsed.pit_radius:
            raise _wrong(file, "pits", f"the pit at ({x:g}, {y:g}) lies over the start")
        if np.hypot(x - parsed.goal[0], y - parsed.goal[1]) <= parsed.pit_radius:
            raise _wrong(file, "pits", f"the pit at ({x:g}, {y:g}) lies over the goal")


def _check_way(file: Pathlike, parsed: Map) -> None:
    from capture_lab.tasks.marble.cspace import MarbleStrata

    if not MarbleStrata(parsed).goal_is_reachable():
        x, y = parsed.goal
        raise _wrong(file, "goal", f"no path between walls and pits leads from the start to ({x:g}, {y:g})")
