"""The shelf on the live page: the arm with the region around its jar, and flat pictures from two sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.report.canvas import Picture, beside, rgb
from capture_cp.report.scene import Handle, Points, Scene
from capture_cp.report.solids import SIDE, TOP, View
from capture_cp.report.style import INFEASIBLE_COLOUR, STRATA_COLOURS, colour_of
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.scene import GOAL_COLOUR, Moment, PlanStep, TaskScene
from capture_lab.tasks.shelf.painting import Flat, as_high, stacked
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import GLASS_COLOUR, JAR_COLOUR, Cloud, jar_cloud, pushed, shelf_bodies, window
from capture_lab.tasks.task import Task

#: Scene units per metre: cameras and handles are made for things of about that size.
UNIT, DEGREE = 2.0, 180 / np.pi
#: Members of a region per stratum, for the next step and for each later one.
MEMBERS, LATER = 250, 60
#: Width of a flat picture in pixels, and of the enlarged one, which shows at least this width (m).
PIXELS, ENLARGED, LEAST = 380, 300, 0.16
#: Iterations and damping (m²) of the inverse kinematics for the jar, and the largest rotation per iteration (rad).
ROUNDS, DAMPING, TURN = 12, 2e-3, 0.2
REACH = "The commanded rotation; the true arm is disturbed, and sags under the jar."


class ShelfScene(TaskScene):
    """The shelf, the arm and the jar."""

    task: ShelfTask
    key = "Coloured dots: places of the jar in the regions, by stratum."
    camera = np.array([0.0, -1.2, 0.85]) * UNIT, np.array([0.42, 0.0, 0.45]) * UNIT
    entries = (
        *((f"joint {i} (°)", DEGREE, "Or drag the jar.") for i in range(1, 8)),
        *(None for _ in range(7)),
        *((f"turn {i} (°)", DEGREE, REACH) for i in range(1, 8)),
    )

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._here: Floats = np.array(self.task.shelf.start)
        self._clouds: list[tuple[PlanStep, Cloud]] = []

    # -- states -------------------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        """The arm at its start, about to reach forward."""
        return self.task.starts(1)[0], self.task.bounds * [0.0, 0.7, 0.0, 0.7, 0.0, 0.0, 0.0]

    def corners(self) -> tuple[Floats, Floats]:
        """Limits of the joints."""
        return self.task.strata.limits[0], self.task.strata.limits[1]

    def placed(self, state: Floats) -> Floats:
        """Within the limits, and moved off boards and walls; unchanged if that fails."""
        state, strata = state.copy(), self.task.strata
        y = np.clip(state[:7], *self.corners())[None]
        if strata.index(y)[0] == INFEASIBLE:
            y = pushed(self.task, y)
        state[:7] = y[0] if strata.index(y)[0] != INFEASIBLE else self._here
        return state

    def dragged(self, state: Floats, place: Floats) -> Floats:
        """The arm with its jar at a place, or near it, starting from its present angles."""
        y = state[:7].copy()
        for _ in range(ROUNDS):
            missing = place - self.task.jars(y[None])[0, :3]
            jacobian = self.task.jar_jacobians(y[None])[0]
            turn = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + DAMPING * np.eye(3), missing)
            y = np.clip(y + np.clip(turn, -TURN, TURN), *self.corners())
        return np.concatenate([y, state[7:]])

    # -- legend, text -------------------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        things = ("infeasible, in a region", INFEASIBLE_COLOUR), ("glass", GLASS_COLOUR), ("jar", JAR_COLOUR)
        return (*zip(self.task.strata.names, STRATA_COLOURS), *things, ("goal", GOAL_COLOUR))

    def reading(self, now: Moment) -> str:
        y = np.ascontiguousarray(now.state[None, :7])
        x, across, z, upright = self.task.jars(y)[0]
        m, apart = int(self.task.strata.index(y)[0]), float(self.task.glass_clearances(y)[0])
        contact = "infeasible" if m == INFEASIBLE else self.task.strata.names[m]
        glass = "**touches the glass**" if apart < 0 else f"{1e3 * apart:.0f} mm from a glass"
        leaning = np.degrees(np.arccos(min(upright, 1.0)))
        return f"jar at ({x:.3f}, {across:.3f}, {z:.3f}) m, leaning {leaning:.0f}°; **{contact}**; {glass}"

    # -- three dimensions ---------------------------------------------------------------------------------------------

    def scene(self, now: Moment, picture: Picture) -> Scene:
        self._here = now.state[:7].copy()
        bodies = shelf_bodies(self.task, self._here)
        clouds = [self.cloud(step, h == 0) for h, step in enumerate(now.steps) if step.region is not None]
        paint = [rgb(colour_of(int(m))) for cloud in clouds for m in cloud.labels]
        places = np.concatenate([np.empty((0, 3)), *(cloud.points for cloud in clouds)])
        region = Points(places, np.array(paint).reshape(-1, 3), 0.005)
        points = {"region": region, **now.points(0.006, self.jars)}
        return Scene(bodies, points, handle=Handle(self.jars(now.state[None])[0]), scale=UNIT)

    def jars(self, Y: Floats) -> Floats:
        """Centres (n, 3) of the jar at configurations or states Y (n, 7 or 14)."""
        return self.task.jars(np.ascontiguousarray(Y[:, :7]))[:, :3]

    def cloud(self, step: PlanStep, first: bool) -> Cloud:
        """Positions of the jar in the region of a step, computed once: the same step is drawn in several pictures."""
        for known, cloud in self._clouds:
            if known is step:
                return cloud
        assert step.region is not None
        cloud = jar_cloud(self.task, step.region, MEMBERS if first else LATER, stream(0, "picture"))
        self._clouds = [(step, cloud), *self._clouds[:31]]
        return cloud

    # -- pictures -----------------------------------------------------------------------------------------------------

    def picture(self, now: Moment, steps: list[PlanStep]) -> Picture:
        """Side view and top view with the jar's positions in the regions of one method.

        Side by side; one above the other if another method is shown next to it.
        """
        flats = [self._flat(now, view, *window(self.task.shelf, view), PIXELS) for view in (SIDE, TOP)]
        pictures = [self._painted_flat(flat, now, steps) for flat in flats]
        rows = max(map(len, pictures))
        return stacked(pictures) if len(now.plans) > 1 else beside([as_high(picture, rows) for picture in pictures])

    def enlarged(self, now: Moment) -> list[Picture]:
        """The side view around the next step of all methods, one picture each; none if no method has a next step."""
        plans = [steps for steps in now.plans.values() if steps]
        if not plans:
            return []
        jars = [self.jars(np.concatenate([steps[0].cloud for steps in plans]))]
        jars += [self.cloud(steps[0], True).points for steps in plans if steps[0].region is not None]
        seen = SIDE.flat(np.concatenate(jars))
        middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(LEAST, 1.15 * float(np.ptp(seen, axis=0).max())) / 2
        flat = self._flat(now, SIDE, middle - half, middle + half, ENLARGED)
        return [self._painted_flat(flat, now, steps) for steps in now.plans.values()]

    def _flat(self, now: Moment, view: View, low: Floats, high: Floats, pixels: int) -> Flat:
        return Flat(self.task, now.state[:7], view, low, high, pixels)

    def _painted_flat(self, flat: Flat, now: Moment, steps: list[PlanStep]) -> Picture:
        picture = flat.picture.copy()
        for h, step in reversed(list(enumerate(steps))):
            if step.region is not None:
                for m, points in self.cloud(step, h == 0).parts():
                    flat.places(picture, points, colour_of(m))
        return self.furnished(flat, picture, now, steps)
