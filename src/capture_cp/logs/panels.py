"""Panels of figures of one's own robot, for the page and for films: the space, a close-up, and coverage so far."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.logs.marks import HELD, MISSED
from capture_cp.logs.plane import Plane
from capture_cp.logs.replay import Look, Replay
from capture_cp.logs.space import Space
from capture_cp.logs.strip import Strip


class Panels(Protocol):
    """What draws a space of any number of axes into axes of matplotlib."""

    def set_up(self, axis: Any, close: bool) -> None:
        """What stays in every picture of the space, or of the close-up."""

    def draw_whole(self, axis: Any, look: Look, step: int) -> None:
        """The whole space at a step, counted from 0."""

    def draw_near(self, axis: Any, look: Look, step: int) -> None:
        """The same around the step."""


def panels_of(space: Space, replay: Replay | None) -> Panels:
    """What draws a space: a plane of two of its axes, or a strip over time of its only one."""
    return Plane(space) if len(space.shown) == 2 else Strip(space, replay)


def set_up_coverage(axis: Any, steps: int, alpha: float) -> None:
    """What stays in the panel of coverage so far: the promise, and room for all steps."""
    axis.set(xlim=(0.5, max(steps, 2) + 0.5), ylim=(-0.08, 1.04), xlabel="step", title=" ")
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axis.axhline(1 - alpha, color="black", lw=1, ls="--")
    axis.text(
        max(steps, 2) + 0.4, 1 - alpha - 0.02, f"promised: {100 * (1 - alpha):.3g} %", ha="right", va="top", fontsize=8
    )
    axis.tick_params(labelsize=8)
    axis.locator_params(axis="x", nbins=5, integer=True)


def draw_coverage(axis: Any, replay: Replay, alpha: float, steps: int) -> None:
    """Coverage of the first steps, its exact intervals, and below a mark for each step: held or missed."""
    inside = replay.inside(alpha)[:steps]
    when, held = np.arange(1, len(inside) + 1), np.cumsum(inside)
    ends = np.array([clopper_pearson(int(h), int(n)) for h, n in zip(held, when)]).reshape(-1, 2)
    axis.fill_between(when, *ends.T, step="mid", color="#0072B2", alpha=0.18, lw=0)
    axis.plot(when, held / when, color="#0072B2", lw=1.6, marker="o" if len(when) == 1 else "", ms=4)
    for kept, (colour, _) in ((True, HELD), (False, MISSED)):
        which = when[inside == kept]
        axis.scatter(which, np.full(len(which), -0.04), marker="|", s=40, color=colour)
    low, high = ends[-1]
    axis.set_title(f"coverage so far: {held[-1]} of {len(when)} ({100 * low:.0f} to {100 * high:.0f} %)", fontsize=9)
