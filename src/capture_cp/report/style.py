"""The look of every picture: one colour for each stratum and one mark for each thing that is marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from capture_cp.base.checks import CaptureError, printable

#: Okabe and Ito's colour-blind-safe colours: strata in order, then infeasible cells of a region.
STRATA_COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
INFEASIBLE_COLOUR = "#555555"
#: Colour of infeasible space outside of regions, of the path so far, and opacities of strata and of a region.
WALL_COLOUR, PATH_COLOUR, PALE, STRONG = "#cccccc", "#777777", 0.14, 0.75


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
GOAL = Mark("goal", "*", 13.0, "#009E73", "#00513B", "★")
#: All that a picture of steps with regions marks.
STEP_MARKS = (PARTICLES, START, ACTION, INSIDE, OUTSIDE)


def outcome_look(inside: bool | None) -> Mark:
    """The mark of a true outcome; None where there is no region."""
    return OUTCOME if inside is None else INSIDE if inside else OUTSIDE


def mark_signs(looks: Iterable[Mark]) -> str:
    """A legend in HTML, on a light ground: the marks are made for one."""
    faces = ((look, look.edge if look.colour == "#FFFFFF" else look.colour) for look in looks)
    return "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><b style="color:{colour};margin-right:0.3em">{look.sign}</b>'
        f"{look.name}</span> "
        for look, colour in faces
    )


def colour_of(m: int) -> str:
    """Colour of stratum m; -1 is infeasible space."""
    return INFEASIBLE_COLOUR if m < 0 else STRATA_COLOURS[m % len(STRATA_COLOURS)]


def labels(names: Iterable[str]) -> list[str]:
    """Names escaped for matplotlib, so that a dollar sign does not start a formula."""
    return [name.replace("$", r"\$") for name in map(printable, names)]


def label(name: str) -> str:
    """One escaped name."""
    return labels([name])[0]


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that explains how to install it."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise CaptureError('plots need matplotlib; install it with: pip install "capture-cp[view]".') from None
    return matplotlib.pyplot
