"""Pictures of the marble: the board in 3D and from above, its configuration space, and regions over it, with their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import Episode
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Dots, Line, Panel, Shape, circle, rectangle
from capture_cp.report.solids import View, rendered
from capture_cp.report.space import Space
from capture_cp.report.style import ACTION, GOAL, INSIDE, OUTSIDE, PARTICLES, START, WALL_COLOUR, colour_of
from capture_lab.tasks.drawing import STRATA, Drawing, Storyboard
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.board import board_bodies
from capture_lab.tasks.marble.cspace import CORNER, EDGE, FREE
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.recorded import recorded_region
from capture_lab.tasks.task import Task

WOOD_COLOUR, BOARD_COLOUR, PIT_COLOUR, MARBLE_COLOUR = "#6b5a45", "#f3ead9", "#111111", "#9aa5b1"
PATH, PLAN = (
    Line(np.empty((0, 2)), "#222222", 1.5, name="path"),
    Line(np.empty((0, 2)), "#CC79A7", 2.0, ":", name="plan (model)"),
)
#: Marks of the player on a page.
PLAYER_MARKS = {"particles": PARTICLES, "start": START, "action": ACTION, "inside": INSIDE, "outside": OUTSIDE}
#: Direction in which the board is seen, width of its picture in pixels, and margin around it (m).
FRONT, PIXELS, MARGIN = View.from_above(-78, 56), 460, 0.004


class MarbleDrawing(Drawing):
    """Draws a map; lengths on the axes are millimetres."""

    paths_title, failed = "Paths of the marble", "fell into a pit"
    task: Marble

    @cached_property
    def space(self) -> Space:
        map, scale = self.task.map, np.full(2, 1 / MILLIMETRE)
        pits = tuple(Shape(circle(np.array(pit), map.pit_radius), edge=PIT_COLOUR, width=1.2) for pit in map.pits)
        goal = ((GOAL, np.array(map.goal)),)
        return Space(self.task.strata, self.window, ("x (mm)", "y (mm)"), units=scale, shapes=pits, marks=goal)

    def storyboard(self, episode: Episode) -> MarbleStoryboard:
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
        task, (width, height) = self.task, self.task.map.size
        marble = Shape(
            circle(np.array(task.map.start), task.map.marble_radius), "#999999", name="marble at its start", order=3
        )
        board = self.background()
        board = replace(board, shapes=(*board.shapes, marble), title="workspace", across="x (mm)", up="y (mm)")
        space = self.space.panel(np.zeros(2), pale=STRATA, title="configuration space of the marble's centre")
        unreached = task.strata.require_grid().centre(np.flatnonzero((task.strata.labels >= 0) & ~task.strata.reachable))
        far = Dots(self.space.flat(unreached[::7]), "#000000", 1.0, 1.0, "not reachable from the start")
        key: list[Any] = [(f"{name} ({2 - m}D)", colour_of(m)) for m, name in enumerate(task.strata.names)]
        key += [far] * bool(len(unreached)) + [marble, ("pit", PIT_COLOUR), GOAL, ("infeasible", WALL_COLOUR)]
        figure = figure_of([[board, replace(space, dots=(far,))]], (9, 1.4 + 4.2 * height / width), key=key)
        save(figure, file)

    def background(self) -> Panel:
        """The board from above: frame, walls, pits and goal, in millimetres."""
        map, (width, height) = self.task.map, self.task.map.size
        board = Shape(rectangle((0, 0), (width, height)), BOARD_COLOUR, order=0)
        walls = (Shape(rectangle((x0, y0), (x1, y1)), WOOD_COLOUR) for x0, y0, x1, y1 in map.walls)
        pits = (Shape(circle(np.array(pit), map.pit_radius), PIT_COLOUR) for pit in map.pits)
        corners = {"left": ((0, 0), (0, height)), "right": ((width, 0), (width, height)),
                   "bottom": ((0, 0), (width, 0)), "top": ((0, height), (width, height))}  # fmt: skip
        frame = (
            Line(np.array(ends), WOOD_COLOUR, 5) if side in map.framed else Line(np.array(ends), "#bbbbbb", 1, ":")
            for side, ends in corners.items()
        )
        low, high = np.full(2, -MARGIN / MILLIMETRE), np.array([width, height]) + MARGIN / MILLIMETRE
        return Panel(low, high, shapes=(board, *walls, *pits), lines=tuple(frame), marks=self.space.marks)

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


class MarbleStoryboard(Storyboard):
    """The tilted board and the workspace next to the configuration space."""

    inches, places, layout, columns = (15.6, 5.0), "ABCD", {"width_ratios": (1.35, 1, 1, 1)}, 5
    ends = dict(Storyboard.ends) | {"fell": "fell into a pit"}
    task: Marble

    def key(self) -> list[Any]:
        return [PATH, PLAN, *(super().key() if self.cap is not None else ())]

    def workspace(self, step: int) -> list[Panel]:
        map, path = self.task.map, self.episode.states[: step + 1][:, POSITION] / MILLIMETRE
        marble = Shape(circle(path[-1], map.marble_radius), MARBLE_COLOUR, "#000000", order=4)
        lines = [PATH._replace(points=path, order=3)]
        if step < self.episode.steps:
            lines.append(PLAN._replace(points=self._planned(step) / MILLIMETRE, order=5))
        above = self.drawing.background()
        contents = {"shapes": (*above.shapes, marble), "lines": (*above.lines, *lines)}
        return [self._board(step), replace(above, title="workspace", ticks=False, **contents)]

    def _board(self, step: int) -> Panel:
        """The tilted board in 3D."""
        width, height = np.array(self.task.map.size) * MILLIMETRE
        half = np.array([0.62 * width + 0.02, 0.55 * height + 0.03])
        bodies = board_bodies(self.task.map, self.episode.states[step]).values()
        return Panel(-half, half, (rendered(bodies, FRONT, -half, half, PIXELS),), ticks=False, bare=True)

    def _planned(self, step: int) -> Floats:
        """Positions of the approximate model along the plan of a step, without noise: (H + 1, 2)."""
        state, still = self.episode.states[step][None], np.zeros((1, 2))
        along = [state]
        for action in self.episode.plans[step]:
            state = self.task.believed_step(state, action[None], still)
            along.append(state)
        return np.vstack(along)[:, POSITION]


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
        "strata": [{"name": name, "colour": colour_of(m)} for m, name in enumerate(task.strata.names)],
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


def _millimetres(values: Floats) -> Any:
    return np.round(values / MILLIMETRE, 2).tolist()
