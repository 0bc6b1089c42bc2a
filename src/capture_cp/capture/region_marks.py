"""Particles, start and outcome in a plot of a region (needs matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Floats, finite_array
from capture_cp.capture.region_search import Searchable, particles_of, unwrapped

OUTCOME_COLOUR = "#b3400a"


class Marks(NamedTuple):
    """Configurations (dc,) to mark in a plot: the robot's start, and the outcome."""

    start: Floats | None = None
    outcome: Floats | None = None

    @classmethod
    def checked(cls, region: Searchable, start: Any, outcome: Any) -> Marks:
        """Marks with angles unwrapped like the region's."""
        given = {"start": start, "outcome": outcome}
        meaning = "(dc,): one configuration"
        return cls(
            *(
                None if value is None else unwrapped(region, finite_array(name, value, (region.dims,), meaning))
                for name, value in given.items()
            )
        )


def draw_marks(region: Searchable, ax: Any, axes: tuple[int, ...], marks: Marks) -> None:
    """Particles, start and outcome, and an arrow from one to the other."""

    def at(Y: Floats) -> list[Any]:
        shown = np.atleast_2d(Y)[:, list(axes)].T
        return [*shown, np.full(shown.shape[1], -0.75)] if len(axes) == 1 else [*shown]

    particles = unwrapped(region, particles_of(region.prediction))
    ax.scatter(*at(particles), s=9, color="black", zorder=3, label="prediction", **_in_front(axes))
    if marks.start is not None and marks.outcome is not None:
        _arrow(ax, at(marks.start), at(marks.outcome))
    if marks.start is not None:
        look = {"marker": "D", "s": 42, "color": "white", "edgecolors": "black", "linewidths": 1.4}
        ax.scatter(*at(marks.start), zorder=5, label="start", **look, **_in_front(axes))
    if marks.outcome is not None:
        look = {"marker": "x", "s": 75, "color": OUTCOME_COLOUR, "linewidths": 2.2}
        ax.scatter(*at(marks.outcome), zorder=6, label="outcome", **look, **_in_front(axes))


def _in_front(axes: Sequence[int]) -> dict[str, Any]:
    return {"depthshade": False} if len(axes) == 3 else {}


def _arrow(ax: Any, start: list[Any], end: list[Any]) -> None:
    (tail, head) = (np.array([float(part[0]) for part in place]) for place in (start, end))
    if not (head - tail).any():
        return
    if len(tail) == 3:
        ax.quiver(*tail, *(head - tail), color="#444444", lw=1.2, arrow_length_ratio=0.12)
    else:
        look = {"arrowstyle": "-|>", "color": "#444444", "lw": 1.2, "shrinkA": 4, "shrinkB": 5}
        ax.annotate("", head, tail, arrowprops=look, zorder=4)
