"""Charts of curves as SVG for pages, in the colours of the page's style.

Colours are classes, so that one drawing serves light and dark pages: a curve has the class of its `look`, which sets
`color`, and everything else has classes of its own, which `templates/svg.css` colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import Floats

Known = Sequence[float | None]  # None where nothing is known

#: Size of a chart in its own units, its margins left, right, top and bottom, and the least distance between two labels.
WIDTH, HEIGHT = 456, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 148, 26, 38
APART = 13.5
#: The largest value of a logarithmic axis over its smallest: below that, errors are those of rounding.
DECADES = 3e3


@dataclass(frozen=True)
class Curve:
    """One line of a chart, with its name at its end.

    Attributes:
        name: what it shows.
        look: class of the style that colours it.
        x, y: its points; it is interrupted where y is None.
        low: lower border of a band below the line; without one, no band.
    """

    name: str
    look: str
    x: Sequence[float]
    y: Known
    low: Known = ()


class Axis(NamedTuple):
    """One direction of a chart: values from `low` to `high` lie between two places."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a value lies; what is out of range lies at the border."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, self.inside(value)))
        return self.start + (self.end - self.start) * (at - low) / (high - low or 1.0)

    def inside(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def ticks(self) -> list[float]:
        """Round values: 1, 2, 5, 10, ... on a logarithmic axis, only powers of ten on a long one."""
        if not self.log:
            step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1e9) if (self.high - self.low) / step <= 5)
            return [v for v in [self.low, *np.arange(0, self.high + step / 2, step).tolist()] if self.low <= v <= self.high]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high * 1.001]
            if len(found) <= 7:
                break
        return found


def chart(
    curves: Sequence[Curve],
    up: Axis,
    across: Axis,
    titles: tuple[str, str],
    alt: str,
    level: tuple[float, str] | None = None,
    at: tuple[float, str] | None = None,
    percent: bool = False,
) -> str:
    """A chart with axes from `axes`, titles across and up, and lines at a level and at a value across, with their names."""
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(alt)}">']
    for value in up.ticks():
        y = up.place(value)
        parts += [line("grid", across.start, y, across.end, y), text(across.start - 6, y + 4, f"{value:g}", "tick end")]
    for value in across.ticks():
        shown = f"{100 * value:g} %" if percent else f"{value:g}"
        parts.append(text(across.place(value), up.start + 16, shown, "tick middle"))
    parts.append(line("axis", across.start, up.start, across.end, up.start))
    parts.append(text((across.start + across.end) / 2, HEIGHT - 5, titles[0], "tick middle"))
    parts.append(text(4, TOP - 12, titles[1], "tick"))
    above = _names(curves, across, up)
    if level and up.low < level[0] < up.high:
        y = up.place(level[0])
        parts.append(line("level", across.start, y, across.end, y))
        above.append(text(across.end - 3, y - 4, level[1], "tick end"))
    if at:
        x = across.place(at[0])
        parts.append(line("level", x, up.end, x, up.start))
        above.append(text(x + 4, up.start - 5, at[1], "tick"))
    parts += [_band(curve, across, up) for curve in curves if len(curve.low)]
    parts += [_curve(curve, across, up) for curve in curves]
    return "".join([*parts, *above, "</svg>"])


def axes(values: Iterable[float | None], x: Iterable[float], log_across: bool = False) -> tuple[Axis, Axis]:
    """Axes up (logarithmic) and across that show these values, so that several charts can share them."""
    known = [value for value in values if value] or [1.0]
    reached = list(x) or [1.0]
    high = 1.25 * max(known)
    up = Axis(max(0.85 * min(known), high / DECADES), high, True, HEIGHT - BOTTOM, TOP)
    return up, Axis(min(reached), max(reached), log_across, LEFT, WIDTH - RIGHT)


def _band(curve: Curve, across: Axis, up: Axis) -> str:
    both = [(x, low, high) for x, low, high in zip(curve.x, curve.low, curve.y) if low is not None and high is not None]
    if len(both) < 2:
        return ""
    border = [(x, high) for x, _, high in both] + [(x, low) for x, low, _ in reversed(both)]
    points = np.array([(across.place(x), up.place(y)) for x, y in border])
    return f'<path class="band {curve.look}" d="{path(points[None], closed=True)}"/>'


def _curve(curve: Curve, across: Axis, up: Axis) -> str:
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(curve.x, curve.y):
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append((across.place(x), up.place(y)))
    drawn = "".join(path(np.array([piece])) for piece in pieces if piece)
    return f'<path class="curve {curve.look}" d="{drawn}"><title>{escape(curve.name)}</title></path>' if drawn else ""


def _names(curves: Sequence[Curve], across: Axis, up: Axis) -> list[str]:
    """Names at the ends of curves, moved apart where they would overlap."""
    ends = []
    for curve in curves:
        known = [(x, y) for x, y in zip(curve.x, curve.y) if y is not None]
        if known:
            ends.append((up.place(known[-1][1]), across.place(known[-1][0]), curve))
    ends.sort(key=lambda end: end[:2])
    places = [end[0] for end in ends]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + APART)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], up.start if i + 1 == len(places) else places[i + 1] - APART)
    found = []
    for (y, x, curve), place in zip(ends, places):
        shown = curve.name if len(curve.name) <= 23 else curve.name[:22] + "…"
        found.append(f'<path class="lead {curve.look}" d="M{x + 2:.1f} {y:.1f}L{across.end + 9:.1f} {place:.1f}"/>')
        found.append(text(across.end + 12, place + 4, shown, f"name {curve.look}"))
    return found


# -- text -------------------------------------------------------------------------------------------------------------------


def path(lines: Floats, closed: bool = False) -> str:
    """Lines (n, k, 2) as the data of a path."""
    end = "Z" if closed else ""
    return "".join("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in line) + end for line in np.asarray(lines).tolist())


def line(look: str, *ends: float) -> str:
    """A straight line between two ends."""
    x1, y1, x2, y2 = (f"{end:.1f}" for end in ends)
    return f'<line class="{look}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def text(x: float, y: float, shown: str, look: str) -> str:
    """A text at a place."""
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{escape(shown)}</text>'
