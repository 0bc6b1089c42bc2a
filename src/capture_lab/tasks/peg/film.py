"""Videos of the peg: the peg over its hole, and the slice of the configuration space in which it lands."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.region import Region
from capture_cp.spaces.marks import GOAL, mark_handles
from capture_lab.tasks.film import Storyboard
from capture_lab.tasks.peg.drawing import GOAL_COLOUR, PARTICLE_COLOUR, PEG_COLOUR, REGIME_COLOURS, PegDrawing
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.slices import WALL_COLOUR, Layer

#: Opacity of the strata, of a region's cells, and of those that are infeasible.
PALE, STRONG, SOLID = 0.18, 0.9, 1.0


class PegStoryboard(Storyboard):
    """The workspace next to the configuration space, all in millimetres."""

    inches, ratios, close, columns = (13.6, 5.6), (0.8, 1, 1), 28.0, 6
    task: Peg
    drawing: PegDrawing

    @property
    def title(self) -> str:
        return f"Peg ({self.task.system}), {self.episode.info.get('method', '')}"

    def draw_background(self) -> None:
        self.workspace = self.figure.axes[0]
        self.drawing.draw_workspace(self.workspace)
        goal = {"facecolor": "none", "edgecolor": GOAL_COLOUR, "linestyle": "--"}
        self.drawing.draw_peg(self.workspace, self.task.strata.goal, **goal)
        self.workspace.set(xlim=(-36, 36), ylim=(-26, 78), xlabel="x (mm)", ylabel="z (mm)", title=" ")
        for axis in (self.space, self.closeup):
            axis.set(xlabel="x of the centre (mm)", title=" ", aspect="equal")
            self.drawing.draw_marks(axis)
        self.space.set(xlim=(-30, 30), ylim=(-10, 50), ylabel="z of the centre (mm)")

    def legend(self) -> list[Any]:
        from matplotlib.patches import Patch

        regimes = [Patch(color=colour, label=regime) for regime, colour in REGIME_COLOURS.items()]
        return [*regimes, Patch(color=WALL_COLOUR, label="infeasible"), *mark_handles([*self.marks(), GOAL])]

    def draw_workspace(self, step: int) -> None:
        for pose in self.episode.particles[step] if step < len(self.episode.particles) else ():
            style = {"facecolor": "none", "edgecolor": PARTICLE_COLOUR, "linewidth": 0.8, "zorder": 3}
            self.drawing.draw_peg(self.workspace, pose, **style)
        now = self.episode.states[step]
        self.drawing.draw_peg(self.workspace, now, facecolor=PEG_COLOUR, edgecolor="black", alpha=0.9, zorder=2)
        touching = self.task.strata.names[self.task.strata.index(now[None])[0]]
        self.workspace.set_title("workspace: " + ("free" if touching == "free" else f"touches {touching}"))

    def draw_strata(self, axis: Any, layer: Layer) -> None:
        self.slices.draw(axis, layer, PALE)

    def draw_region(self, axis: Any, region: Region, layer: Layer, middle: Floats) -> None:
        self.slices.draw_region(axis, region, layer, STRONG, SOLID)

    def space_title(self, went: Floats) -> str:
        return f"configuration space at θ = {np.degrees(went[2]):.1f}°"
