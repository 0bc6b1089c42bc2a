"""Figures of any task: its configuration space by stratum, regions, paths and particles.

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
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.spaces.marks import (
    ACTION,
    INSIDE,
    OUTSIDE,
    PARTICLES,
    START,
    draw_action,
    mark,
    mark_handles,
    mark_outcomes,
)
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, label, pyplot
from capture_cp.spaces.strata import has_grid
from capture_lab.tasks.point_slices import PointSlices
from capture_lab.tasks.slices import STRONG, WALL_COLOUR, Slices
from capture_lab.tasks.task import Task

if TYPE_CHECKING:
    from capture_lab.tasks.film import Storyboard

#: Random inputs among which the situations of a figure are found, and outcomes drawn in each.
INPUTS, OUTCOMES = 20_000, 200
#: Marks of regions with one input and many true outcomes, and the size of these marks.
REGION_MARKS, SMALL = (PARTICLES, START, ACTION, INSIDE, OUTSIDE), 0.75
#: A window on a region grows up to this many times to include the start of the step.
MOST_GROWTH = 1.5
PATH_STYLES = {"success": ("#0072B2", "-"), "fell": ("#D55E00", "--"), TIMED_OUT: ("#555555", ":")}


class Drawing:
    """Draws one task in one place."""

    #: The two axes of the configuration that figures show without a grid; with a grid, the first two.
    shown: tuple[int, int] = (0, 1)
    #: Title of the figure of all paths, and what a path that failed did.
    paths_title, failed = "Paths of all episodes", "failed"

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
        """The JSON-ready numbers behind a figure, by its name without ending; None if its settings say it all."""
        return None

    def player_data(self, caps: Mapping[str, Capture], episodes: Mapping[str, Sequence[Episode]]) -> Any:
        """JSON-ready data for the player of a page, which shows episodes by method; None if there is no player."""
        return None

    def storyboard(self, episode: Episode) -> Storyboard:
        """The object that draws a recorded episode of this task, step by step."""
        from capture_lab.tasks.film import Storyboard

        return Storyboard(self, episode)

    # -- single figures -----------------------------------------------------------------------------------------------

    @property
    def slices(self) -> Slices:
        """The object that draws the configuration space."""
        return Slices(self.task) if has_grid(self.task.strata) else PointSlices(self.task, shown=self.shown)

    def draw_workspace(self, axis: Any) -> None:
        """The background of paths."""
        self.slices.draw(axis, self.slices.workspace_layer())

    def draw_marks(self, axis: Any) -> None:
        """Other things in the configuration space, such as a goal."""

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
            start = np.asarray(x)[list(self.task.axes)]
            slices, layer = self.slices, self.slices.layer(after.mean(axis=0))
            window = square(*slices.around(after, list(regions.values())))
            (left, right), (bottom, top) = window = with_start(window, start[list(slices.shown)] * slices.unit)
            for axis, region in zip(row, regions.values()):
                axis.set(xlim=(left, right), ylim=(bottom, top))
                slices.draw(axis, layer)
                slices.draw_region(axis, region, layer)
                self.draw_marks(axis)
                particles = predicted(region)[:, slices.shown]
                mark(axis, PARTICLES, particles, zorder=4)
                draw_start(axis, start[list(slices.shown)], particles, window)
                mark_outcomes(axis, after[:, slices.shown], region.contains(after), SMALL)
                axis.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
                axis.set_xlabel(slices.size(region), fontsize=8)
            row[0].set_ylabel(situation)
        figure.suptitle(f"{label(self.task.place)}: regions at {1 - alpha:.0%} ({self.slices.parts})")
        handles = [*self.region_handles(), *mark_handles(REGION_MARKS)]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
        figure.savefig(file, dpi=130)
        pyplot().close(figure)

    def region_handles(self) -> list[Any]:
        """Entries of a legend for the colours of a region, and for infeasible space outside it."""
        from matplotlib.patches import Patch

        strata = zip(self.task.strata.names, self.slices.colours)
        handles = [Patch(color=colour, alpha=STRONG, label=f"region: {label(name)}") for name, colour in strata]
        infeasible = Patch(color=INFEASIBLE_COLOUR, alpha=STRONG, label="region: infeasible")
        return [*handles, infeasible, Patch(color=WALL_COLOUR, label="infeasible")]

    def situations(self) -> dict[str, Floats]:
        """Inputs whose regions are drawn, by name: one per regime in which the true system ends."""
        X = self.task.inputs(INPUTS, np.random.default_rng(7))
        regimes = self.task.stratum_regimes[self.task.strata.index(self.task.outcomes(X, 1, seed=3)[:, 0])]
        firsts = {name: np.flatnonzero(regimes == number)[:1] for number, name in enumerate(self.task.regimes)}
        return {name: X[first[0]] for name, first in firsts.items() if len(first)}

    def draw_trajectories(
        self, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], file: Path
    ) -> None:
        """Paths of every episode, one row per place and one column per method."""
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
        figure.legend(handles=path_handles(self.failed), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        figure.savefig(file, dpi=150)
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


def path_handles(failed: str) -> list[Any]:
    """Entries of a legend for the lines of paths."""
    from matplotlib.lines import Line2D

    names = {"success": "reached the goal", "fell": failed, TIMED_OUT: "timed out"}
    return [Line2D([], [], color=colour, ls=dash, label=names[key]) for key, (colour, dash) in PATH_STYLES.items()]


def predicted(region: Region) -> Floats:
    """The model's prediction: particles (L, dc), or the mean (1, dc) of a Gaussian."""
    return np.asarray(region.prediction[0] if isinstance(region.prediction, np.ndarray) else region.prediction.mean)


Window = tuple[tuple[float, float], tuple[float, float]]


def with_start(window: Window, start: Floats) -> Window:
    """The square window, enlarged to include a start (2,) if that does not make it much larger."""
    low, high = np.array(window).T
    margin = 0.06 * (high - low)
    wide = square(np.minimum(low, start - margin), np.maximum(high, start + margin))
    return wide if wide[0][1] - wide[0][0] <= MOST_GROWTH * (high - low)[0] else window


def draw_start(axis: Any, start: Floats, particles: Floats, window: Window) -> None:
    """The start (2,) of a step and an arrow to the mean of the particles (n, 2); a start outside is put on the border."""
    low, high = np.array(window).T
    to = np.atleast_2d(particles).mean(axis=0) - start
    with np.errstate(divide="ignore", invalid="ignore"):
        entered = np.where(to > 0, (low - start) / to, np.where(to < 0, (high - start) / to, 0.0))
    place = start + float(np.clip(np.nanmax(entered), 0.0, 1.0)) * to
    draw_action(axis, place, particles)
    mark(axis, START, place, 0.8, clip=False)


def square(low: Floats, high: Floats) -> Window:
    """Intervals on both axes of the square around a rectangle from `low` (2,) to `high` (2,)."""
    (x, y), half = (low + high) / 2, float((high - low).max()) / 2
    return (x - half, x + half), (y - half, y + half)
