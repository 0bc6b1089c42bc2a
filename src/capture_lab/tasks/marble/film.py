"""Videos of the marble: the tilted board and the workspace next to the configuration space."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_lab.tasks.film import PALE, Storyboard
from capture_lab.tasks.marble.board import board_polygons
from capture_lab.tasks.marble.drawing import metres
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.slices import Layer

MARBLE_COLOUR, PATH_COLOUR, PLAN_COLOUR = "#9aa5b1", "#222222", "#CC79A7"


class MarbleStoryboard(Storyboard):
    """The tilted board and the workspace next to the configuration space."""

    inches, ratios, close = (15.6, 5.0), (1.35, 1, 1, 1), 6.0
    columns = 5
    ends = dict(Storyboard.ends) | {"fell": "fell into a pit"}
    task: Marble

    def draw_background(self) -> None:
        from matplotlib.patches import Rectangle

        self.board, self.workspace = self.figure.axes[:2]
        self.board.set_axis_off()
        self._draw_tilted(self.episode.states[0])
        self.board.set_aspect("equal")
        self.board.autoscale_view()
        self.drawing.draw_workspace(self.workspace)
        for axis in (self.space, self.closeup):
            axis.add_patch(Rectangle((0, 0), *metres(self.task.map.size), color="white", zorder=-1))
            self.slices.draw(axis, (), PALE)
            self.drawing.draw_marks(axis)
            axis.set(xticks=[], yticks=[], facecolor="#cccccc")
        self.workspace.set(title="workspace", xticks=[], yticks=[])
        self.space.set(title=" ", xlim=self.workspace.get_xlim(), ylim=self.workspace.get_ylim())
        self.closeup.set_title(" ")

    def legend(self) -> list[Any]:
        from matplotlib.lines import Line2D

        path = Line2D([], [], color=PATH_COLOUR, lw=1.5, label="path")
        plan = Line2D([], [], color=PLAN_COLOUR, lw=2, ls=":", label="plan (model)")
        return [path, plan, *(super().legend() if self.cap is not None else ())]

    def draw_strata(self, axis: Any, layer: Layer) -> None:
        """Draw nothing: the strata are in the background."""

    def draw_workspace(self, step: int) -> None:
        from matplotlib.patches import Circle

        self._draw_tilted(self.episode.states[step])
        path = self.episode.states[: step + 1][:, POSITION]
        radius = self.task.map.marble_radius * MILLIMETRE
        self.workspace.plot(*path.T, color=PATH_COLOUR, lw=1.5, zorder=3)
        self.workspace.add_patch(Circle(path[-1], radius, facecolor=MARBLE_COLOUR, edgecolor="black", zorder=4))
        if step < self.episode.steps:
            self.workspace.plot(*self._planned(step).T, color=PLAN_COLOUR, lw=2, ls=":", zorder=5)

    def _draw_tilted(self, state: Floats) -> None:
        from matplotlib.collections import PolyCollection

        for old in list(self.board.collections):
            old.remove()
        shapes = board_polygons(self.task.map, state)
        colours = [polygon.colour for polygon in shapes]
        self.board.add_collection(PolyCollection([p.corners for p in shapes], facecolors=colours, edgecolors="#00000030"))

    def _planned(self, step: int) -> Floats:
        """Positions of the approximate model along the plan of a step, without noise: (H + 1, 2)."""
        state, still = self.episode.states[step][None], np.zeros((1, 2))
        along = [state]
        for action in self.episode.plans[step]:
            state = self.task.believed_step(state, action[None], still)
            along.append(state)
        return np.vstack(along)[:, POSITION]
