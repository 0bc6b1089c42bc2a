"""The labyrinth on the live page: the tilting board in 3D, and its configuration space seen from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.report.canvas import Canvas, Picture, rgb
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.board import Shape, board_scene, marble_shape, plate_rotation
from capture_lab.tasks.marble.maps import MILLIMETRE
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.scene import GOAL, PARTICLE, PlanStep, Scene, Slider, Snapshot, plan_step
from capture_lab.tasks.task import Task

#: The scene is drawn in decimetres, the scale that cameras and gizmos are made for.
UNIT, MM = 10.0, 1 / MILLIMETRE
#: Heights (m) above the plate at which flat things are drawn, in order.
LIFT = 6e-4
PIT = "#111111"
#: Spacing of the pixels that are also drawn as tiles on the board.
TILE = 3
#: Bounds of a state's velocities and tilts.
STATE_BOUNDS: Floats = np.array([np.inf, dynamics.MAX_SPEED, np.inf, dynamics.MAX_SPEED, *2 * [dynamics.MAX_TILT]])


class MarbleScene(Scene):
    """A board with its walls, pits, goal and marble."""

    task: Marble
    #: Everything on the plate turns with it.
    plate = "/task/plate"
    handle = f"{plate}/handle"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.size: Floats = np.array(self.task.map.size) * MILLIMETRE

    # -- states and plans ---------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        """The marble away from its start, rolling towards the centre of a tilted board, where its region is visible."""
        state = self.task.starts(1)[0]
        towards = self.size / 2 - state[POSITION]
        state[[1, 3]] = 0.2 * towards / max(float(np.linalg.norm(towards)), MILLIMETRE)
        state[[4, 5]] = -np.sign(towards) * 0.6 * dynamics.MAX_TILT
        return state, np.array([0.2, -0.2])

    def placed(self, state: Floats) -> Floats:
        """Within the bounds, and out of the walls."""
        bounded = np.clip(state, -STATE_BOUNDS, STATE_BOUNDS)
        bounded[POSITION] = np.clip(bounded[POSITION], 0.0, self.size)
        if self.task.map.clearance(bounded[POSITION][None])[0] < 0:
            bounded[POSITION] = self.task.strata.nearest_free(bounded[POSITION][None])[0]
        return bounded

    def ahead(
        self, cap: Capture, state: Floats, plan: Floats, alpha: float, seed: int, recorded: Floats | None = None
    ) -> list[PlanStep]:
        """As in the planner's rollout: a Gaussian is one marble without noise, with the spread of one step at every step."""
        if not isinstance(cap.score, Mahalanobis):
            return super().ahead(cap, state, plan, alpha, seed, recorded)
        covariance, states, steps = self.task.one_step_spread**2 * np.eye(2)[None], state[None], []
        for h, action in enumerate(plan):
            x = np.concatenate([states[0], action])
            states = self.task.believed_step(states, action[None], np.zeros((1, 2)))
            cloud = np.ascontiguousarray(states[:, POSITION])
            if h == 0 and recorded is not None and recorded.shape == cloud.shape:
                cloud = recorded
            prediction: Any = cloud, covariance
            steps.append(plan_step(cap, x, cloud, cap.region(x, alpha, prediction=prediction), count=h == 0))
        return steps

    # -- controls of the page -----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        return (*super().legend, ("pit", PIT), ("goal", GOAL))

    def sliders(self) -> list[Slider]:
        width, height = self.task.map.size
        speed, tilt, action = dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_ACTION
        return [
            Slider("x (mm)", "state", 0, 0.0, width, 0.5, MM, "Or drag the marble."),
            Slider("y (mm)", "state", 2, 0.0, height, 0.5, MM, "Or drag the marble."),
            Slider("velocity x (m/s)", "state", 1, -speed, speed, 0.01),
            Slider("velocity y (m/s)", "state", 3, -speed, speed, 0.01),
            Slider("tilt x (rad)", "state", 4, -tilt, tilt, 0.005, 1.0, "Positive lowers the left side."),
            Slider("tilt y (rad)", "state", 5, -tilt, tilt, 0.005, 1.0, "Positive lowers the near side."),
            Slider("action x (rad/s)", "action", 0, -action, action, 0.02, 1.0, "Speed of the motor that tilts along x."),
            Slider("action y (rad/s)", "action", 1, -action, action, 0.02, 1.0, "Speed of the motor that tilts along y."),
        ]

    def reading(self, snapshot: Snapshot) -> str:
        x, vx, y, vy, alpha, beta = snapshot.state
        stratum = self.task.strata.names[int(self.task.strata.index(np.array([[x, y]]))[0])]
        tilt = ", ".join(f"{np.degrees(part):.1f}°" for part in (alpha, beta))
        return f"marble at ({x * MM:.1f}, {y * MM:.1f}) mm, {stratum}; {100 * np.hypot(vx, vy):.1f} cm/s; tilt {tilt}"

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build_solids(self, snapshot: Snapshot) -> None:
        self._plate = self.server.scene.add_frame(self.plate, show_axes=False)
        for shape in board_scene(self.task.map):
            self._solid(shape, self.plate if shape.tilts else "/task")
        self._marble = self._solid(marble_shape(self.task.map, snapshot.state), self.plate)

    def _solid(self, shape: Shape, parent: str) -> Any:
        name, colour = f"{parent}/{shape.name.replace(' ', '-')}", tuple(int(part) for part in rgb(shape.colour))
        place = {"position": np.array(shape.centre) * UNIT, "color": colour}
        size = np.array(shape.size) * UNIT
        if shape.kind == "box":
            return self.server.scene.add_box(name, dimensions=tuple(size), **place)
        if shape.kind == "cylinder":
            return self.server.scene.add_cylinder(name, radius=size[0], height=size[2], **place)
        return self.server.scene.add_icosphere(name, radius=size[0], subdivisions=4, **place)

    def dragged_to(self, place: Floats) -> tuple[Sequence[int], Floats]:
        return POSITION, place[:2] / UNIT + self.size / 2

    def draw(self, snapshot: Snapshot) -> None:
        import viser.transforms as transforms

        steps = snapshot.first_plan
        place = np.array(marble_shape(self.task.map, snapshot.state).centre) * UNIT
        self._plate.wxyz = transforms.SO3.from_matrix(plate_rotation(snapshot.state)).wxyz
        self._marble.position = place
        self.put_handle(place)
        points, colours = self._tiles(snapshot)
        self._on_board("region", points, colours, TILE * self.canvas.pitch, LIFT, "square")
        particles = np.concatenate([step.cloud for step in steps]) if steps else np.empty((0, 2))
        self._on_board("particles", particles, PARTICLE, 9e-4, 2 * LIFT)
        self._on_board("trail", snapshot.trail[:, POSITION], snapshot.trail_paint, 1.2e-3, 3 * LIFT)

    def _tiles(self, snapshot: Snapshot) -> tuple[Floats, Floats]:
        """Centres (n, 2) and colours (n, 3) of the pixels that regions cover, thinned out."""
        some, rest = slice(TILE // 2, None, TILE), np.zeros(2)
        ground = self.canvas.ground(rest)[1][some, some]
        picture = self.painted(snapshot, snapshot.first_plan)[some, some]
        covered = (picture != ground).any(axis=2)
        return self.canvas.points(some, some, rest)[covered.ravel()], picture[covered].astype(np.float64)

    def _on_board(self, name: str, points: Floats, colours: Any, size: float, lift: float, shape: str = "circle") -> None:
        """Draw points (n, 2) of the board, at a height above it."""
        high = np.column_stack([points - self.size / 2, np.full(len(points), lift)]) * UNIT
        self.point_cloud(f"plate/{name}", high, colours, size * UNIT, shape)

    # -- pictures -----------------------------------------------------------------------------------------------------

    def corners(self) -> tuple[Floats, Floats]:
        """Corners of the board."""
        return np.zeros(2), self.size

    def furnish_space(self, canvas: Canvas, picture: Picture) -> None:
        """Draw pits and goal."""
        map = self.task.map
        for pit in map.pits:
            canvas.circle(picture, np.array(pit) * MILLIMETRE, map.pit_radius * MILLIMETRE, PIT, inside=0.25)
        canvas.circle(picture, np.array(map.goal) * MILLIMETRE, map.goal_radius * MILLIMETRE, GOAL, line=2.5)
