"""Pictures of a peg episode: the peg over its hole, and the slice of the configuration space in which it lands."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.region import Region
from capture_cp.planning.episode import Episode
from capture_cp.report.movie import Picture
from capture_cp.report.storyboard import MovingFigure, check_states, heading, mark_window, rgb
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.studies.peg_figures import REGIME_COLOURS
from capture_cp.studies.peg_planning_figures import (
    GOAL_COLOUR,
    PARTICLE_COLOUR,
    PEG_COLOUR,
    draw_peg,
    draw_receptacle,
)
from capture_cp.studies.recorded import recorded_method, recorded_region, verdict
from capture_cp.tasks.peg.rows import ROWS
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import Peg

_MM = 1e3
_OUTSIDE = INFEASIBLE - 1  # of the region
_PALE, _STRONG = 0.18, 0.9
#: Half the side of the close-up (mm).
CLOSE = 7.0


class PegStoryboard:
    """Draws a recorded peg episode, one picture per control step."""

    rate = 15.0

    def __init__(self, episode: Episode) -> None:
        check_states(episode, 3, 3, "peg")
        self.episode = episode
        info = episode.info
        width = float(info.get("width", PegSettings.block_width)) * 1e-3
        settings = PegSettings(bound=float(info.get("bound", PegSettings.bound)), block_width=width)
        self.task = Peg(settings, info.get("system", "planar"), float(info.get("trim", 0.0)) * 1e-3)
        self.cap = recorded_method(episode, ROWS, self.task.method)
        self.figure = MovingFigure((13.6, 5.4), [0.8, 1, 1])
        self.workspace, self.space, self.closeup = self.figure.axes
        self._draw_background()

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step."""
        self.figure.clear()
        self._draw_workspace(step)
        self._draw_space(step)
        name = f"Peg ({self.task.system}), {self.episode.info.get('method', '')}"
        return self.figure.picture(f"{name}: {heading(self.episode, step, self.rate)}")

    # -- what stays ---------------------------------------------------------------------------------------------------

    def _draw_background(self) -> None:
        draw_receptacle(self.task, self.workspace)
        draw_peg(self.task, self.workspace, self.task.strata.goal, facecolor="none", edgecolor=GOAL_COLOUR, linestyle="--")
        self.workspace.set(xlim=(-36, 36), ylim=(-26, 78), xlabel="x (mm)", ylabel="z (mm)", title=" ")
        for axis in (self.space, self.closeup):
            axis.set(xlabel="x of the middle (mm)", title=" ", aspect="equal")
            axis.plot(*(self.task.strata.goal[:2] * _MM), "*", color="white", mec="black", ms=13, zorder=6)
        self.space.set(xlim=(-30, 30), ylim=(-10, 50), ylabel="z of the middle (mm)")
        self._draw_legend()
        self.figure.freeze()

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = [Patch(color=colour, label=regime) for regime, colour in REGIME_COLOURS.items()]
        handles += [
            Patch(color="#cccccc", label="infeasible"),
            Line2D([], [], marker="D", ls="none", ms=6, color="white", mec="black", label="now"),
            Line2D([], [], marker="X", ls="none", ms=8, color="white", mec="black", label="where it went"),
            Line2D([], [], marker="*", ls="none", ms=12, color="white", mec="black", label="goal"),
        ]
        if self.cap is not None:
            handles.append(Line2D([], [], marker="o", ls="none", ms=4, color="black", label="particles"))
        self.figure.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)

    # -- what moves ---------------------------------------------------------------------------------------------------

    def _draw_workspace(self, step: int) -> None:
        for pose in self.episode.particles[step] if step < len(self.episode.particles) else ():
            draw_peg(self.task, self.workspace, pose, facecolor="none", edgecolor=PARTICLE_COLOUR, linewidth=0.8, zorder=3)
        now = self.episode.states[step]
        draw_peg(self.task, self.workspace, now, facecolor=PEG_COLOUR, edgecolor="black", alpha=0.9, zorder=2)
        touching = self.task.strata.names[self.task.strata.index(now[None])[0]]
        self.workspace.set_title("workspace: " + ("free" if touching == "free" else f"touches {touching}"))

    def _draw_space(self, step: int) -> None:
        """The slice at the angle of the next pose, whole and from near, the region's cells in it strong."""
        going = step < self.episode.steps
        now, went = self.episode.states[step], self.episode.states[min(step + 1, self.episode.steps)]
        layer = self._layer(went[2])
        region = None if self.cap is None else recorded_region(self.episode, self.cap, step)
        for axis in (self.space, self.closeup):
            self._show(axis, self._slice(layer), _PALE)
            if region is not None:
                self._show(axis, self._slice(layer, region), _STRONG)
                axis.scatter(*(self.episode.particles[step][:, :2].T * _MM), s=10, color="black", zorder=4)
            axis.plot(*(now[:2] * _MM), "D", color="white", mec="black", ms=6, zorder=5)
            if going:
                axis.plot(*(went[:2] * _MM), "X", color="white", mec="black", ms=8, zorder=7)
        predicted = self.episode.particles[step].mean(axis=0) if region is not None else went
        mark_window(self.space, self.closeup, (predicted + went)[:2] / 2 * _MM, CLOSE)
        self.space.set_title(f"configuration space at θ = {np.degrees(went[2]):.1f}°")
        self.closeup.set_title(f"close-up: {verdict(self.episode, step)}" if region is not None else "close-up")

    def _layer(self, angle: float) -> int:
        """Number of the grid's layer nearest to an angle (rad)."""
        grid = self.task.strata.require_grid()
        return int(np.clip(np.rint((angle - grid.origin[2]) / grid.spacing[2]), 0, grid.shape[2] - 1))

    def _slice(self, layer: int, region: Region | None = None) -> Any:
        """Strata of the cells of one layer, (nx, nz); those outside a region, where one is given, are in none."""
        grid, labels = self.task.strata.require_grid(), self.task.strata.labels
        if region is None:
            return labels.reshape(grid.shape)[:, :, layer]
        x, z, theta = np.unravel_index(region.cells(), grid.shape)
        here = theta == layer
        kept = np.full(grid.shape[:2], _OUTSIDE)
        kept[x[here], z[here]] = labels[region.cells()[here]]
        return kept

    def _show(self, axis: Any, labels: Any, opacity: float) -> None:
        """Cells (nx, nz) by regime; infeasible ones grey, dark where a region has them, and nothing elsewhere."""
        picture: Floats = np.zeros((*labels.shape, 4))
        infeasible = "#cccccc" if opacity == _PALE else INFEASIBLE_COLOUR
        picture[labels == INFEASIBLE] = (*rgb(infeasible), 1.0)
        for m, regime in enumerate(self.task.strata.regimes):
            picture[labels == m] = (*rgb(REGIME_COLOURS[regime]), opacity)
        grid = self.task.strata.require_grid()
        low = (grid.origin - grid.spacing / 2)[:2] * _MM
        high = low + grid.spacing[:2] * np.array(labels.shape) * _MM
        extent = (low[0], high[0], low[1], high[1])
        limits = axis.get_xlim(), axis.get_ylim()
        axis.imshow(picture.swapaxes(0, 1), origin="lower", extent=extent, interpolation="nearest", aspect="equal")
        axis.set(xlim=limits[0], ylim=limits[1])
