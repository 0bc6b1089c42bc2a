"""Figures of any task: its configuration space by stratum, regions over it, paths, particles.

A task with more to show derives from `Drawing`. Needs matplotlib (extra `view`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import has_grid
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.spaces.plotting import label, pyplot
from capture_cp.tasks.point_slices import PointSlices
from capture_cp.tasks.slices import Slices
from capture_cp.tasks.task import Task

if TYPE_CHECKING:
    from capture_cp.tasks.film import Storyboard

#: Random inputs from which the situations of a figure are chosen, and outcomes drawn in each.
INPUTS, OUTCOMES = 20_000, 200
PATH_STYLES = {"success": ("#0072B2", "-"), "fell": ("#D55E00", "--"), TIMED_OUT: ("#555555", ":")}


class Drawing:
    """Draws one task in one place."""

    #: The two axes of the configuration that figures show without a grid; with a grid, the first two.
    shown: tuple[int, int] = (0, 1)
    #: Title of the figure of all paths.
    paths_title = "Paths: to the goal (solid), failed (dashed), timed out (dotted)"

    def __init__(self, task: Task) -> None:
        self.task: Any = task

    # -- figures of studies -------------------------------------------------------------------------------------------

    def coverage_figures(
        self, study: Any, tasks: Mapping[str, Task], caps: Mapping[str, Mapping[str, Capture]], folder: Path
    ) -> list[Path]:
        """Write PNG files of every place and of the regions of calibrated methods there; `caps` are by place and method."""
        files = []
        for name, task in tasks.items():
            spaces, regions = (folder / f"{Path(name).stem}-{kind}.png" for kind in ("spaces", "regions"))
            task.drawing().draw_spaces(spaces)
            task.drawing().draw_regions(caps[name], study.alpha, regions)
            files += [spaces, regions]
        return files

    def planning_figures(
        self, study: Any, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], folder: Path
    ) -> list[Path]:
        """Write a PNG file of the paths of every episode; `results` are summaries of episodes by place and method."""
        file = folder / "trajectories.png"
        self.draw_trajectories(tasks, results, file)
        return [file]

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """The JSON-ready numbers behind a figure, by its name without suffix; None if its settings are enough."""
        return None

    def player_data(self, caps: Mapping[str, Capture], episodes: Mapping[str, Sequence[Episode]]) -> Any:
        """JSON-ready data with which a page's small player shows episodes by method; None if it cannot."""
        return None

    def storyboard(self, episode: Episode) -> Storyboard:
        """The object that draws a recorded episode of this task, step by step."""
        from capture_cp.tasks.film import Storyboard

        return Storyboard(self, episode)

    # -- single figures -----------------------------------------------------------------------------------------------

    @property
    def slices(self) -> Slices:
        """The object that draws the configuration space."""
        return Slices(self.task) if has_grid(self.task.strata) else PointSlices(self.task, shown=self.shown)

    def draw_workspace(self, axis: Any) -> None:
        """Draw the background of paths."""
        self.slices.draw(axis, self.slices.workspace_layer())

    def draw_marks(self, axis: Any) -> None:
        """Draw fixed things in the configuration space, such as a goal."""

    def draw_spaces(self, file: Path) -> None:
        """The configuration space by stratum, or slices of it."""
        plt, layers = pyplot(), self.slices.middle_layers()
        size = 4.2 * len(layers), 4.6 if len(layers) == 1 else 5.2
        figure, panels = plt.subplots(1, len(layers), figsize=size, squeeze=False, layout="constrained")
        for axis, layer in zip(panels[0], layers):
            self.slices.draw(axis, layer, 0.8)
            self.draw_marks(axis)
            across, up = map(self._axis_name, self.slices.shown)
            axis.set(xlabel=across, ylabel=up, title=self.slices.name(layer, self._axis_name))
        for name, colour in zip(self.task.strata.names, self.slices.colours):
            panels[0][0].scatter([], [], marker="s", color=colour, alpha=0.8, label=label(name))
        figure.legend(fontsize=8, loc="outside lower center", ncols=4, markerscale=1.5)
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_regions(self, caps: Mapping[str, Capture], alpha: float, file: Path) -> None:
        """Regions of every method, one row of panels per situation."""
        situations = self.situations()
        figure, panels = method_panels(list(caps), len(situations))
        for row, (situation, x) in zip(panels, situations.items()):
            after = self.task.outcomes(x[None], OUTCOMES, seed=1)[0]
            regions = {name: cap.region(x, alpha, rng=0) for name, cap in caps.items()}
            slices, layer = self.slices, self.slices.layer(after.mean(axis=0))
            (left, right), (bottom, top) = square(*slices.around(after, list(regions.values())))
            for axis, region in zip(row, regions.values()):
                axis.set(xlim=(left, right), ylim=(bottom, top))
                slices.draw(axis, layer)
                slices.draw_region(axis, region, layer)
                axis.scatter(*predicted(region)[:, slices.shown].T, s=9, color="black", zorder=3)
                self.draw_marks(axis)
                axis.plot(*after[:, slices.shown].T, "x", color="white", markeredgecolor="black", markersize=3)
                axis.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
                axis.set_xlabel(slices.size(region), fontsize=8)
            row[0].set_ylabel(situation)
        figure.suptitle(
            f"{label(self.task.place)}: regions at {1 - alpha:.0%} ({self.slices.parts}), "
            "particles (dots), true outcomes (x)"
        )
        figure.savefig(file, dpi=130)
        pyplot().close(figure)

    def situations(self) -> dict[str, Floats]:
        """Inputs whose regions are drawn, by name: one for each regime in which the true system lands."""
        X = self.task.inputs(INPUTS, np.random.default_rng(7))
        regimes = self.task.stratum_regimes[self.task.strata.index(self.task.outcomes(X, 1, seed=3)[:, 0])]
        firsts = {name: np.flatnonzero(regimes == number)[:1] for number, name in enumerate(self.task.regimes)}
        return {name: X[first[0]] for name, first in firsts.items() if len(first)}

    def draw_trajectories(
        self, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], file: Path
    ) -> None:
        """Paths of every episode, one row per place and one column per method: reached the goal, failed, or timed out."""
        plt = pyplot()
        methods = list(dict.fromkeys(name for _, name in results))
        figure, panels = plt.subplots(
            len(tasks), len(methods), figsize=(max(2.3 * len(methods), 6.0), 2.5 * len(tasks) + 0.4), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for row, (place, task) in zip(panels, tasks.items()):
            shown = task.drawing().slices.shown
            for axis, name in zip(row, methods):
                task.drawing().draw_workspace(axis)
                for run in results[place, name]:
                    colour, dash = PATH_STYLES.get(run["outcome"], PATH_STYLES["fell"])
                    axis.plot(*np.array(run["path"])[:, shown].T, color=colour, ls=dash, lw=0.8, alpha=0.7, zorder=3)
                reached = sum(run["outcome"] == "success" for run in results[place, name])
                axis.set(xticks=[], yticks=[])
                axis.set_xlabel(f"{reached} of {len(results[place, name])} reach the goal", fontsize=7)
            row[0].set_ylabel(task.place)
        for axis, name in zip(panels[0], methods):
            axis.set_title(name, fontsize=10)
        figure.suptitle(self.paths_title, fontsize=10)
        figure.savefig(file, dpi=110)
        plt.close(figure)

    # -- names --------------------------------------------------------------------------------------------------------

    def _axis_name(self, axis: int) -> str:
        return str(self.task.states[self.task.axes[axis]])


def method_panels(methods: Sequence[str], rows: int) -> tuple[Any, Any]:
    """A figure with one row of panels per situation and one column per method, with the method's name on top."""
    figure, panels = pyplot().subplots(
        rows, len(methods), figsize=(2.3 * len(methods), 2.5 * rows), squeeze=False, layout="constrained"
    )
    for axis, name in zip(panels[0], methods):
        axis.set_title(name, fontsize=10)
    return figure, panels


def predicted(region: Region) -> Floats:
    """The model's prediction: particles (L, dc), or the mean (1, dc) of a Gaussian."""
    return np.asarray(region.prediction[0] if isinstance(region.prediction, np.ndarray) else region.prediction.mean)


def square(low: Floats, high: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intervals on both axes of the square around a rectangle from `low` (2,) to `high` (2,)."""
    (x, y), half = (low + high) / 2, float((high - low).max()) / 2
    return (x - half, x + half), (y - half, y + half)
