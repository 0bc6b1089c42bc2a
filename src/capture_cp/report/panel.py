"""One panel of a picture as plain arrays, in the coordinates of the picture: made by a task, a log or a region."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.report.style import Mark, colour_of


class Image(NamedTuple):
    """Pixels (h, w, 3 or 4) between two corners (2,); row 0 is at the top. Smooth ones are interpolated."""

    pixels: npt.NDArray[Any]
    low: Floats
    high: Floats
    smooth: bool = False


class Shape(NamedTuple):
    """A polygon (k, 2), filled, outlined or both."""

    points: Floats
    fill: str | None = None
    edge: str | None = None
    opacity: float = 1.0
    width: float = 0.8
    dash: str = "-"
    name: str = ""
    order: float = 1.0


class Line(NamedTuple):
    """A line (t, 2 or 3)."""

    points: Floats
    colour: str
    width: float = 1.0
    dash: str = "-"
    opacity: float = 1.0
    name: str = ""
    order: float = 2.0


class Dots(NamedTuple):
    """Round dots (n, 2 or 3)."""

    points: Floats
    colour: str
    size: float = 14.0
    opacity: float = 0.45
    name: str = ""
    order: float = 3.0


#: An entry of a legend; a name with a colour is a square of that colour.
Entry = Mark | Line | Shape | Dots | tuple[str, str]


@dataclass(frozen=True)
class Panel:
    """What axes of matplotlib show. All positions have as many columns as the panel has axes, 2 or 3; with one, see `rows`.

    Attributes:
        low, high: corners of what is shown, (2,); by default everything.
        images, shapes, lines, dots: things, drawn in this order unless their own `order` differs.
        particles: of the model's prediction, (L, 2).
        start: where the step begins, (2,).
        outcomes: where it really went, (n, 2).
        inside: whether its region contains each, (n,); None without a region.
        marks: other things that are marked, each with its places (n, 2).
        frame: corners (2, 2) of the part that a close-up shows.
        rows: names of rows at heights 0, 1, ...
        title, across, up, deep: texts.
        ticks, equal, bare: whether axes have ticks, both the same scale, and no border.
        small: factor on the sizes of outcomes and particles.
        arrow: whether an arrow leads from the start to the mean of the particles.
    """

    low: Floats | None = None
    high: Floats | None = None
    images: tuple[Image, ...] = ()
    shapes: tuple[Shape, ...] = ()
    lines: tuple[Line, ...] = ()
    dots: tuple[Dots, ...] = ()
    particles: Floats | None = None
    start: Floats | None = None
    outcomes: Floats | None = None
    inside: Bools | None = None
    marks: tuple[tuple[Mark, Floats], ...] = ()
    frame: Floats | None = None
    rows: tuple[str, ...] = ()
    title: str = ""
    across: str = ""
    up: str = ""
    deep: str = ""
    ticks: bool = True
    equal: bool = True
    bare: bool = False
    small: tuple[float, float] = (1.0, 1.0)
    arrow: bool = True


@dataclass(frozen=True)
class Extract:
    """A region as far as pictures show it, in the coordinates of a configuration; angles are unwrapped.

    Attributes:
        names: of the strata.
        Y, labels: members (n, dc) and their strata (n,), -1 where infeasible: a sample, or centres of all cells.
        particles: (L, dc).
        start, outcome: configurations (dc,), where known.
        inside: whether the region contains the outcome.
        angles: axes that are angles, with the mean direction of the particles.
        spacing: size of a cell, (dc,); None for a sample.
        classify: strata (n,) of configurations (n, dc) in the region, -2 outside of it.
        index: strata (n,) of configurations (n, dc), whose angles may be unwrapped.
    """

    names: tuple[str, ...]
    Y: Floats
    labels: Ints
    particles: Floats
    start: Floats | None
    outcome: Floats | None
    inside: bool | None
    angles: dict[int, float]
    spacing: Floats | None
    classify: Callable[[Floats], Ints]
    index: Callable[[Floats], Ints]


def circle(centre: Floats, radius: float, corners: int = 64) -> Floats:
    """The corners (k, 2) of a circle."""
    turn = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.asarray(centre) + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def rectangle(low: Sequence[float] | Floats, high: Sequence[float] | Floats) -> Floats:
    """The corners (4, 2) of a rectangle."""
    (left, bottom), (right, top) = low, high
    return np.array([[left, bottom], [right, bottom], [right, top], [left, top]])


def strata_key(names: tuple[str, ...], prefix: str = "") -> list[tuple[str, str]]:
    """Legend entries of strata, with their colours."""
    return [(f"{prefix}{name}", colour_of(m)) for m, name in enumerate(names)]
