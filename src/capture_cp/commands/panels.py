"""Panels for a user's robot, on the page and in videos: the space, a close-up, and coverage so far."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from capture_cp.commands.plane import Plane
from capture_cp.commands.replay import Look, Replay
from capture_cp.commands.space import Space
from capture_cp.commands.strip import Strip
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.spaces.marks import INSIDE, OUTSIDE

LINE = "#0072B2"


class Panels(Protocol):
    """Draws a space of any number of axes into axes of matplotlib."""

    def set_up(self, axis: Any, close: bool) -> None:
        """Draw what stays in every picture of the space, or of the close-up."""

    def draw_whole(self, axis: Any, look: Look, step: int) -> None:
        """The whole space at a step, counted from 0."""

    def draw_near(self, axis: Any, look: Look, step: int) -> None:
        """The part around the step."""


def panels_of(space: Space, replay: Replay | None) -> Panels:
    """The object that draws a space: a plane of two of its axes, or a strip over time of a single one."""
    return Plane(space) if len(space.shown) == 2 else Strip(space, replay)


class CoveragePanel:
    """Coverage so far: a line, its exact intervals, and a mark below for each step, inside its region or outside."""

    def __init__(self, axis: Any, replay: Replay, alpha: float) -> None:
        self.axis, self.inside = axis, replay.inside(alpha)
        self.held = np.cumsum(self.inside)
        pairs = zip(self.held.tolist(), range(1, len(self.held) + 1))
        self.ends = np.array([clopper_pearson(held, steps) for held, steps in pairs])  # (n, 2), once for all pictures
        steps, promise = max(len(replay), 2), f"target: {100 * (1 - alpha):.3g}%"
        axis.set(xlim=(0.5, steps + 0.5), ylim=(-0.08, 1.04), xlabel="step", title=" ")
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
        axis.axhline(1 - alpha, color="black", lw=1, ls="--")
        axis.text(steps + 0.4, 1 - alpha - 0.02, promise, ha="right", va="top", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.locator_params(axis="x", nbins=5, integer=True)

    def draw(self, steps: int) -> None:
        """Coverage of the first steps."""
        when, held, ends = np.arange(1, steps + 1), self.held[:steps], self.ends[:steps]
        self.axis.fill_between(when, *ends.T, step="mid", color=LINE, alpha=0.18, lw=0)
        self.axis.plot(when, held / when, color=LINE, lw=1.6, marker="o" if steps == 1 else "", ms=4)
        for held_, look in ((True, INSIDE), (False, OUTSIDE)):
            which = when[self.inside[:steps] == held_]
            self.axis.scatter(which, np.full(len(which), -0.04), marker="|", s=40, color=look.colour)
        low, high = ends[-1]
        self.axis.set_title(f"coverage so far: {held[-1]} of {steps} ({100 * low:.0f} to {100 * high:.0f}%)", fontsize=9)
