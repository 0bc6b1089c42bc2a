"""The labyrinth on the page: the tilting board in 3D, and its configuration space seen from above."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS
from capture_cp.report.canvas import Canvas, Picture, rgb
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.board import Shape, board_scene, marble_shape, plate_rotation
from capture_cp.tasks.marble.cspace import STRATA
from capture_cp.tasks.marble.maps import MILLIMETRE
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.viewer.frame import Frame
from capture_cp.viewer.marble_world import MarbleWorld
from capture_cp.viewer.stage import COARSE, LENS, Dial, Stage, paint_plan
from capture_cp.viewer.world import Ahead

#: The scene is drawn in decimetres: cameras and gizmos are made for things of about that size.
UNIT = 10.0
PIXELS = 460
#: How far (m) above the plate flat things are drawn, in order.
LIFT = 6e-4
PIT, GOAL, TRAIL, PARTICLE, MARBLE = "#111111", "#009e73", "#555555", "#000000", "#ffffff"
#: Every which pixel of the picture is also a tile on the board.
TILE = 3
MM = 1 / MILLIMETRE


class MarbleStage(Stage):
    """A board with its walls, pits, goal and marble."""

    smallest_lens = 6e-3
    legend = (*zip(STRATA, STRATA_COLOURS), ("infeasible", INFEASIBLE_COLOUR), ("pit", PIT), ("goal", GOAL))

    def dials(self) -> list[Dial]:
        width, height = self._world.task.map.size
        speed, tilt, action = dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_ACTION
        return [
            Dial("x (mm)", "state", 0, 0.0, width, 0.5, MM, "Or drag the marble."),
            Dial("y (mm)", "state", 2, 0.0, height, 0.5, MM, "Or drag the marble."),
            Dial("velocity x (m/s)", "state", 1, -speed, speed, 0.01),
            Dial("velocity y (m/s)", "state", 3, -speed, speed, 0.01),
            Dial("tilt x (rad)", "state", 4, -tilt, tilt, 0.005, 1.0, "Positive lowers the left side."),
            Dial("tilt y (rad)", "state", 5, -tilt, tilt, 0.005, 1.0, "Positive lowers the near side."),
            Dial("action x (rad/s)", "action", 0, -action, action, 0.02, 1.0, "Speed of the motor that tilts along x."),
            Dial("action y (rad/s)", "action", 1, -action, action, 0.02, 1.0, "Speed of the motor that tilts along y."),
        ]

    @property
    def camera(self) -> tuple[Floats, Floats]:
        return np.array([0.0, -1.15, 1.4]), np.array([0.0, -0.05, 0.0])

    @property
    def _world(self) -> MarbleWorld:
        world = self.session.world
        assert isinstance(world, MarbleWorld)
        return world

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build(self, frame: Frame) -> None:
        scene, self._map = self.server.scene, self._map_of(frame)
        scene.remove_by_name("/table")
        self._middle = np.array(self._map.size) * MILLIMETRE / 2
        scene.add_frame("/table", show_axes=False)
        self._plate = scene.add_frame("/table/plate", show_axes=False)
        for shape in board_scene(self._map):
            self._solid(shape, "/table/plate" if shape.tilts else "/table")
        self._marble = self._solid(marble_shape(self._map, frame.moment.state), "/table/plate")
        self._handle = scene.add_transform_controls(
            "/table/plate/handle", 0.22, active_axes=(True, True, False), disable_rotations=True, depth_test=False
        )
        self._handle.on_update(self._dragged)
        scene.add_light_hemisphere("/table/sky", intensity=2.5, position=(0.0, 0.0, 3.0))
        self._canvas = Canvas(frame.world.strata, np.zeros(2), 2 * self._middle, PIXELS)
        self._last: tuple[list[Ahead], Picture] | None = None

    def _map_of(self, frame: Frame) -> Any:
        assert isinstance(frame.world, MarbleWorld)
        return frame.world.task.map

    def _solid(self, shape: Shape, parent: str) -> Any:
        name, colour = f"{parent}/{shape.name.replace(' ', '-')}", tuple(int(part) for part in rgb(shape.colour))
        place = {"position": np.array(shape.centre) * UNIT, "color": colour}
        size = np.array(shape.size) * UNIT
        if shape.kind == "box":
            return self.server.scene.add_box(name, dimensions=tuple(size), **place)
        if shape.kind == "cylinder":
            return self.server.scene.add_cylinder(name, radius=size[0], height=size[2], **place)
        return self.server.scene.add_icosphere(name, radius=size[0], subdivisions=4, **place)

    def _dragged(self, event: Any) -> None:
        if event.client is None:
            return
        state = self.session.moment().state.copy()
        state[POSITION] = np.asarray(event.target.position)[:2] / UNIT + self._middle
        self.moved(state)

    def draw(self, frame: Frame) -> None:
        import viser.transforms as transforms

        state, first = frame.moment.state, next(iter(frame.ahead.values()), [])
        place = np.array(marble_shape(self._map, state).centre) * UNIT
        self._plate.wxyz = transforms.SO3.from_matrix(plate_rotation(state)).wxyz
        self._marble.position = place
        if not np.allclose(self._handle.position, place, atol=1e-6):
            self._handle.position = place
        points, colours = self._tiles(first)
        self._cloud("region", points, colours, TILE * self._canvas.pitch, LIFT, "square")
        particles = np.concatenate([step.cloud for step in first]) if first else np.empty((0, 2))
        self._cloud("particles", particles, np.tile(rgb(PARTICLE), (len(particles), 1)), 9e-4, 2 * LIFT, "circle")
        trail = frame.moment.trail[:, POSITION]
        self._cloud("trail", trail, np.tile(rgb(TRAIL), (len(trail), 1)), 1.2e-3, 3 * LIFT, "circle")

    def _tiles(self, ahead: list[Ahead]) -> tuple[Floats, Floats]:
        """Middles (n, 2) and colours (n, 3) of the pixels that regions cover, thinned out."""
        some = slice(TILE // 2, None, TILE)
        ground, picture = self._canvas.ground(np.zeros(2))[1][some, some], self._painted(ahead)[some, some]
        covered = (picture != ground).any(axis=2)
        return self._canvas.points(some, some, np.zeros(2))[covered.ravel()], picture[covered].astype(np.float64)

    def _cloud(self, name: str, points: Floats, colours: Floats, size: float, lift: float, shape: str) -> None:
        path = f"/table/plate/{name}"
        if not len(points):
            self.server.scene.remove_by_name(path)
            return
        high = np.column_stack([points - self._middle, np.full(len(points), lift)]) * UNIT
        self.server.scene.add_point_cloud(
            path, high, colours.astype(np.uint8), point_size=size * UNIT, point_shape=shape, precision="float32",
            point_shading="flat",
        )  # fmt: skip

    # -- the picture --------------------------------------------------------------------------------------------------

    def picture(self, frame: Frame, ahead: list[Ahead]) -> Picture:
        picture = self._painted(ahead).copy()
        self._furnish(self._canvas, picture, frame, ahead)
        return picture

    def _painted(self, ahead: list[Ahead]) -> Picture:
        """The strata with the regions of a plan, painted once a frame."""
        if self._last is None or self._last[0] is not ahead:
            self._last = ahead, paint_plan(self._canvas, ahead, np.zeros(2))
        return self._last[1]

    def lens_canvas(self, frame: Frame, low: Floats, high: Floats) -> Canvas:
        return Canvas(frame.world.strata, low, high, LENS)

    def lens(self, canvas: Canvas, frame: Frame, ahead: list[Ahead]) -> Picture:
        fine, picture = canvas.finer(paint_plan(canvas, ahead, np.zeros(2)), COARSE)
        self._furnish(fine, picture, frame, ahead, dot=2)
        return picture

    def _furnish(self, canvas: Canvas, picture: Picture, frame: Frame, ahead: list[Ahead], dot: int = 1) -> None:
        """Draw pits, goal, the way so far, particles and the marble."""
        map = self._map
        for pit in map.pits:
            centre, radius = np.array(pit) * MILLIMETRE, map.pit_radius * MILLIMETRE
            canvas.circle(picture, centre, radius, PIT, inside=0.25)
        canvas.circle(picture, np.array(map.goal) * MILLIMETRE, map.goal_radius * MILLIMETRE, GOAL, line=2.5)
        canvas.dots(picture, frame.moment.trail[:, POSITION], TRAIL, 2)
        for step in reversed(ahead):
            canvas.dots(picture, step.cloud, PARTICLE, dot)
        here = frame.moment.state[POSITION][None]
        canvas.dots(picture, here, PARTICLE, 5)
        canvas.dots(picture, here, MARBLE, 3)

    def reading(self, frame: Frame) -> str:
        x, vx, y, vy, alpha, beta = frame.moment.state
        kind = STRATA[int(frame.world.strata.index(np.array([[x, y]]))[0])]
        tilt = ", ".join(f"{np.degrees(part):.1f}°" for part in (alpha, beta))
        return f"marble at ({x * MM:.1f}, {y * MM:.1f}) mm, {kind}; {100 * np.hypot(vx, vy):.1f} cm/s; tilt {tilt}"
