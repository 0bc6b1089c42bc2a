"""Films of any task: every step of a recorded episode, with its region and particles in the configuration space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.region import Region
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.movie import MovingFigure, Picture, mark_window
from capture_cp.tasks.drawing import STRONG, Drawing
from capture_cp.tasks.recorded import recorded_method, recorded_region

#: Opacity of the strata.
PALE = 0.15


class Storyboard:
    """Draws a recorded episode, one picture per control step: the configuration space with its region, and a close-up.

    Attributes:
        rate: control steps per second.
        cap: the episode's method, not fitted; None for an episode without regions.
    """

    #: Size of the figure, widths of its panels (the last two are the space and the close-up), and of the close-up half a
    #: side in cells of the grid.
    inches: tuple[float, float] = (10.4, 5.4)
    ratios: Sequence[float] = (1, 1)
    close = 12.0
    #: What the heading of the last picture makes of an outcome.
    ends: Mapping[str, str] = {"success": "reached the goal", TIMED_OUT: "out of time"}

    def __init__(self, drawing: Drawing, episode: Episode) -> None:
        self.drawing, self.task, self.slices, self.episode = drawing, drawing.task, drawing.slices, episode
        self.task.check_episode(episode)
        self.rate: float = self.task.rate
        self.cap = recorded_method(episode, self.task)
        self.half = self.close * float(self.slices.grid.spacing[0])
        self.figure = MovingFigure(self.inches, list(self.ratios))
        self.space, self.closeup = self.figure.axes[-2:]
        self.draw_background()
        handles = self.legend()
        self.figure.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
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
        """What the episode is a run of."""
        return f"{self.task.place}, {self.episode.info.get('method', '')}"

    # -- what stays ---------------------------------------------------------------------------------------------------

    def draw_background(self) -> None:
        """What is the same in every picture."""
        low = self.slices.grid.origin[:2] * self.slices.unit
        high = low + (self.slices.grid.spacing * np.array(self.slices.grid.shape))[:2] * self.slices.unit
        self.space.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), title=" ")
        self.closeup.set_title(" ")
        for axis in (self.space, self.closeup):
            axis.set(aspect="equal", xticks=[], yticks=[])
            self.drawing.draw_marks(axis)

    def legend(self) -> list[Any]:
        """What the colours and marks of all pictures mean."""
        from matplotlib.patches import Patch

        strata = [Patch(color=c, alpha=STRONG, label=name) for c, name in zip(self.slices.colours, self.task.strata.names)]
        return [*strata, *self.marks()]

    def marks(self) -> list[Any]:
        """The part of the legend on what is drawn by `draw_space`."""
        from matplotlib.lines import Line2D

        looks = [("o", 4, "black", "particles")] * (self.cap is not None)
        looks += [("D", 6, "white", "now"), ("X", 8, "white", "where it went")]
        return [Line2D([], [], marker=m, ls="none", ms=ms, color=c, mec="black", label=name) for m, ms, c, name in looks]

    # -- what moves ---------------------------------------------------------------------------------------------------

    def draw_workspace(self, step: int) -> None:
        """The panels before the last two."""

    def region(self, step: int) -> Region | None:
        """The region of a step, None where there is none."""
        return None if self.cap is None else recorded_region(self.episode, self.cap, step)

    def draw_space(self, step: int) -> None:
        """The slice in which the step ends with the region of the step, whole and from near."""
        going, axes, unit = step < self.episode.steps, list(self.task.axes), self.slices.unit
        now, went = self.episode.states[[step, min(step + 1, self.episode.steps)]][:, axes]
        region, layer = self.region(step), self.slices.layer(went)
        expected = went if region is None else self.episode.particles[step].mean(axis=0)
        middle = (expected + went)[:2] / 2
        for axis in (self.space, self.closeup):
            limits = axis.get_xlim(), axis.get_ylim()
            self.draw_strata(axis, layer)
            if region is not None:
                self.draw_region(axis, region, layer, middle)
                axis.scatter(*(self.episode.particles[step][:, :2].T * unit), s=9, color="black", zorder=4)
            axis.plot(*(now[:2] * unit), "D", color="white", mec="black", ms=6, zorder=5)
            if going:
                axis.plot(*(went[:2] * unit), "X", color="white", mec="black", ms=8, zorder=7)
            axis.set(xlim=limits[0], ylim=limits[1])
        mark_window(self.space, self.closeup, middle * unit, self.half * unit)
        self.space.set_title(self.space_title(went))
        self.closeup.set_title(f"close-up: {verdict(self.episode, step)}" if region is not None else "close-up")

    def draw_strata(self, axis: Any, layer: tuple[int, ...]) -> None:
        """The strata of a slice, pale."""
        self.slices.draw(axis, layer, PALE)

    def draw_region(self, axis: Any, region: Region, layer: tuple[int, ...], middle: Floats) -> None:
        """The region of a step in the space, or in the close-up around `middle` (2,)."""
        if axis is self.closeup and not layer:
            self.slices.draw_shape(axis, region, middle, self.half)
        else:
            self.slices.draw_region(axis, region, layer)

    def space_title(self, went: Floats) -> str:
        """What the configuration space is called when a step ends at `went` (dc,)."""
        shown = zip(self.task.axes[2:], went[2:])
        at = ", ".join(f"{self.task.states[axis]} = {value:.3g}" for axis, value in shown)
        return f"configuration space at {at}" if at else "configuration space"


def verdict(episode: Episode, step: int) -> str:
    """Whether the region of a step held what followed, in words."""
    if step >= len(episode.inside):
        return ""
    return "the region held" if episode.inside[step] else "the region missed"
