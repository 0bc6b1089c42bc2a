"""Videos of the shelf: the arm in 3D, and the shelf from the side and from above, with the region of every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from capture_cp.base.streams import stream
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.spaces.marks import PARTICLES, PATH_COLOUR, START, draw_action, mark, mark_handles
from capture_cp.spaces.plotting import colour_of
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.film import Storyboard, verdict
from capture_lab.tasks.shelf.drawing import (
    ShelfDrawing,
    draw_arm,
    draw_points,
    draw_shelf,
    strata_handles,
)
from capture_lab.tasks.shelf.rendered import renderer_for
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import SIDE, TOP, Cloud, jar_cloud, touched_glasses, window

#: Members of a region per stratum that are drawn.
MEMBERS = 350
#: Height and width of the picture in 3D (pixels).
SIZE = (900, 1080)
#: Opacity of the arm in the views, so that the shelf is visible behind it; how far in front of the shelf they begin (m).
PALE_ARM, FRONT = 0.55, 0.17
TOUCHED = "touched the glass"


class ShelfStoryboard(Storyboard):
    """The arm in 3D; on the right, one above the other, the side view and the top view on the same scale."""

    inches, ratios = (12.0, 7.2), (2.1, 1, 1)
    ends: Mapping[str, str] = {"success": "the jar is in its place", TOUCHED: "touched the glass", TIMED_OUT: "out of time"}
    task: ShelfTask
    drawing: ShelfDrawing

    def __init__(self, drawing: Drawing, episode: Episode) -> None:
        super().__init__(drawing, episode)
        self._lay_legend()
        self.jars = self.task.jars(np.ascontiguousarray(self.episode.states[:, :7]))[:, :3]
        self.renderer = renderer_for(self.task, *SIZE)

    @property
    def title(self) -> str:
        return f"Shelf ({self.task.place}), {self.episode.info.get('method', '')}"

    def touched(self, step: int) -> list[int]:
        """Numbers of the glasses that have been touched when a step begins."""
        if self.episode.outcome != TOUCHED or step < self.episode.steps:
            return []
        return touched_glasses(self.task, np.ascontiguousarray(self.episode.states[-2:, :7]))

    # -- fixed parts --------------------------------------------------------------------------------------------------

    def draw_background(self) -> None:
        self.room = self.figure.axes[0]
        self.views = {SIDE: self.space, TOP: self.closeup}
        corners = {view: window(self.task.shelf, view, FRONT) for view in self.views}
        heights = [float(high[1] - low[1]) for low, high in corners.values()]
        grid = self.figure.figure.add_gridspec(2, 2, width_ratios=self.ratios[:2], height_ratios=heights)
        places = (grid[:, 0], grid[0, 1], grid[1, 1])
        for axis, place in zip((self.room, *self.views.values()), places):
            axis.set_subplotspec(place)
            axis.set(xticks=[], yticks=[], title=" ")
        for (view, axis), (low, high) in zip(self.views.items(), corners.values()):
            axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
            draw_shelf(axis, self.task.shelf, view)
        height, width = SIZE
        self.room.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        self.room.set_axis_off()

    def legend(self) -> list[Any]:
        return [*(strata_handles(self.task.strata.names) if self.cap is not None else []), *mark_handles(self.marks())]

    def _lay_legend(self) -> None:
        """Lay the legend out anew, closer: it has many entries."""
        figure, handles = self.figure.figure, self.legend()
        for legend in list(figure.legends):
            legend.remove()
        close = {"handletextpad": 0.1, "columnspacing": 1.0, "fontsize": 10}
        columns = -(-len(handles) // 2) if len(handles) > 6 else len(handles)
        figure.legend(handles=handles, loc="lower center", ncols=columns, frameon=False, **close)

    # -- moving parts -------------------------------------------------------------------------------------------------

    def draw_workspace(self, step: int) -> None:
        """Draw the arm in 3D; without a renderer, the whole arm from the side."""
        now = self.episode.states[step, :7]
        self.cloud = self._cloud(step)
        if self.renderer is None:
            self._draw_plainly(step)
            return
        way, particles = self.jars[: step + 1], self._particles(step)
        picture = self.renderer.picture(now, self.cloud, particles, way, self.touched(step))
        self.room.imshow(picture, extent=(0, SIZE[1], SIZE[0], 0), interpolation="antialiased", zorder=1)

    def draw_space(self, step: int) -> None:
        """Draw the region of the step as positions of the jar, from the side and from above."""
        going = step < self.episode.steps
        for view, axis in self.views.items():
            if self.touched(step):
                draw_shelf(axis, self.task.shelf, view, self.touched(step))
            draw_arm(axis, self.drawing.arm, self.episode.states[step, :7], view, PALE_ARM)
            for m, points in self.cloud.parts() if self.cloud is not None else ():
                draw_points(axis, view.flat(points), colour_of(m), 6)
            particles, now = view.flat(self._particles(step)), view.flat(self.jars[step])
            axis.plot(*view.flat(self.jars[: step + 1]).T, color=PATH_COLOUR, lw=1.2, zorder=4.6)
            if len(particles):
                mark(axis, PARTICLES, particles)
                draw_action(axis, now, particles, zorder=5.5)
            mark(axis, START, now, 0.8, zorder=6)
            if going:
                mark(axis, self.outcome(step), view.flat(self.jars[step + 1]), zorder=7)
        result = verdict(self.episode, step) if self.cloud is not None else ""
        self.views[SIDE].set_title(f"{SIDE.name}: {result}" if result else SIDE.name, fontsize=10)
        self.views[TOP].set_title(TOP.name, fontsize=10)
        m = int(self.task.strata.index(self.episode.states[step : step + 1, :7])[0])
        self.room.set_title("infeasible" if m < 0 else self.task.strata.names[m], fontsize=10)

    def _cloud(self, step: int) -> Cloud | None:
        region = self.region(step)
        return None if region is None else jar_cloud(self.task, region, MEMBERS, stream(step, "picture"))

    def _particles(self, step: int) -> Any:
        """Jars (L, 3) of the particles of a step."""
        if step >= len(self.episode.particles):
            return np.empty((0, 3))
        return self.task.jars(np.ascontiguousarray(self.episode.particles[step]))[:, :3]

    def _draw_plainly(self, step: int) -> None:
        """Draw the whole arm from the side, in place of the 3D picture."""
        low, high = window(self.task.shelf, SIDE, before=0.8)
        self.room.set(xlim=(low[0], high[0]), ylim=(-0.08, high[1]), aspect="equal")
        draw_shelf(self.room, self.task.shelf, SIDE, self.touched(step))
        draw_arm(self.room, self.drawing.arm, self.episode.states[step, :7], SIDE)
        for m, points in self.cloud.parts() if self.cloud is not None else ():
            draw_points(self.room, SIDE.flat(points), colour_of(m), 6)
        self.room.plot(*SIDE.flat(self.jars[: step + 1]).T, color="#333333", lw=1.2, zorder=4.6)

    def _half(self) -> float:
        return 0.0  # there is no close-up
