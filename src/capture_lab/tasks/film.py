"""Videos of any task: every step of a recorded episode, with its region and particles in the configuration space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.region import Region
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.movie import MovingFigure, Picture, mark_window, show_window
from capture_cp.spaces.marks import (
    ACTION,
    INSIDE,
    OUTCOME,
    OUTSIDE,
    PARTICLES,
    START,
    Mark,
    draw_action,
    mark,
    mark_handles,
    outcome_look,
)
from capture_cp.spaces.strata import has_grid
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.point_slices import finite_box
from capture_lab.tasks.recorded import recorded_method, recorded_region
from capture_lab.tasks.slices import STRONG, Layer

#: Opacity of the strata.
PALE = 0.15
#: Most axes outside the figure that a title lists for a slice; and how much wider a close-up is than its regions.
MANY, ROOM = 3, 1.3


class Storyboard:
    """Draws a recorded episode, one picture per control step: the configuration space with its region, and a close-up.

    Attributes:
        rate: control steps per second.
        cap: the episode's method, not fitted; None for an episode without regions.
    """

    #: Size of the figure, widths of its panels (the last two are the space and the close-up), and half a side of the
    #: close-up in cells of the grid; without grid and regions, in small lengths of the task.
    inches: tuple[float, float] = (10.4, 5.4)
    ratios: Sequence[float] = (1, 1)
    close = 12.0
    #: Most entries of the legend in one row.
    columns = 4
    #: Words for an outcome in the heading of the last picture.
    ends: Mapping[str, str] = {"success": "reached the goal", TIMED_OUT: "out of time"}

    def __init__(self, drawing: Drawing, episode: Episode) -> None:
        self.drawing, self.task, self.slices, self.episode = drawing, drawing.task, drawing.slices, episode
        self.task.check_episode(episode)
        self.rate: float = self.task.rate
        self.cap = recorded_method(episode, self.task)
        self.half = self._half()
        self.figure = MovingFigure(self.inches, list(self.ratios))
        self.space, self.closeup = self.figure.axes[-2:]
        self.draw_background()
        handles = self.legend()
        columns = min(len(handles), self.columns)
        self.figure.figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
        self.figure.freeze()

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step, 0 to T: the state, and the region of the action taken there."""
        self.figure.clear()
        self.draw_workspace(step)
        self.draw_space(step)
        when = f"{self.title}: step {step} of {self.episode.steps}, {step / self.rate:.1f} s"
        outcome = self.ends.get(self.episode.outcome, self.episode.outcome)
        return self.figure.picture(when if step < self.episode.steps else f"{when}: {outcome}")

    @property
    def title(self) -> str:
        """The place and the method of the episode."""
        return f"{self.task.place}, {self.episode.info.get('method', '')}"

    # -- the still background -----------------------------------------------------------------------------------------

    def draw_background(self) -> None:
        """Draw everything that is the same in every picture."""
        low, high = self.slices.corners()
        self.space.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), title=" ")
        self.closeup.set_title(" ")
        for axis in (self.space, self.closeup):
            axis.set(aspect="equal", xticks=[], yticks=[])
            self.drawing.draw_marks(axis)

    def legend(self) -> list[Any]:
        """Entries of the legend: colours of strata, and marks."""
        from matplotlib.patches import Patch

        strata = [Patch(color=c, alpha=STRONG, label=name) for c, name in zip(self.slices.colours, self.task.strata.names)]
        return [*strata, *mark_handles(self.marks())]

    def marks(self) -> list[Mark]:
        """The marks that `draw_space` draws."""
        return [START, OUTCOME] if self.cap is None else [PARTICLES, START, ACTION, INSIDE, OUTSIDE]

    def outcome(self, step: int) -> Mark:
        """The mark of the true outcome of a step."""
        return outcome_look(bool(self.episode.inside[step]) if step < len(self.episode.inside) else None)

    # -- the moving parts ---------------------------------------------------------------------------------------------

    def draw_workspace(self, step: int) -> None:
        """Draw the panels before the last two."""

    def region(self, step: int) -> Region | None:
        """The region of a step; None if there is none."""
        return None if self.cap is None else recorded_region(self.episode, self.cap, step)

    def draw_space(self, step: int) -> None:
        """Draw the slice in which the step ends with its region, whole and as a close-up."""
        going, axes = step < self.episode.steps, list(self.task.axes)
        unit, shown = self.slices.unit, list(self.slices.shown)
        now, went = self.episode.states[[step, min(step + 1, self.episode.steps)]][:, axes]
        region, layer = self.region(step), self.slices.layer(went)
        expected = went if region is None else self.episode.particles[step].mean(axis=0)
        middle = (expected + went)[shown] / 2
        show_window(self.closeup, middle * unit, self.half * unit)
        for axis in (self.space, self.closeup):
            limits = axis.get_xlim(), axis.get_ylim()
            self.draw_strata(axis, layer)
            if region is not None:
                self.draw_region(axis, region, layer, middle)
                particles = self.episode.particles[step][:, shown] * unit
                mark(axis, PARTICLES, particles, zorder=4)
                draw_action(axis, now[shown] * unit, particles)
            mark(axis, START, now[shown] * unit, zorder=5)
            if going:
                mark(axis, self.outcome(step), went[shown] * unit, zorder=7)
            axis.set(xlim=limits[0], ylim=limits[1])
        mark_window(self.space, self.closeup, middle * unit, self.half * unit)
        self.space.set_title(self.space_title(went))
        self.closeup.set_title(f"close-up: {verdict(self.episode, step)}" if region is not None else "close-up")

    def draw_strata(self, axis: Any, layer: Layer) -> None:
        """The strata of a slice, pale."""
        self.slices.draw(axis, layer, PALE)

    def draw_region(self, axis: Any, region: Region, layer: Layer, middle: Floats) -> None:
        """Draw the region of a step in the space, or in the close-up around `middle` (2,)."""
        if axis is self.closeup and not layer:
            self.slices.draw_shape(axis, region, middle, self.half)
        else:
            self.slices.draw_region(axis, region, layer)

    def space_title(self, went: Floats) -> str:
        """Title of the configuration space when a step ends at `went` (dc,)."""
        hidden = [number for number in range(len(went)) if number not in self.slices.shown]
        if len(hidden) > MANY:
            return "a slice of the configuration space"
        at = ", ".join(f"{self.task.states[self.task.axes[number]]} = {went[number]:.3g}" for number in hidden)
        return f"configuration space at {at}" if at else "configuration space"

    def _half(self) -> float:
        """Half a side of the close-up: a number of cells, or without a grid enough to show most regions whole."""
        usual = self.close * float(self.task.cell)
        if has_grid(self.task.strata) or self.cap is None:
            return usual
        low, high = (corner / self.slices.unit for corner in self.slices.corners())
        regions = [recorded_region(self.episode, self.cap, step) for step in range(len(self.episode.particles))]
        boxes = [finite_box(region)[:, list(self.slices.shown)] for region in regions if region is not None]
        widths = [float(np.minimum(box[1] - box[0], high - low).max()) for box in boxes]
        return ROOM * float(np.quantile(widths, 0.9)) / 2 if widths else usual


def verdict(episode: Episode, step: int) -> str:
    """Whether the true outcome of a step is in its region, in words."""
    if step >= len(episode.inside):
        return ""
    return "outcome inside the region" if episode.inside[step] else "outcome outside the region"
