"""The labyrinth on the live page: the tilting board, and its configuration space seen from above."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Canvas, Picture
from capture_cp.report.scene import Body, Handle, Points, Scene
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.board import Shape, board_scene, marble_shape, plate_rotation
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.scene import GOAL_COLOUR, Moment, TaskScene

#: The scene is drawn in decimetres, the scale that cameras and handles are made for.
UNIT, MM = 10.0, 1 / MILLIMETRE
#: Heights (m) above the plate at which flat things are drawn, in order.
LIFT = 6e-4
PIT = "#111111"
#: Spacing of the pixels that are also drawn as tiles on the board.
TILE = 3


class MarbleScene(TaskScene):
    """A board with its walls, pits, goal and marble."""

    task: Marble
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

    @cached_property
    def size(self) -> Floats:
        """Width and height (m) of the board."""
        return np.array(self.task.map.size) * MILLIMETRE

    @property
    def state_bounds(self) -> tuple[Floats, Floats]:
        speed, tilt, (width, height) = dynamics.MAX_SPEED, dynamics.MAX_TILT, self.size
        return np.array([0, -speed, 0, -speed, -tilt, -tilt]), np.array([width, speed, height, speed, tilt, tilt])

    # -- states ---------------------------------------------------------------------------------------------

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

    # -- legend, text ------- ----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        return (*super().legend, ("pit", PIT), ("goal", GOAL_COLOUR))

    def reading(self, now: Moment) -> str:
        x, vx, y, vy, alpha, beta = now.state
        stratum = self.task.strata.names[int(self.task.strata.index(np.array([[x, y]]))[0])]
        tilt = ", ".join(f"{np.degrees(part):.1f}°" for part in (alpha, beta))
        return f"marble at ({x * MM:.1f}, {y * MM:.1f}) mm, {stratum}; {100 * np.hypot(vx, vy):.1f} cm/s; tilt {tilt}"

    # -- three dimensions ---------------------------------------------------------------------------------------------

    def scene(self, now: Moment, picture: Picture) -> Scene:
        turn, marble = plate_rotation(now.state), marble_shape(self.task.map, now.state)

        def on_board(points: Floats, lift: float) -> Floats:
            """Points (n, 2) of the board, at a height above it: (n, 3)."""
            return np.column_stack([points - self.size / 2, np.full(len(points), lift)]) @ turn.T

        tiles, paint = self._tiles(now)
        return Scene(
            {shape.name.replace(" ", "-"): _body(shape, turn) for shape in (*self._shapes, marble)},
            {
                "region": Points(on_board(tiles, LIFT), paint, TILE * self.canvas.pitch, "square"),
                **now.points(9e-4, lambda Y: on_board(Y[:, POSITION] if Y.shape[1] > 2 else Y, 2 * LIFT)),
            },
            handle=Handle(turn @ np.array(marble.centre), (True, True, False), turn),
            scale=UNIT,
        )

    def dragged(self, state: Floats, place: Floats) -> Floats:
        after = state.copy()
        after[POSITION] = (plate_rotation(state).T @ place)[:2] + self.size / 2
        return after

    @cached_property
    def _shapes(self) -> list[Shape]:
        return board_scene(self.task.map)

    def _tiles(self, now: Moment) -> tuple[Floats, Floats]:
        """Centres (n, 2) and colours (n, 3) of the pixels that regions cover, thinned out."""
        some, rest = slice(TILE // 2, None, TILE), np.zeros(2)
        ground = self.canvas.ground(rest)[1][some, some]
        picture = self.painted(now, now.steps)[some, some]
        covered = (picture != ground).any(axis=2)
        return self.canvas.points(some, some, rest)[covered.ravel()], picture[covered].astype(np.float64)

    # -- pictures -----------------------------------------------------------------------------------------------------

    def corners(self) -> tuple[Floats, Floats]:
        """Corners of the board."""
        return np.zeros(2), self.size

    def furnish(self, canvas: Canvas, picture: Picture) -> None:
        """Draw pits and goal."""
        map = self.task.map
        for pit in map.pits:
            canvas.circle(picture, np.array(pit) * MILLIMETRE, map.pit_radius * MILLIMETRE, PIT, inside=0.25)
        canvas.circle(picture, np.array(map.goal) * MILLIMETRE, map.goal_radius * MILLIMETRE, GOAL_COLOUR, line=2.5)


def _body(shape: Shape, turn: Floats) -> Body:
    """A shape of the board whose plate is turned by `turn` (3, 3)."""
    x, y, z = shape.size
    size = np.array({"box": (x / 2, y / 2, z / 2), "cylinder": (x, z / 2, 0), "sphere": (x, 0, 0)}[shape.kind])
    turned = turn if shape.tilts else np.eye(3)
    up = np.eye(3) if shape.kind == "sphere" else turned
    return Body(shape.kind, size, turned @ np.array(shape.centre), shape.colour, up)
