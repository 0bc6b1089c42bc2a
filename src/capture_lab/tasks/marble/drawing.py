"""The marble in pictures and on the live page: the tilting board in 3D and from above, its space, and regions over it.

Lengths of bodies are metres, z up, origin at the centre of the plate's upper face; lengths on axes are millimetres.
"""

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
from capture_cp.report.scene import Body, Handle, Points, Scene
from capture_cp.report.solids import View, rendered
from capture_cp.report.space import Space
from capture_cp.report.style import ACTION, GOAL, INSIDE, OUTSIDE, PARTICLES, START, WALL_COLOUR, colour_of
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.figures import STRATA
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.cspace import CORNER, EDGE, FREE
from capture_lab.tasks.marble.maps import MILLIMETRE, Map
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.moment import Moment
from capture_lab.tasks.recorded import recorded_region
from capture_lab.tasks.task import Task

WOOD_COLOUR, BOARD_COLOUR, PIT_COLOUR, MARBLE_COLOUR = "#6b5a45", "#f3ead9", "#111111", "#9aa5b1"
#: Thickness of the plate; height of walls; width, height and distance of the frame (m).
PLATE, WALL, FRAME = 4e-3, 12e-3, (10e-3, 40e-3, 6e-3)
PATH, PLAN = (
    Line(np.empty((0, 2)), "#222222", 1.5, name="path"),
    Line(np.empty((0, 2)), "#CC79A7", 2.0, ":", name="plan (model)"),
)
#: Marks of the player on a page.
PLAYER_MARKS = {"particles": PARTICLES, "start": START, "action": ACTION, "inside": INSIDE, "outside": OUTSIDE}
#: Direction in which the board is seen, width of its picture in pixels, and margin around it (m).
FRONT, PIXELS, MARGIN = View.from_above(-78, 56), 460, 0.004
#: The scene is drawn in decimetres; heights (m) above the plate of flat things, and pixels that one tile covers.
UNIT, MM, LIFT, TILE = 10.0, 1 / MILLIMETRE, 6e-4, 2


class MarbleDrawing(Drawing):
    """Draws a map."""

    task: Marble
    paths_title, failed = "Paths of the marble", "fell into a pit"
    inches, places, layout, columns = (15.6, 5.0), "ABCD", {"width_ratios": (1.35, 1, 1, 1)}, 5
    ends = dict(Drawing.ends) | {"fell": "fell into a pit"}
    entries = (
        ("x (mm)", MM, "Or drag the marble."),
        ("velocity x (m/s)", 1.0, ""),
        ("y (mm)", MM, "Or drag the marble."),
        ("velocity y (m/s)", 1.0, ""),
        ("tilt x (rad)", 1.0, "Positive lowers the left side."),
        ("tilt y (rad)", 1.0, "Positive lowers the near side."),
        ("action x (rad/s)", 1.0, "Speed of the motor that tilts along x."),
        ("action y (rad/s)", 1.0, "Speed of the motor that tilts along y."),
    )

    @property
    def size(self) -> Floats:
        """Width and height (m) of the board."""
        return np.array(self.task.map.size) * MILLIMETRE

    def corners(self) -> tuple[Floats, Floats]:
        return np.zeros(2), self.size

    @cached_property
    def space(self) -> Space:
        map, scale = self.task.map, np.full(2, 1 / MILLIMETRE)
        pits = tuple(Shape(circle(np.array(pit), map.pit_radius), edge=PIT_COLOUR, width=1.2) for pit in map.pits)
        goal = ((GOAL, np.array(map.goal)),)
        return Space(self.task.strata, self.window, ("x (mm)", "y (mm)"), units=scale, shapes=pits, marks=goal)

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

    # -- films --------------------------------------------------------------------------------------------------------

    def film_key(self, regions: bool) -> list[Any]:
        return [PATH, PLAN, *(super().film_key(regions) if regions else ())]

    def workspace(self, now: Moment) -> list[Panel]:
        """The tilted board, and the board from above with the path and the plan."""
        map, path = self.task.map, now.trail[:, POSITION] / MILLIMETRE
        marble = Shape(circle(path[-1], map.marble_radius), MARBLE_COLOUR, "#000000", order=4)
        lines = [PATH._replace(points=path, order=3)]
        if len(now.plan):
            lines.append(PLAN._replace(points=self._planned(now) / MILLIMETRE, order=5))
        above = self.background()
        contents: dict[str, Any] = {"shapes": (*above.shapes, marble), "lines": (*above.lines, *lines)}
        return [self._board(now), replace(above, title="workspace", ticks=False, **contents)]

    def _board(self, now: Moment) -> Panel:
        """The tilted board in 3D."""
        width, height = self.size
        half = np.array([0.62 * width + 0.02, 0.55 * height + 0.03])
        bodies = board_bodies(self.task.map, now.state).values()
        return Panel(-half, half, (rendered(bodies, FRONT, -half, half, PIXELS),), ticks=False, bare=True)

    def _planned(self, now: Moment) -> Floats:
        """Positions of the approximate model along the plan, without noise: (H + 1, 2)."""
        state, still = now.state[None], np.zeros((1, 2))
        along = [state]
        for action in now.plan:
            state = self.task.believed_step(state, action[None], still)
            along.append(state)
        return np.vstack(along)[:, POSITION]

    # -- the page -----------------------------------------------------------------------------------------------------

    @property
    def state_bounds(self) -> tuple[Floats, Floats]:
        speed, tilt, (width, height) = dynamics.MAX_SPEED, dynamics.MAX_TILT, self.size
        return np.array([0, -speed, 0, -speed, -tilt, -tilt]), np.array([width, speed, height, speed, tilt, tilt])

    def first_look(self) -> tuple[Floats, Floats]:
        """The marble away from its start, rolling towards the centre of a tilted board, where its region is visible."""
        state = self.task.starts(1)[0]
        towards = self.size / 2 - state[POSITION]
        state[[1, 3]] = 0.2 * towards / max(float(np.linalg.norm(towards)), MILLIMETRE)
        state[[4, 5]] = -np.sign(towards) * 0.6 * dynamics.MAX_TILT
        return state, np.array([0.2, -0.2])

    def placed(self, state: Floats) -> Floats:
        """Within the bounds, and out of the walls."""
        bounded = np.clip(state, *self.state_bounds)
        if self.task.map.clearance(bounded[POSITION][None])[0] < 0:
            bounded[POSITION] = self.task.strata.nearest_free(bounded[POSITION][None])[0]
        return bounded

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        return (*super().legend, ("pit", PIT_COLOUR), ("goal", GOAL.colour))

    def reading(self, now: Moment) -> str:
        x, vx, y, vy, alpha, beta = now.state
        stratum = self.task.strata.names[int(self.task.strata.index(np.array([[x, y]]))[0])]
        tilt = ", ".join(f"{np.degrees(part):.1f}°" for part in (alpha, beta))
        return f"marble at ({x * MM:.1f}, {y * MM:.1f}) mm, {stratum}; {100 * np.hypot(vx, vy):.1f} cm/s; tilt {tilt}"

    def scene(self, now: Moment) -> Scene:
        """The board and the marble, with the regions as tiles on the plate."""
        bodies, turn = board_bodies(self.task.map, now.state), plate_rotation(now.state)

        def on_board(points: Floats, lift: float) -> Floats:
            """Points (n, 2) of the board, at a height above it: (n, 3)."""
            return np.column_stack([points - self.size / 2, np.full(len(points), lift)]) @ turn.T

        picture, canvas, rest = self.flat_picture(now)
        some = slice(TILE // 2, None, TILE)
        covered = (picture != canvas.ground(rest)[1]).any(axis=2)[some, some]
        tiles = canvas.points(some, some, rest)[covered.ravel()]
        region = Points(on_board(tiles, LIFT), picture[some, some][covered].astype(float), TILE * canvas.pitch, "square")
        points = now.points(9e-4, lambda Y: on_board(Y[:, POSITION] if Y.shape[1] > 2 else Y, 2 * LIFT))
        handle = Handle(bodies["marble"].place, (True, True, False), turn)
        return Scene(bodies, {"region": region, **points}, handle=handle, scale=UNIT)

    def dragged(self, state: Floats, place: Floats) -> Floats:
        after = state.copy()
        after[POSITION] = (plate_rotation(state).T @ place)[:2] + self.size / 2
        return after


# -- the board ------------------------------------------------------------------------------------------------------------


def board_bodies(map: Map, state: Floats) -> dict[str, Body]:
    """Frame, tilted plate, walls, pits, goal and marble of a state (6,), by name."""
    turn, size = plate_rotation(state), np.array(map.size) * MILLIMETRE
    bodies: dict[str, Any] = {"plate": ("box", (0, 0, -PLATE / 2), (*size / 2, PLATE / 2), "#e8d9bd")}
    for number, wall in enumerate(np.array(map.walls).reshape(-1, 4) * MILLIMETRE):
        middle, half = (wall[:2] + wall[2:] - size) / 2, (wall[2:] - wall[:2]) / 2
        bodies[f"wall-{number}"] = "box", (*middle, WALL / 2), (*half, WALL / 2), "#8a6a45"
    discs = {f"pit-{number}": (pit, map.pit_radius, PIT_COLOUR) for number, pit in enumerate(map.pits)}
    for name, (at, radius, colour) in (discs | {"goal": (map.goal, map.goal_radius, GOAL.colour)}).items():
        x, y = np.array(at) * MILLIMETRE - size / 2
        bodies[name] = "cylinder", (x, y, 2e-4), (radius * MILLIMETRE, 2e-4, 0), colour
    radius = map.marble_radius * MILLIMETRE
    bodies["marble"] = "sphere", (*state[POSITION] - size / 2, radius), (radius, 0, 0), MARBLE_COLOUR
    found = {name: Body(kind, np.array(half), turn @ at, paint, turn) for name, (kind, at, half, paint) in bodies.items()}
    return found | _frame(*size)


def plate_rotation(state: Floats) -> Floats:
    """Rotation (3, 3) of the plate of a state: positive alpha lowers the side of small x, positive beta that of small y.

    This matches the marble's motion: its acceleration along x is -5/7 g alpha.
    """
    a, b = float(state[4]), float(state[5])
    about_y = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return np.asarray(about_y @ about_x)


def _frame(width: float, height: float) -> dict[str, Body]:
    wide, high, gap = FRAME
    x, y = width / 2 + gap + wide / 2, height / 2 + gap + wide / 2
    across, along = np.array([x + wide / 2, wide / 2, high / 2]), np.array([wide / 2, y - wide / 2, high / 2])
    sides = {"left": (-x, 0.0, along), "right": (x, 0.0, along), "bottom": (0.0, -y, across), "top": (0.0, y, across)}
    return {
        f"frame-{name}": Body("box", half, np.array([at, up, -high / 4]), "#5c4630")
        for name, (at, up, half) in sides.items()
    }


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
