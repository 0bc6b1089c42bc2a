"""Figures of the marble: workspace and configuration space, and regions of all methods over their particles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.spaces.plotting import STRATA_COLOURS, label, plot_strata, pyplot
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.cspace import CORNER, EDGE, FREE
from capture_cp.tasks.marble.maps import MILLIMETRE
from capture_cp.tasks.marble.task import Marble

WALL_COLOUR, PIT_COLOUR, GOAL_COLOUR = "#6b5a45", "#111111", "#009E73"
MARGIN = 4e-3  # metres of surroundings shown around a region


def coverage_figures(
    study: Any, tasks: Mapping[str, Marble], caps: Mapping[str, Mapping[str, Capture]], folder: Path
) -> list[Path]:
    """Workspace, configuration space and regions of every map, as PNG files."""
    files = []
    for name, task in tasks.items():
        spaces, regions = (folder / f"{Path(name).stem}-{kind}.png" for kind in ("spaces", "regions"))
        draw_spaces(task, spaces)
        draw_regions(task, caps[name], study.alpha, regions)
        files += [spaces, regions]
    return files


def figure_data(tasks: Mapping[str, Marble], figure: str) -> Any:
    """The map and its strata, for a figure of them."""
    from capture_cp.studies.animation import board

    boards = {f"{Path(name).stem}-spaces": task for name, task in tasks.items()}
    return board(boards[figure]) if figure in boards else None


def draw_spaces(task: Marble, file: Path) -> None:
    """The board with its walls, pits and goal, and the configuration space with its strata, side by side."""
    plt = pyplot()
    width, height = task.map.size
    figure, (board, space) = plt.subplots(1, 2, figsize=(9, 0.6 + 4.2 * height / width), layout="constrained")
    draw_board(task, board)
    board.add_patch(plt.Circle(_metres(task.map.start), task.map.marble_radius * MILLIMETRE, color="#999999", zorder=3))
    board.set_title("workspace")
    plot_strata(task.strata, space, opacity=0.8)
    unreached = task.strata.require_grid().centre(np.flatnonzero((task.strata.labels >= 0) & ~task.strata.reachable))
    if len(unreached):
        space.plot(*unreached[::7].T, ".", color="black", markersize=1, label="not reachable from the start")
    _pits_and_goal(task, space, fill=False)
    for m, name in enumerate(task.strata.names):
        space.scatter([], [], marker="s", color=STRATA_COLOURS[m], alpha=0.8, label=f"{name} ({2 - m}D)")
    figure.legend(*space.get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=4, markerscale=1.5)
    space.set_title("configuration space of the marble's centre")
    _millimetre_axes(board, space)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_board(task: Marble, axis: Any) -> None:
    """Walls, frame, pits and goal of the workspace."""
    plt = pyplot()
    width, height = _metres(task.map.size)
    axis.add_patch(plt.Rectangle((0, 0), width, height, color="#f3ead9", zorder=0))
    for x0, y0, x1, y1 in task.map.walls:
        corner, size = _metres((x0, y0)), _metres((x1 - x0, y1 - y0))
        axis.add_patch(plt.Rectangle(corner, *size, color=WALL_COLOUR, zorder=1))
    edges = {"left": ((0, 0), (0, height)), "right": ((width, width), (0, height)),
             "bottom": ((0, width), (0, 0)), "top": ((0, width), (height, height))}  # fmt: skip
    for side, (xs, ys) in edges.items():
        framed = side in task.map.framed
        axis.plot(xs, ys, color=WALL_COLOUR if framed else "#bbbbbb", lw=5 if framed else 1, ls="-" if framed else ":")
    _pits_and_goal(task, axis, fill=True)
    axis.set(xlim=(-0.004, width + 0.004), ylim=(-0.004, height + 0.004), aspect="equal")


def draw_regions(task: Marble, caps: Mapping[str, Capture], alpha: float, file: Path) -> None:
    """Regions of every method in free space, on an edge, in a corner and near a pit."""
    plt = pyplot()
    situations = {name: x for name, x in _situations(task).items() if x is not None}
    figure, panels = plt.subplots(
        len(situations), len(caps), figsize=(2.3 * len(caps), 2.5 * len(situations)), squeeze=False, layout="constrained"
    )
    for axis, name in zip(panels[0], caps):
        axis.set_title(name, fontsize=10)
    for row, (situation, x) in zip(panels, situations.items()):
        after = task.outcomes(x[None], 200, seed=1)[0]
        regions = {name: cap.region(x, alpha, rng=0) for name, cap in caps.items()}
        shown = np.vstack([after, *(_centres(task, region.cells()) for region in regions.values())])
        low, high = _square(shown.min(axis=0) - MARGIN, shown.max(axis=0) + MARGIN)
        for axis, region in zip(row, regions.values()):
            plot_strata(task.strata, axis)
            region.plot(axis)
            _pits_and_goal(task, axis, fill=False)
            axis.plot(*after.T, "x", color="white", markeredgecolor="black", markersize=3, label="true outcomes")
            axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
            axis.set_xlabel(f"{len(region.cells()):,} cells", fontsize=8)
        row[0].set_ylabel(situation)
    figure.suptitle(
        f"{label(task.map.name)}: regions at {1 - alpha:.0%} (cells by stratum), particles (dots), true outcomes (x)"
    )
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_trajectories(tasks: Mapping[str, Marble], results: Mapping[tuple[str, str], list[Any]], file: Path) -> None:
    """Paths of every episode, a row a map and a column a method: reached the goal, fell, or timed out."""
    plt = pyplot()
    methods = list(dict.fromkeys(name for _, name in results))
    figure, panels = plt.subplots(
        len(tasks), len(methods), figsize=(max(2.3 * len(methods), 6.0), 2.5 * len(tasks) + 0.4), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    styles = {"success": ("#0072B2", "-"), "fell": ("#D55E00", "--"), "timed out": ("#555555", ":")}
    for row, (map_name, task) in zip(panels, tasks.items()):
        for axis, name in zip(row, methods):
            draw_board(task, axis)
            for run in results[map_name, name]:
                colour, dash = styles[run["outcome"]]
                axis.plot(*np.array(run["path"]).T, color=colour, ls=dash, lw=0.8, alpha=0.7, zorder=3)
            reached = sum(run["outcome"] == "success" for run in results[map_name, name])
            axis.set(xticks=[], yticks=[])
            axis.set_xlabel(f"{reached} of {len(results[map_name, name])} reach the goal", fontsize=7)
        row[0].set_ylabel(task.map.name)
    for axis, name in zip(panels[0], methods):
        axis.set_title(name, fontsize=10)
    figure.suptitle("Paths of the marble: to the goal (solid), into a pit (dashed), timed out (dotted)", fontsize=10)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _situations(task: Marble) -> dict[str, Floats | None]:
    """One input for each kind of landing, drawn at random until the true system lands there."""
    X = task.design_inputs("random", np.random.default_rng(7))[:20_000]
    labels = task.strata.index(task.outcomes(X, 1, seed=3)[:, 0])
    lands = {"free space": labels == FREE, "edge": labels == EDGE, "corner": labels == CORNER}
    pits = task.map.geometry.pits
    if len(pits):
        after = task.outcomes(X, 1, seed=3)[:, 0]
        away = np.abs(np.hypot(*(after - pits[0, :2]).T) - pits[0, 2])
        lands["near a pit"] = (away < 2e-3) & (labels == FREE)
    tilted = np.abs(X[:, 4:6]).max(axis=1) > 0.6 * dynamics.MAX_TILT
    return {name: X[np.flatnonzero(here & tilted)[0]] if (here & tilted).any() else None for name, here in lands.items()}


def _pits_and_goal(task: Marble, axis: Any, fill: bool) -> None:
    plt = pyplot()
    for pit in task.map.pits:
        radius = task.map.pit_radius * MILLIMETRE
        axis.add_patch(
            plt.Circle(_metres(pit), radius, facecolor=PIT_COLOUR if fill else "none", edgecolor=PIT_COLOUR, lw=1.2)
        )
    axis.plot(*_metres(task.map.goal), "*", color=GOAL_COLOUR, markersize=12, zorder=4)


def _centres(task: Marble, cells: Any) -> Floats:
    return task.strata.require_grid().centre(cells)


def _square(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    middle, half = (low + high) / 2, (high - low).max() / 2
    return middle - half, middle + half


def _metres(point: Any) -> tuple[float, ...]:
    return tuple(float(value) * MILLIMETRE for value in point)


def _millimetre_axes(*axes: Any) -> None:
    for axis in axes:
        axis.xaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
        axis.set(xlabel="x (mm)", ylabel="y (mm)")


def planning_figures(study: Any, tasks: Mapping[str, Marble], results: Mapping[Any, Any], folder: Path) -> list[Path]:
    """The figure of all trajectories as a PNG file."""
    file = folder / "trajectories.png"
    draw_trajectories(tasks, results, file)
    return [file]


class MarbleDrawing:
    """The drawings of one map."""

    def __init__(self, task: Marble) -> None:
        self.task = task

    coverage_figures = staticmethod(coverage_figures)
    figure_data = staticmethod(figure_data)
    draw_trajectories = staticmethod(draw_trajectories)

    def draw_spaces(self, file: Path) -> None:
        """See above."""
        draw_spaces(self.task, file)

    def draw_regions(self, caps: Mapping[str, Capture], alpha: float, file: Path) -> None:
        """See above."""
        draw_regions(self.task, caps, alpha, file)

    def player_data(self, caps: Any, episodes: Any) -> Any:
        """See `animation`."""
        from capture_cp.studies.animation import player_data

        return player_data(self.task, caps, episodes)
