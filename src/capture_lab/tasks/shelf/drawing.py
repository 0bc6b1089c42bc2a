"""Figures of the shelf: the arm in front of it, the jar's positions in regions, and the jar's paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.spaces.marks import PARTICLES, mark, mark_handles, mark_outcomes
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS, colour_of, label, pyplot
from capture_lab.tasks.drawing import (
    PATH_STYLES,
    REGION_MARKS,
    SMALL,
    Drawing,
    draw_start,
    method_panels,
    predicted,
    square,
    with_start,
)
from capture_lab.tasks.shelf.motions import moving_inputs
from capture_lab.tasks.shelf.shelves import Shelf
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import (
    GLASS_COLOUR,
    GOAL_COLOUR,
    JAR_COLOUR,
    SIDE,
    TOP,
    TOUCHED_COLOUR,
    WOOD_COLOUR,
    Arm,
    View,
    faces,
    glass_capsules,
    jar_cloud,
    jar_paths,
    nearest_last,
    stadium,
    window,
)
from capture_lab.tasks.slices import Slices, usual_colours
from capture_lab.tasks.task import Task

if TYPE_CHECKING:
    from capture_lab.tasks.shelf.film import ShelfStoryboard

#: Random inputs from which situations are chosen, true outcomes of each, and members of a region per stratum.
INPUTS, OUTCOMES, MEMBERS = 3_000, 60, 700
#: Colour and dash of each outcome, in the order of the legend.
STYLES = {"success": PATH_STYLES["success"], "touched the glass": PATH_STYLES["fell"], TIMED_OUT: PATH_STYLES[TIMED_OUT]}
#: How much space in front of the shelf the picture of the space shows (m).
WHOLE_ARM = 0.85
LEGEND: dict[str, Any] = {"loc": "outside lower center", "frameon": False}
#: Margin around jars in a close-up (m).
MARGIN = 0.03


class ShelfDrawing(Drawing):
    """Draws one shelf, its arm and its jar, from the side and from above; lengths on the axes are metres."""

    task: ShelfTask

    @cached_property
    def arm(self) -> Arm:
        """The capsules of the arm."""
        return Arm(self.task)

    @property
    def slices(self) -> Slices:
        """No slices are drawn: seven angles are hard to read, so pictures show the jar."""
        return _NoSlices(self.task)

    def storyboard(self, episode: Episode) -> ShelfStoryboard:
        from capture_lab.tasks.shelf.film import ShelfStoryboard

        return ShelfStoryboard(self, episode)

    # -- the coverage study -------------------------------------------------------------------------------------------

    def draw_spaces(self, file: Path) -> None:
        """Draw the shelf with the arm at its start, the glasses and the goal of the jar, from the side and from above."""
        plt, shelf = pyplot(), self.task.shelf
        corners = {view: window(shelf, view, WHOLE_ARM) for view in (SIDE, TOP)}
        corners[SIDE][0][1] = -0.02  # the floor
        heights = [float(high[1] - low[1]) for low, high in corners.values()]
        figure, panels = plt.subplots(2, 1, figsize=(7.2, 8.6), layout="constrained", height_ratios=heights, sharex=True)
        for axis, (view, (low, high)) in zip(panels, corners.items()):
            draw_shelf(axis, shelf, view)
            draw_arm(axis, self.arm, np.array(shelf.start), view)
            axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), ylabel=view.labels()[1], title=view.name)
        panels[1].set_xlabel(SIDE.labels()[0])
        figure.legend(handles=thing_handles(), **LEGEND, ncols=4, fontsize=9)
        figure.suptitle(f"{label(self.task.place)}: {label(shelf.about)}" if shelf.about else label(self.task.place))
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_regions(self, caps: Mapping[str, Capture], alpha: float, file: Path) -> None:
        """Draw the jar's positions in regions of every method, from the side; one row of panels per situation."""
        situations = self.situations()
        figure, panels = method_panels(list(caps), len(situations))
        for row, (situation, x) in zip(panels, situations.items()):
            self._draw_situation(row, x, {name: cap.region(x, alpha, rng=0) for name, cap in caps.items()})
            row[0].set_ylabel(situation)
        names = self.task.strata.names
        handles = [*strata_handles(names, square=False), *mark_handles(REGION_MARKS)]
        if any(cap.score_.ambient for cap in caps.values()):
            handles += strata_handles(["infeasible"], square=False, colours=[INFEASIBLE_COLOUR])
        figure.legend(handles=handles, **LEGEND, ncols=4, fontsize=8)
        figure.suptitle(f"{label(self.task.place)}: positions of the jar in regions at {1 - alpha:.0%}, side view")
        figure.savefig(file, dpi=130)
        pyplot().close(figure)

    def _draw_situation(self, row: Any, x: Floats, regions: Mapping[str, Region]) -> None:
        """The regions of one input x (21,), a panel for each method."""
        outcomes = self.task.outcomes(x[None], OUTCOMES, seed=1)[0]
        after, start = (SIDE.flat(self.task.jars(Y)[:, :3]) for Y in (outcomes, np.ascontiguousarray(x[None, :7])))
        start = start[0]
        clouds = [jar_cloud(self.task, region, MEMBERS, stream(0, "picture")) for region in regions.values()]
        every = np.concatenate([after, *(SIDE.flat(cloud.points) for cloud in clouds)])
        edges = with_start(square(every.min(axis=0) - MARGIN, every.max(axis=0) + MARGIN), start)
        xlim, ylim = edges
        for axis, region, cloud in zip(row, regions.values(), clouds):
            draw_shelf(axis, self.task.shelf, SIDE)
            for m, points in cloud.parts():
                draw_points(axis, SIDE.flat(points), colour_of(m), 7)
            particles = SIDE.flat(self.task.jars(np.ascontiguousarray(predicted(region)))[:, :3])
            mark(axis, PARTICLES, particles)
            draw_start(axis, start, particles, edges)
            mark_outcomes(axis, after, region.contains(outcomes), SMALL)
            axis.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
        bar = 0.05
        row[0].plot([xlim[0] + 0.01, xlim[0] + 0.01 + bar], [ylim[0] + 0.01] * 2, color="black", lw=2, zorder=7)
        row[0].text(xlim[0] + 0.01 + bar / 2, ylim[0] + 0.016, f"{100 * bar:.0f} cm", ha="center", fontsize=7, zorder=7)

    def situations(self) -> dict[str, Floats]:
        """Inputs whose regions are drawn, by name: the first, of a few thousand, that lands in each regime."""
        X = moving_inputs(self.task, INPUTS, np.random.default_rng(7))
        regimes = self.task.stratum_regimes[self.task.strata.index(self.task.outcomes(X, 1, seed=3)[:, 0])]
        firsts = {name: np.flatnonzero(regimes == number)[:1] for number, name in enumerate(self.task.regimes)}
        return {name: X[first[0]] for name, first in firsts.items() if len(first)}

    # -- the planning study -------------------------------------------------------------------------------------------

    def draw_workspace(self, axis: Any) -> None:
        draw_shelf(axis, self.task.shelf, SIDE)

    def draw_trajectories(
        self, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], file: Path
    ) -> None:
        """Draw paths of the jar in every episode: two rows per shelf, side and top view; one column per method."""
        plt = pyplot()
        methods = list(dict.fromkeys(name for _, name in results))
        size = max(2.5 * len(methods), 4.6), 4.4 * len(tasks) + 1.1
        heights = [height for task in tasks.values() for height in _heights(task)]
        figure, panels = plt.subplots(
            2 * len(tasks), len(methods), figsize=size, squeeze=False, layout="constrained", height_ratios=heights
        )
        for number, (place, task) in enumerate(tasks.items()):
            for column, name in enumerate(methods):
                pair = panels[2 * number : 2 * number + 2, column]
                _draw_paths(pair, task, results[place, name])
            for axis, view in zip(panels[2 * number : 2 * number + 2, 0], (SIDE, TOP)):
                axis.set_ylabel(f"{label(task.place)}, {view.name}", fontsize=8)
        for axis, name in zip(panels[0], methods):
            axis.set_title(name, fontsize=10)
        handles = [*path_handles(), *thing_handles()[1:3]]
        figure.legend(handles=handles, **LEGEND, ncols=5 if len(methods) > 2 else 3, fontsize=8)
        figure.suptitle("Paths of the jar", fontsize=11)
        figure.savefig(file, dpi=110)
        plt.close(figure)


class _NoSlices(Slices):
    """Only the colours of strata; finding the range of the configurations takes seconds."""

    def __init__(self, task: Task) -> None:
        self.colours, self.unit = usual_colours(task), 1.0


def _heights(task: Any) -> list[float]:
    return [float(high[1] - low[1]) for low, high in (window(task.shelf, view) for view in (SIDE, TOP))]


def _draw_paths(panels: Any, task: Any, runs: Sequence[Any]) -> None:
    """Paths of the jar in episodes of one shelf and method, from the side and from above."""
    paths = jar_paths(task, [run["path"] for run in runs])
    for axis, view in zip(panels, (SIDE, TOP)):
        low, high = window(task.shelf, view)
        draw_shelf(axis, task.shelf, view)
        for path, run in zip(paths, runs):
            colour, dash = STYLES.get(run["outcome"], PATH_STYLES["fell"])
            axis.plot(*view.flat(path).T, color=colour, ls=dash, lw=0.9, alpha=0.75, zorder=5)
            axis.plot(*view.flat(path[-1]), ".", color=colour, ms=4, zorder=6)
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    reached = sum(run["outcome"] == "success" for run in runs)
    panels[1].set_xlabel(f"{reached} of {len(runs)} reach the goal", fontsize=8)


# -- parts of a panel -------------------------------------------------------------------------------------------------------


def draw_shelf(axis: Any, shelf: Shelf, view: View, touched: Sequence[int] = ()) -> None:
    """Draw boards, walls, glasses and the goal of the jar in a view; touched glasses are red."""
    from matplotlib.patches import Circle, Polygon, Rectangle

    for low, high, broad in faces(shelf, view):
        look: dict[str, Any] = {"alpha": 0.10, "lw": 0, "zorder": 0} if broad else {"ec": "#8a6d45", "lw": 0.6, "zorder": 2}
        axis.add_patch(Rectangle(_pair(low), *(high - low), fc=WOOD_COLOUR, **look))
    for number, capsule in enumerate(glass_capsules(shelf)):
        colour = TOUCHED_COLOUR if number in touched else GLASS_COLOUR
        edge = "#7a1014" if number in touched else "#2f6f93"
        axis.add_patch(Polygon(stadium(capsule, view), fc=colour, ec=edge, lw=1.0, alpha=0.75, zorder=2.5))
    place = _pair(view.flat(shelf.goal))
    axis.add_patch(Circle(place, shelf.within, fc=GOAL_COLOUR, ec="none", alpha=0.18, zorder=2.6))
    axis.add_patch(Circle(place, shelf.within, fill=False, ec=GOAL_COLOUR, lw=1.5, zorder=4.5))
    axis.set_aspect("equal")


def _pair(point: Floats) -> tuple[float, float]:
    return float(point[0]), float(point[1])


def draw_arm(axis: Any, arm: Arm, y: Floats, view: View, opacity: float = 1.0) -> None:
    """The arm at a configuration y (7,) in a view."""
    from matplotlib.patches import Polygon

    capsules = arm.at(y)
    for number in nearest_last(capsules, view):
        colour = JAR_COLOUR if number == arm.jar else arm.colours[number]
        style: dict[str, Any] = {"fc": colour, "ec": "#55585f", "lw": 0.7, "alpha": opacity, "zorder": 3}
        axis.add_patch(Polygon(stadium(capsules[number], view), **style))


def draw_points(axis: Any, points: Floats, colour: str, size: float) -> None:
    """Points (n, 2) of a region, on top of the arm."""
    axis.scatter(*points.T, s=size, color=colour, alpha=0.45, linewidths=0, zorder=4)


# -- legends ----------------------------------------------------------------------------------------------------------------


def strata_handles(names: Sequence[str], square: bool = True, colours: Sequence[str] = STRATA_COLOURS) -> list[Any]:
    """Legend entries for the colours of a region."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"ls": "none", "marker": "s" if square else "o", "ms": 7 if square else 5, "mec": "none"}
    return [Line2D([], [], color=colour, label=name, **look) for name, colour in zip(names, colours)]


def thing_handles() -> list[Any]:
    """Legend entries for the shapes of a view."""
    from matplotlib.patches import Patch

    things = [("jar", JAR_COLOUR), ("glass", GLASS_COLOUR), ("goal of the jar", GOAL_COLOUR), ("shelf", WOOD_COLOUR)]
    return [Patch(color=colour, label=name) for name, colour in things]


def path_handles() -> list[Any]:
    """Legend entries for the lines of paths."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colour, ls=dash, label=name) for name, (colour, dash) in STYLES.items()]
