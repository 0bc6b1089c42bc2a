"""Figures of the marble: the board, its configuration space, and regions over it, with their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import Episode
from capture_cp.spaces.marks import ACTION, GOAL, INSIDE, OUTSIDE, PARTICLES, START, mark_handles
from capture_cp.spaces.plotting import pyplot
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.cspace import CORNER, EDGE, FREE
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.recorded import recorded_region
from capture_lab.tasks.task import Task

if TYPE_CHECKING:
    from capture_lab.tasks.marble.film import MarbleStoryboard

WALL_COLOUR, PIT_COLOUR, GOAL_COLOUR = "#6b5a45", "#111111", GOAL.colour
#: Marks of the player on a page.
PLAYER_MARKS = {"particles": PARTICLES, "start": START, "action": ACTION, "inside": INSIDE, "outside": OUTSIDE}


class MarbleDrawing(Drawing):
    """Draws a map; lengths on the axes are metres."""

    paths_title, failed = "Paths of the marble", "fell into a pit"
    task: Marble

    def storyboard(self, episode: Episode) -> MarbleStoryboard:
        from capture_lab.tasks.marble.film import MarbleStoryboard

        return MarbleStoryboard(self, episode)

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """The map and its strata, for a figure of them."""
        boards = {f"{Path(name).stem}-spaces": task for name, task in tasks.items()}
        return board_record(boards[figure]) if figure in boards else None  # type: ignore[arg-type]

    def player_data(self, caps: Mapping[str, Capture], episodes: Mapping[str, Sequence[Episode]]) -> dict[str, Any]:
        """Lengths in millimetres: {board, methods: [{name, episodes: [{outcome, path, steps}]}]}."""
        methods = [
            {"name": name, "episodes": [_episode_record(run, caps[name]) for run in runs]} for name, runs in episodes.items()
        ]
        looks = [{"key": name} | look._asdict() for name, look in PLAYER_MARKS.items()]
        return {"board": board_record(self.task), "methods": methods, "marks": looks}

    def draw_spaces(self, file: Path) -> None:
        """The board with its walls, pits and goal, and the configuration space with its strata, side by side."""
        plt, task = pyplot(), self.task
        width, height = task.map.size
        figure, (board, space) = plt.subplots(1, 2, figsize=(9, 0.6 + 4.2 * height / width), layout="constrained")
        self.draw_workspace(board)
        radius = task.map.marble_radius * MILLIMETRE
        marble = plt.Circle(metres(task.map.start), radius, color="#999999", zorder=3, label="marble at its start")
        board.add_patch(marble)
        board.set_title("workspace")
        self.slices.draw(space, (), 0.8)
        unreached = task.strata.require_grid().centre(np.flatnonzero((task.strata.labels >= 0) & ~task.strata.reachable))
        if len(unreached):
            space.plot(*unreached[::7].T, ".", color="black", markersize=1, label="not reachable from the start")
        self.draw_marks(space)
        for m, name in enumerate(task.strata.names):
            space.scatter([], [], marker="s", color=self.slices.colours[m], alpha=0.8, label=f"{name} ({2 - m}D)")
        handles, texts = space.get_legend_handles_labels()
        things = [marble, plt.Circle((0, 0), color=PIT_COLOUR, label="pit"), *mark_handles([GOAL])]
        things += [plt.Rectangle((0, 0), 1, 1, color="#cccccc", label="infeasible")]
        names = [*texts, *(str(thing.get_label()) for thing in things)]
        figure.legend([*handles, *things], names, fontsize=8, loc="outside lower center", ncols=4, markerscale=1.2)
        space.set_title("configuration space of the marble's centre")
        for axis in (board, space):
            axis.xaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
            axis.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
            axis.set(xlabel="x (mm)", ylabel="y (mm)")
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def situations(self) -> dict[str, Floats]:
        """One input for each kind of landing: in free space, on an edge, in a corner, and near a pit."""
        task = self.task
        X = task.design_inputs("random", np.random.default_rng(7))[:20_000]
        after = task.outcomes(X, 1, seed=3)[:, 0]
        labels, pits = task.strata.index(after), task.map.geometry.pits
        lands = {"free space": labels == FREE, "edge": labels == EDGE, "corner": labels == CORNER}
        if len(pits):
            away = np.abs(np.hypot(*(after - pits[0, :2]).T) - pits[0, 2])
            lands["near a pit"] = (away < 2e-3) & (labels == FREE)
        tilted = np.abs(X[:, 4:6]).max(axis=1) > 0.6 * dynamics.MAX_TILT
        return {name: X[np.flatnonzero(here & tilted)[0]] for name, here in lands.items() if (here & tilted).any()}

    def draw_workspace(self, axis: Any) -> None:
        """Walls, frame, pits and goal of the board."""
        plt, map = pyplot(), self.task.map
        width, height = metres(map.size)
        axis.add_patch(plt.Rectangle((0, 0), width, height, color="#f3ead9", zorder=0))
        for x0, y0, x1, y1 in map.walls:
            corner, size = metres((x0, y0)), metres((x1 - x0, y1 - y0))
            axis.add_patch(plt.Rectangle(corner, *size, color=WALL_COLOUR, zorder=1))
        edges = {"left": ((0, 0), (0, height)), "right": ((width, width), (0, height)),
                 "bottom": ((0, width), (0, 0)), "top": ((0, width), (height, height))}  # fmt: skip
        for side, (xs, ys) in edges.items():
            framed = side in map.framed
            axis.plot(xs, ys, color=WALL_COLOUR if framed else "#bbbbbb", lw=5 if framed else 1, ls="-" if framed else ":")
        self.draw_marks(axis, PIT_COLOUR)
        axis.set(xlim=(-0.004, width + 0.004), ylim=(-0.004, height + 0.004), aspect="equal")

    def draw_marks(self, axis: Any, fill: str = "none") -> None:
        """Pits and goal."""
        plt, map = pyplot(), self.task.map
        for pit in map.pits:
            radius = map.pit_radius * MILLIMETRE
            axis.add_patch(plt.Circle(metres(pit), radius, facecolor=fill, edgecolor=PIT_COLOUR, lw=1.2))
        axis.plot(*metres(map.goal), "*", color=GOAL_COLOUR, markersize=12, zorder=4)


# -- numbers ------------------------------------------------------------------------------------------------------------


def board_record(task: Marble) -> dict[str, Any]:
    """The map, its grid, and the stratum of every cell as one character: its number, or a dot where infeasible."""
    grid, map = task.strata.require_grid(), task.map
    return {
        "size": map.size,
        "framed": map.framed,
        "walls": map.walls,
        "pits": map.pits,
        "goal": map.goal,
        "radii": {"marble": map.marble_radius, "pit": map.pit_radius, "goal": map.goal_radius},
        "origin": _millimetres(grid.origin),
        "spacing": _millimetres(grid.spacing),
        "shape": grid.shape,
        "labels": "".join("." if label < 0 else str(label) for label in task.strata.labels),
        "strata": [
            {"name": name, "colour": colour} for name, colour in zip(task.strata.names, MarbleDrawing(task).slices.colours)
        ],
    }


def _episode_record(run: Episode, cap: Capture) -> dict[str, Any]:
    """Path (T + 1, 2), and of each executed step its particles (L, 2), runs of region cells and whether the region held."""
    steps = []
    for t in range(run.steps):
        region = recorded_region(run, cap, t)
        cells = [] if region is None else _runs(region.cells())
        steps.append({"particles": _millimetres(run.particles[t]), "cells": cells, "held": bool(run.inside[t])})
    return {"outcome": run.outcome, "path": _millimetres(run.states[:, POSITION]), "steps": steps}


def _runs(cells: Any) -> list[int]:
    """Sorted cells (n,) as alternating first cell and length of every run of neighbours."""
    if not len(cells):
        return []
    starts = np.flatnonzero(np.diff(cells, prepend=cells[0] - 2) != 1)
    lengths = np.diff(starts, append=len(cells))
    return np.stack([cells[starts], lengths], axis=1).ravel().tolist()


def metres(point: Any) -> tuple[float, ...]:
    """Lengths of a map, converted from millimetres."""
    return tuple(float(value) * MILLIMETRE for value in point)


def _millimetres(values: Floats) -> Any:
    return np.round(values / MILLIMETRE, 2).tolist()
