"""Figures of any task: its configuration space by stratum, regions over it, paths, particles.

A task that has more to show derives from `Drawing`. Needs matplotlib (extra `view`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS, label, pyplot
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.tasks.task import Task

if TYPE_CHECKING:
    from capture_cp.tasks.film import Storyboard

#: Colour of infeasible space, and opacity of strata and of a region's cells.
WALL_COLOUR, PALE, STRONG = "#cccccc", 0.12, 0.75
#: Random inputs among which the situations of a figure are looked for, and outcomes drawn in each.
INPUTS, OUTCOMES = 20_000, 200
#: Cells of surroundings that are shown around a region.
MARGIN = 4
SLICES = 5
PATH_STYLES = {"success": ("#0072B2", "-"), "fell": ("#D55E00", "--"), TIMED_OUT: ("#555555", ":")}
_OUTSIDE = INFEASIBLE - 1  # of a region


class Slices:
    """Draws the first two axes of a configuration space at one place on the others; a plane has one slice, itself.

    Args:
        task: whose space it is.
        colours: one per stratum, by default the usual ones in order.
        unit: by which lengths are multiplied.
    """

    def __init__(self, task: Task, colours: Sequence[str] | None = None, unit: float = 1.0) -> None:
        self.strata, self.grid, self.unit = task.strata, task.strata.require_grid(), unit
        names = range(len(task.strata.names))
        self.colours = colours or [STRATA_COLOURS[m % len(STRATA_COLOURS)] for m in names]

    def layer(self, configuration: Floats) -> tuple[int, ...]:
        """Numbers of the cells nearest to a configuration (dc,) on the axes that are not drawn."""
        cells = np.rint((np.asarray(configuration) - self.grid.origin) / self.grid.spacing).astype(int)
        return tuple(int(cell) for cell in np.clip(cells, 0, np.array(self.grid.shape) - 1)[2:])

    def draw(self, axis: Any, layer: tuple[int, ...], opacity: float = PALE) -> None:
        """The strata of a slice, infeasible space in grey."""
        whole: tuple[Any, ...] = (slice(None), slice(None))
        labels = self.strata.labels.reshape(self.grid.shape)[(*whole, *layer)]
        self._show(axis, labels, opacity, WALL_COLOUR, 1.0)

    def draw_region(
        self, axis: Any, region: Region, layer: tuple[int, ...], opacity: float = STRONG, infeasible: float = STRONG
    ) -> None:
        """The cells of a region in a slice by stratum; `infeasible` is the opacity of those that are."""
        cells = np.stack(np.unravel_index(region.cells(), self.grid.shape), axis=1)
        here = (cells[:, 2:] == np.array(layer, dtype=int)).all(axis=1)
        labels: Ints = np.full(self.grid.shape[:2], _OUTSIDE)
        labels[tuple(cells[here, :2].T)] = self.strata.labels[region.cells()[here]]
        self._show(axis, labels, opacity, INFEASIBLE_COLOUR, infeasible)

    def draw_shape(self, axis: Any, region: Region, middle: Floats, half: float, points: int = 240) -> None:
        """A region of a plane within a square of half a side around `middle` (2,), point by point: it may be smaller
        than a cell."""
        side = np.linspace(-half, half, points)
        at = middle + np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        labels = np.where(region.contains(at), self.strata.index(at), _OUTSIDE).reshape(points, points)
        (left, bottom), (right, top) = (middle - half) * self.unit, (middle + half) * self.unit
        self._show(axis, labels, STRONG, INFEASIBLE_COLOUR, STRONG, (left, right, bottom, top))

    def _show(self, axis: Any, labels: Any, opacity: float, wall: str, infeasible: float, extent: Any = None) -> None:
        from matplotlib.colors import to_rgba

        picture = np.zeros((*labels.shape, 4))
        picture[labels == INFEASIBLE] = to_rgba(wall, infeasible)
        for m, colour in enumerate(self.colours):
            picture[labels == m] = to_rgba(colour, opacity)
        if extent is None:
            low = (self.grid.origin - self.grid.spacing / 2)[:2] * self.unit
            high = low + self.grid.spacing[:2] * np.array(labels.shape) * self.unit
            extent = (low[0], high[0], low[1], high[1])
        axis.imshow(picture.swapaxes(0, 1), origin="lower", extent=extent, interpolation="nearest", aspect="equal")


class Drawing:
    """Draws one task in one place."""

    #: What the figure of all paths is called, and how many of them count as what.
    paths_title = "Paths: to the goal (solid), failed (dashed), timed out (dotted)"

    def __init__(self, task: Task) -> None:
        self.task: Any = task

    # -- figures of studies -------------------------------------------------------------------------------------------

    def coverage_figures(
        self, study: Any, tasks: Mapping[str, Task], caps: Mapping[str, Mapping[str, Capture]], folder: Path
    ) -> list[Path]:
        """PNG files of every place and of the regions of calibrated methods there; `caps` are by place and method."""
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
        """A PNG file of the paths of every episode; `results` are summaries of episodes by place and method."""
        file = folder / "trajectories.png"
        self.draw_trajectories(tasks, results, file)
        return [file]

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """The JSON-ready numbers behind a figure, by its name without ending; None where its settings are all there is."""
        return None

    def player_data(self, caps: Mapping[str, Capture], episodes: Mapping[str, Sequence[Episode]]) -> Any:
        """What the small player of a page needs to show episodes by method, JSON-ready; None where it cannot."""
        return None

    def storyboard(self, episode: Episode) -> Storyboard:
        """What draws a recorded episode of this task, step by step."""
        from capture_cp.tasks.film import Storyboard

        return Storyboard(self, episode)

    # -- single figures -----------------------------------------------------------------------------------------------

    @property
    def slices(self) -> Slices:
        """What draws the configuration space."""
        return Slices(self.task)

    def draw_workspace(self, axis: Any) -> None:
        """What paths are drawn over."""
        self.slices.draw(axis, self._middle_layers()[0])

    def draw_marks(self, axis: Any) -> None:
        """What else stands in the configuration space, such as a goal."""

    def draw_spaces(self, file: Path) -> None:
        """The configuration space by stratum, or slices of it."""
        plt, layers = pyplot(), self._middle_layers()
        figure, panels = plt.subplots(1, len(layers), figsize=(4.2 * len(layers), 4.6), squeeze=False, layout="constrained")
        for axis, layer in zip(panels[0], layers):
            self.slices.draw(axis, layer, 0.8)
            self.draw_marks(axis)
            axis.set(xlabel=self._axis_name(0), ylabel=self._axis_name(1), title=self._layer_name(layer))
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
            centres = [self.slices.grid.centre(region.cells()) for region in regions.values()]
            shown, margin = np.vstack([after, *centres])[:, :2], MARGIN * self.slices.grid.spacing[:2]
            (left, right), (bottom, top) = square(shown.min(axis=0) - margin, shown.max(axis=0) + margin)
            layer = self.slices.layer(after.mean(axis=0))
            for axis, region in zip(row, regions.values()):
                self.slices.draw(axis, layer)
                self.slices.draw_region(axis, region, layer)
                axis.scatter(*predicted(region)[:, :2].T, s=9, color="black", zorder=3)
                self.draw_marks(axis)
                axis.plot(*after[:, :2].T, "x", color="white", markeredgecolor="black", markersize=3)
                axis.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
                axis.set_xlabel(f"{len(region.cells()):,} cells", fontsize=8)
            row[0].set_ylabel(situation)
        figure.suptitle(
            f"{label(self.task.place)}: regions at {1 - alpha:.0%} (cells by stratum), particles (dots), true outcomes (x)"
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
            for axis, name in zip(row, methods):
                task.drawing().draw_workspace(axis)
                for run in results[place, name]:
                    colour, dash = PATH_STYLES.get(run["outcome"], PATH_STYLES["fell"])
                    axis.plot(*np.array(run["path"])[:, :2].T, color=colour, ls=dash, lw=0.8, alpha=0.7, zorder=3)
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

    def _middle_layers(self) -> list[tuple[int, ...]]:
        """A few slices across the third axis, through the middle of others; one of a plane."""
        rest = self.slices.grid.shape[2:]
        if not rest:
            return [()]
        middle = tuple(size // 2 for size in rest[1:])
        return [(int(at), *middle) for at in np.linspace(0, rest[0] - 1, SLICES + 2)[1:-1]]

    def _axis_name(self, axis: int) -> str:
        return str(self.task.states[self.task.axes[axis]])

    def _layer_name(self, layer: tuple[int, ...]) -> str:
        grid = self.slices.grid
        at = (f"{self._axis_name(2 + i)} = {grid.origin[2 + i] + n * grid.spacing[2 + i]:.3g}" for i, n in enumerate(layer))
        return ", ".join(at) or "configuration space"


def method_panels(methods: Sequence[str], rows: int) -> tuple[Any, Any]:
    """A figure with one row of panels per situation and one column per method, named on top."""
    figure, panels = pyplot().subplots(
        rows, len(methods), figsize=(2.3 * len(methods), 2.5 * rows), squeeze=False, layout="constrained"
    )
    for axis, name in zip(panels[0], methods):
        axis.set_title(name, fontsize=10)
    return figure, panels


def predicted(region: Region) -> Floats:
    """What the model predicted: particles (L, dc), or the mean (1, dc) of a Gaussian."""
    return np.asarray(region.prediction[0] if isinstance(region.prediction, np.ndarray) else region.prediction.mean)


def square(low: Floats, high: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intervals on both axes of the square around a rectangle from `low` (2,) to `high` (2,)."""
    (x, y), half = (low + high) / 2, float((high - low).max()) / 2
    return (x - half, x + half), (y - half, y + half)
