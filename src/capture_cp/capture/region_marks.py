"""Particles, the start, the action and the outcome in a picture of a region (needs matplotlib)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Floats, finite_array
from capture_cp.capture.region_draws import Searchable
from capture_cp.capture.region_search import particles_of, unwrapped
from capture_cp.spaces.marks import PARTICLES, START, draw_action, mark, outcome_look
from capture_cp.spaces.metrics import wrap_angle


class Marks(NamedTuple):
    """Configurations (dc,) drawn with the region: the start of the step and its true outcome, inside the region or not."""

    start: Floats | None = None
    outcome: Floats | None = None
    inside: bool | None = None

    @classmethod
    def checked(cls, region: Searchable, start: Any, outcome: Any) -> Marks:
        """Marks whose angles are drawn like those of the region."""
        given = {"start": start, "outcome": outcome}
        meaning = "(dc,): one configuration"
        found = {
            name: None if value is None else finite_array(name, value, (region.dims,), meaning)
            for name, value in given.items()
        }
        drawn = {name: None if value is None else unwrapped(region, value) for name, value in found.items()}
        return cls(drawn["start"], drawn["outcome"], _inside(region, found["outcome"]))

    @property
    def places(self) -> list[Floats]:
        """The configurations that are known."""
        return [place for place in (self.start, self.outcome) if place is not None]


def draw_marks(region: Searchable, ax: Any, axes: tuple[int, ...], marks: Marks) -> None:
    """Particles, start and outcome, and an arrow from the start to the mean of the particles."""

    def at(Y: Floats) -> Floats:
        shown = np.atleast_2d(Y)[:, list(axes)]
        return np.column_stack([shown, np.full(len(shown), -0.75)]) if len(axes) == 1 else shown

    particles = unwrapped(region, particles_of(region.prediction))
    mark(ax, PARTICLES, at(particles), zorder=3, labelled=True)
    if marks.start is not None:
        draw_action(ax, at(marks.start)[0], at(particles), labelled=True)
        mark(ax, START, at(marks.start), zorder=5, labelled=True)
    if marks.outcome is not None:
        mark(ax, outcome_look(marks.inside), at(marks.outcome), zorder=6, labelled=True)


def _inside(region: Searchable, outcome: Floats | None) -> bool | None:
    if outcome is None:
        return None
    place = outcome[None].copy()
    angles = list(region.angles)
    place[:, angles] = wrap_angle(place[:, angles])
    return bool(region.contains(place)[0])
