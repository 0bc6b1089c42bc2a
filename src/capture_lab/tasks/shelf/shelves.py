"""Shelves: JSON files in metres, five that ship with the package or your own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, known_name, positive_number, printable
from capture_cp.base.files import Pathlike, existing_file

#: The shelves of the package, in the order of tables.
SHELF_NAMES = ("open", "low", "corner", "divider", "two-glasses")
LARGEST_FILE = 1_000_000  # bytes
MOST_PARTS = 200  # boards, walls and glasses

Corners = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Glass:
    """A glass that stands on a board: a capsule from its foot up.

    Attributes:
        foot: centre of its base.
        height: height of its top.
        radius: radius of its body.
    """

    foot: tuple[float, ...]
    height: float
    radius: float

    @property
    def segment(self) -> tuple[float, ...]:
        """The capsule: start (3), vector to its end (3), radius."""
        x, y, z = self.foot
        return (x, y, z + self.radius, 0.0, 0.0, self.height - 2 * self.radius, self.radius)


@dataclass(frozen=True)
class Shelf:
    """One shelf. Lengths in metres, the arm's base at the origin, x into the shelf, z up.

    Attributes:
        name: name in tables.
        boards: horizontal boxes by name: lowest and highest corner. The arm may lean on them.
        walls: vertical boxes by name. The arm may lean on them too.
        glasses: glasses that must not be touched, by name.
        goal: target position of the jar's centre.
        within: tolerance of the goal.
        start: joint angles (7) around which episodes start.
        spread: largest deviation of each joint from there.
        about: one-sentence description.
    """

    name: str
    boards: Mapping[str, Corners]
    walls: Mapping[str, Corners]
    glasses: Mapping[str, Glass]
    goal: tuple[float, ...]
    within: float
    start: tuple[float, ...]
    spread: float
    about: str = ""

    @property
    def corners(self) -> Floats:
        """Lowest and highest corner of all boards and walls, (2, 3)."""
        every = np.array([*self.boards.values(), *self.walls.values()])
        return np.array([every[:, 0].min(axis=0), every[:, 1].max(axis=0)])


def load_shelf(which: Pathlike) -> Shelf:
    """A shelf of the package by its name, or one from a JSON file."""
    name = str(which)
    if name.endswith(".json"):
        file = existing_file(Path(name), "the shelf")
        if file.stat().st_size > LARGEST_FILE:
            raise CaptureError(f"{file} has {file.stat().st_size:,} bytes; a shelf has at most {LARGEST_FILE:,}.")
        text = file.read_text(encoding="utf-8", errors="replace")
    else:
        known_name("shelf", name, SHELF_NAMES)
        folder = resources.files("capture_lab.tasks.shelf").joinpath("shelves")
        text = folder.joinpath(f"{name}.json").read_text(encoding="utf-8")
    try:
        return _shelf(json.loads(text))
    except json.JSONDecodeError as error:
        raise CaptureError(f"{name} is not JSON: {error}; use a shelf of the package as a template.") from None
    except CaptureError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise CaptureError(
            f"{name} is not a shelf: {why}; expected name, boards, walls, glasses, goal (point, "
            "within) and start (joints, spread), as in the shelves of the package."
        ) from None


def tuning_variant(shelf: Shelf, shift: float = 0.015) -> Shelf:
    """The shelf mirrored left to right, with its glasses `shift` further back and outwards.

    Made for choosing a planner's settings without using the shelves that it is evaluated on.
    """

    def mirrored(box: Corners) -> Corners:
        (x, y, z), (u, v, w) = box
        return (x, -v, z), (u, -y, w)

    def moved(glass: Glass) -> Glass:
        x, y, z = glass.foot
        return replace(glass, foot=(x + shift, -y - np.copysign(shift, y), z))

    x, y, z = shelf.goal
    signs = (-1, 1, -1, 1, -1, 1)
    start = (*(sign * angle for sign, angle in zip(signs, shelf.start)), shelf.start[6])
    return replace(
        shelf,
        name=f"{shelf.name} (variant)",
        boards={name: mirrored(box) for name, box in shelf.boards.items()},
        walls={name: mirrored(box) for name, box in shelf.walls.items()},
        glasses={name: moved(glass) for name, glass in shelf.glasses.items()},
        goal=(x, -y, z),
        start=start,
    )


def _shelf(given: Any) -> Shelf:
    goal, start = given["goal"], given["start"]
    if len(given["boards"]) + len(given["walls"]) + len(given["glasses"]) > MOST_PARTS:
        raise CaptureError(f"the shelf has more than {MOST_PARTS} boards, walls and glasses; leave some out.")
    if not given["boards"] or not given["walls"] or not given["glasses"]:
        raise CaptureError("the shelf needs at least one board, one wall and one glass.")
    return Shelf(
        printable(str(given["name"])),
        {printable(name): _box(name, box) for name, box in given["boards"].items()},
        {printable(name): _box(name, box) for name, box in given["walls"].items()},
        {printable(name): _glass(name, glass) for name, glass in given["glasses"].items()},
        _numbers("goal", goal["point"], 3),
        positive_number("within", goal["within"]),
        _numbers("start", start["joints"], 7),
        positive_number("spread", start["spread"]),
        str(given.get("about", "")),
    )


def _box(name: str, given: Any) -> Corners:
    low, high = (_numbers(name, corner, 3) for corner in given)
    if not all(a < b for a, b in zip(low, high)):
        raise CaptureError(f"{name} goes from {list(low)} to {list(high)}; give its lowest corner first, then its highest.")
    return low, high


def _glass(name: str, given: Any) -> Glass:
    height, radius = (positive_number(f"{part} of {name}", given[part]) for part in ("height", "radius"))
    if height <= 2 * radius:
        raise CaptureError(f"{name} is {height:g} m high and {2 * radius:g} m wide; expected a height above the width.")
    return Glass(_numbers(f"foot of {name}", given["foot"], 3), height, radius)


def _numbers(name: str, given: Any, n: int) -> tuple[float, ...]:
    return tuple(finite_array(f"{name} of the shelf", given, (n,), f"({n},): numbers").tolist())
