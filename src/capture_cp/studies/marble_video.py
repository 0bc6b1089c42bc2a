"""Pictures of a marble episode: the tilted board, the workspace, and the configuration space with its regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.capture.region import Region
from capture_cp.planning.episode import Episode
from capture_cp.report.movie import Picture
from capture_cp.report.storyboard import MovingFigure, check_states, heading, mark_window, rgb
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS, plot_strata
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.studies.board_drawing import board_polygons
from capture_cp.studies.marble_figures import GOAL_COLOUR, PIT_COLOUR, draw_board
from capture_cp.studies.recorded import recorded_method, recorded_region, verdict
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.maps import MILLIMETRE, load_map, tuning_variant
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.tasks.marble.rows import ROWS
from capture_cp.tasks.marble.task import Marble

MARBLE_COLOUR, PATH_COLOUR, PLAN_COLOUR = "#9aa5b1", "#222222", "#CC79A7"
#: Half the side of the close-up (m): regions of one step are millimetres wide.
CLOSE = 6e-3
#: Points a side at which its shape is drawn.
FINE = 240


class MarbleStoryboard:
    """Draws a recorded marble episode, one picture per control step."""

    rate = 1.0 / (dynamics.SUBSTEPS * dynamics.DT)

    def __init__(self, episode: Episode) -> None:
        check_states(episode, 6, 2, "marble")
        found = load_map(str(episode.info["map"]))
        self.episode = episode
        board, gain = (
            tuning_variant(found) if episode.info.get("variant") else found,
            float(episode.info.get("model_gain", 1.0)),
        )
        terms = episode.info.get("correction")
        correction = None if terms is None else tuple(tuple(map(float, row)) for row in terms)
        self.task = Marble(board, absorb=True, model_gain=gain, correction=correction)
        self.cap = recorded_method(episode, ROWS, self._method)
        self.figure = MovingFigure((15.6, 5.0), [1.35, 1, 1, 1])
        self.board, self.workspace, self.space, self.closeup = self.figure.axes
        self._draw_background()

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step."""
        self.figure.clear()
        self._draw_tilted(self.episode.states[step])
        self._draw_workspace(step)
        self._draw_space(step)
        name = f"{self.task.map.name}, {self.episode.info.get('method', '')}"
        return self.figure.picture(f"{name}: {heading(self.episode, step, self.rate)}")

    def _method(self, name: str, particles: int) -> Capture:
        return method(name, self.task, self.task.strata, n_particles=particles, k=self.episode.info.get("k"))

    # -- what stays ---------------------------------------------------------------------------------------------------

    def _draw_background(self) -> None:
        from matplotlib.patches import Circle, Rectangle

        self.board.set_axis_off()
        self._draw_tilted(self.episode.states[0])
        self.board.set_aspect("equal")
        self.board.autoscale_view()
        draw_board(self.task, self.workspace)
        board = [side * MILLIMETRE for side in self.task.map.size]
        for axis in (self.space, self.closeup):
            axis.add_patch(Rectangle((0, 0), *board, color="white", zorder=-1))
            plot_strata(self.task.strata, axis, opacity=0.15)
            for x, y in self.task.map.pits:
                centre = (x * MILLIMETRE, y * MILLIMETRE)
                axis.add_patch(Circle(centre, self.task.map.pit_radius * MILLIMETRE, fill=False, ec=PIT_COLOUR, lw=1.2))
            axis.plot(*(value * MILLIMETRE for value in self.task.map.goal), "*", color=GOAL_COLOUR, ms=12)
            axis.set(xticks=[], yticks=[], facecolor="#cccccc")
        self.workspace.set(title="workspace", xticks=[], yticks=[])
        self.space.set(title="configuration space", xlim=self.workspace.get_xlim(), ylim=self.workspace.get_ylim())
        self.closeup.set_title(" ")
        self._draw_legend()
        self.figure.freeze()
        self.board.collections[0].remove()

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = [
            Line2D([], [], color=PATH_COLOUR, lw=1.5, label="path"),
            Line2D([], [], color=PLAN_COLOUR, lw=2, ls=":", label="plan, by the model"),
        ]
        if self.cap is not None:
            handles += [
                *(Patch(color=c, alpha=0.75, label=name) for c, name in zip(STRATA_COLOURS, self.task.strata.names)),
                Line2D([], [], marker="o", ls="none", ms=4, color="black", label="particles"),
                Line2D([], [], marker="D", ls="none", ms=6, color="white", mec="black", label="now"),
                Line2D([], [], marker="X", ls="none", ms=8, color="white", mec="black", label="where it went"),
            ]
        self.figure.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)

    # -- what moves ---------------------------------------------------------------------------------------------------

    def _draw_tilted(self, state: Floats) -> None:
        from matplotlib.collections import PolyCollection

        shapes = board_polygons(self.task.map, state)
        colours = [polygon.colour for polygon in shapes]
        self.board.add_collection(PolyCollection([p.corners for p in shapes], facecolors=colours, edgecolors="#00000030"))

    def _draw_workspace(self, step: int) -> None:
        from matplotlib.patches import Circle

        path = self.episode.states[: step + 1][:, POSITION]
        radius = self.task.map.marble_radius * MILLIMETRE
        self.workspace.plot(*path.T, color=PATH_COLOUR, lw=1.5, zorder=3)
        self.workspace.add_patch(Circle(path[-1], radius, facecolor=MARBLE_COLOUR, edgecolor="black", zorder=4))
        if step < self.episode.steps:
            self.workspace.plot(*self._planned(step).T, color=PLAN_COLOUR, lw=2, ls=":", zorder=5)

    def _planned(self, step: int) -> Floats:
        """Where the approximate model would be along the plan of a step, without noise: (H + 1, 2)."""
        state, still = self.episode.states[step][None], np.zeros((1, 2))
        along = [state]
        for action in self.episode.plans[step]:
            state = self.task.believed_step(state, action[None], still)
            along.append(state)
        return np.vstack(along)[:, POSITION]

    def _draw_space(self, step: int) -> None:
        """The region of a step, small beside the board: its cells in the whole space, its true shape from near."""
        going = step < self.episode.steps
        now, went = self.episode.states[[step, min(step + 1, self.episode.steps)]][:, POSITION]
        region = None if self.cap is None or not going else recorded_region(self.episode, self.cap, step)
        predicted = went if region is None else self.episode.particles[step].mean(axis=0)
        middle = (predicted + went) / 2
        for axis in (self.space, self.closeup):
            axis.plot(*now, "D", color="white", mec="black", ms=6, zorder=4)
            if going:
                axis.plot(*went, "X", color="white", mec="black", ms=8, zorder=5)
        if region is not None:
            region.plot(self.space)
            self._draw_shape(region, middle)
            self.closeup.scatter(*self.episode.particles[step].T, s=9, color="black", zorder=3)
        mark_window(self.space, self.closeup, middle, CLOSE)
        self.closeup.set_title(f"close-up: {verdict(self.episode, step)}" if region is not None else "close-up")

    def _draw_shape(self, region: Region, middle: Floats) -> None:
        """The region in the close-up, point by point: it may be smaller than a cell of the grid."""
        side = np.linspace(-CLOSE, CLOSE, FINE)
        points = middle + np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        labels, inside = self.task.strata.index(points), region.contains(points)
        picture = np.zeros((FINE * FINE, 4))
        for m, colour in ((INFEASIBLE, INFEASIBLE_COLOUR), *enumerate(STRATA_COLOURS)):
            picture[inside & (labels == m)] = (*rgb(colour), 0.75)
        (left, bottom), (right, top) = middle - CLOSE, middle + CLOSE
        image = picture.reshape(FINE, FINE, 4).swapaxes(0, 1)
        self.closeup.imshow(image, origin="lower", extent=(left, right, bottom, top), interpolation="nearest")
