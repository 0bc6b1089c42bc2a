"""The marks of every figure, video and page: one look for each thing that is marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats


class Mark(NamedTuple):
    """How one thing is marked.

    Attributes:
        name: in a legend.
        shape: a marker of matplotlib.
        size: its diameter in points.
        colour: of the face.
        edge: colour of the edge.
        sign: the same mark as a character, for legends in HTML.
    """

    name: str
    shape: str
    size: float
    colour: str
    edge: str
    sign: str


PARTICLES = Mark("particles", "o", 3.0, "#000000", "#000000", "●")
START = Mark("start of the step", "D", 6.5, "#FFFFFF", "#000000", "◇")
#: Shapes differ as well as colours, for readers who cannot tell green from red.
INSIDE = Mark("true outcome, inside", "P", 9.0, "#008A00", "#FFFFFF", "✚")
OUTSIDE = Mark("true outcome, outside", "X", 9.0, "#D00000", "#FFFFFF", "✖")
#: Where there is no region to be inside of.
OUTCOME = Mark("true outcome", "X", 9.0, "#FFFFFF", "#000000", "✕")
#: An arrow from the start to the mean of the particles: actions have units of their own, this has those of the figure.
ACTION = Mark("action (predicted move)", r"$\rightarrow$", 12.0, "#333333", "#333333", "→")
GOAL = Mark("goal", "*", 12.0, "#009E73", "#FFFFFF", "★")
PATH_COLOUR = "#777777"


def outcome_look(inside: bool | None) -> Mark:
    """The mark of a true outcome; None where there is no region."""
    return OUTCOME if inside is None else INSIDE if inside else OUTSIDE


def mark(
    axis: Any, look: Mark, at: Any, times: float = 1.0, zorder: float = 5.0, labelled: bool = False, clip: bool = True
) -> None:
    """Mark places (n, d) of an axis with d = 2 or 3, `times` the usual size; `labelled` for the axis's own legend.

    Without `clip`, a mark on the border of the axis is drawn whole.
    """
    shown = np.atleast_2d(np.asarray(at, dtype=np.float64)).T
    size = times * look.size
    style: dict[str, Any] = {"marker": look.shape, "ls": "none", "ms": size, "color": look.colour, "zorder": zorder}
    style |= {"mec": look.edge, "mew": 0.0 if look is PARTICLES else 1.2 if look is START else max(0.3, 0.1 * size)}
    axis.plot(*shown, clip_on=clip, label=look.name if labelled else "_nolegend_", **style)


def mark_outcomes(axis: Any, at: Floats, inside: Bools | None, times: float = 1.0, zorder: float = 6.0) -> None:
    """Mark true outcomes (n, d), each by whether its region contains it, (n,); None where there is no region."""
    at = np.atleast_2d(at)
    if inside is None:
        mark(axis, OUTCOME, at, times, zorder)
        return
    for held in (True, False):
        here = np.asarray(inside, dtype=bool) == held
        if here.any():
            mark(axis, outcome_look(held), at[here], times, zorder)


def draw_action(axis: Any, start: Floats, particles: Floats, zorder: float = 4.5, labelled: bool = False) -> None:
    """An arrow from the start (d,) to the mean of the particles (n, d), d = 2 or 3; none where they coincide."""
    tail, head = np.asarray(start, dtype=np.float64), np.atleast_2d(particles).mean(axis=0)
    if labelled:
        axis.plot(*([],) * len(tail), marker=ACTION.shape, ls="none", ms=ACTION.size, color=ACTION.colour, label=ACTION.name)
    if not (head - tail).any():
        return
    if len(tail) == 3:
        axis.quiver(*tail, *(head - tail), color=ACTION.colour, lw=1.3, arrow_length_ratio=0.12)
    else:
        look = {"arrowstyle": "-|>", "color": ACTION.colour, "lw": 1.3, "shrinkA": 3, "shrinkB": 0, "mutation_scale": 11}
        drawn = axis.annotate("", tuple(head), tuple(tail), arrowprops=look, zorder=zorder)
        drawn.arrow_patch.set_clip_box(axis.bbox)


def mark_handles(looks: Iterable[Mark]) -> list[Any]:
    """Entries of a legend."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], ls="none", marker=look.shape, ms=look.size, color=look.colour, mec=look.edge, label=look.name)
        for look in looks
    ]


def mark_signs(looks: Iterable[Mark]) -> str:
    """A legend in HTML, on a light ground: the marks are made for one."""
    faces = ((look, look.edge if look.colour == "#FFFFFF" else look.colour) for look in looks)
    return "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><b style="color:{colour};margin-right:0.3em">{look.sign}</b>'
        f"{look.name}</span> "
        for look, colour in faces
    )
