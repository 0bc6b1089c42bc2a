"""The shelf on the live page: the arm with the region around its jar, and flat pictures from two sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.report.canvas import Canvas, Picture, beside, rgb, stamp
from capture_cp.report.scene import Body, Handle, Points, Scene
from capture_cp.report.solids import SIDE, TOP, View, rendered
from capture_cp.report.style import INFEASIBLE_COLOUR, STRATA_COLOURS, colour_of
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.scene import GOAL_COLOUR, NEAR, Moment, PlanStep, TaskScene, paint_plan
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import (
    GLASS_COLOUR,
    JAR_COLOUR,
    Cloud,
    jar_cloud,
    pushed,
    seen_through,
    shelf_bodies,
    window,
)
from capture_lab.tasks.task import Task

#: Scene units per metre: cameras and handles are made for things of about that size.
UNIT, DEGREE = 2.0, 180 / np.pi
#: Members of a region per stratum, for the next step and for each later one.
MEMBERS, LATER = 250, 60
#: Width of a flat picture in pixels, and of the enlarged one, which shows at least this width (m).
PIXELS, ENLARGED, LEAST = 380, 300, 0.16
#: White between pictures, and half a side of the ground (m).
GAP, GROUND = 10, 1.5
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
        self._clouds: list[tuple[Any, Cloud]] = []

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
        ground = Body("plane", np.array([GROUND, GROUND, 0.0]), np.zeros(3), "#e6e6e6")
        clouds = [self.cloud(step.region, h == 0) for h, step in enumerate(now.steps) if step.region is not None]
        paint = [rgb(colour_of(int(m))) for cloud in clouds for m in cloud.labels]
        places = np.concatenate([np.empty((0, 3)), *(cloud.points for cloud in clouds)])
        region = Points(places, np.array(paint).reshape(-1, 3), 0.005)
        points = {"region": region, **now.points(0.006, self.jars)}
        bodies = {"ground": ground, **shelf_bodies(self.task, self._here)}
        return Scene(bodies, points, handle=Handle(self.jars(now.state[None])[0]), scale=UNIT)

    def jars(self, Y: Floats) -> Floats:
        """Centres (n, 3) of the jar at configurations or states Y (n, 7 or 14)."""
        return self.task.jars(np.ascontiguousarray(Y[:, :7]))[:, :3]

    def cloud(self, region: Any, first: bool) -> Cloud:
        """Positions of the jar in a region, computed once: the same region is drawn in several pictures."""
        for known, cloud in self._clouds:
            if known is region:
                return cloud
        cloud = jar_cloud(self.task, region, MEMBERS if first else LATER, stream(0, "picture"))
        self._clouds = [(region, cloud), *self._clouds[:31]]
        return cloud

    # -- pictures -----------------------------------------------------------------------------------------------------

    def picture(self, now: Moment, steps: list[PlanStep]) -> Picture:
        """Side view and top view with the jar's positions in the regions of one method.

        Side by side; one above the other if another method is shown next to it.
        """
        flats = [self._flat(now, view, *window(self.task.shelf, view), PIXELS) for view in (SIDE, TOP)]
        side, top = (self._painted_flat(flat, now, steps) for flat in flats)
        if len(now.plans) > 1:
            return np.concatenate([side, np.full((GAP, PIXELS, 3), 255, np.uint8), top])
        rows = max(len(side), len(top))
        above = [(rows - len(part)) // 2 for part in (side, top)]
        pads = [((gap, rows - len(part) - gap), (0, 0), (0, 0)) for part, gap in zip((side, top), above)]
        return beside([np.pad(part, pad, constant_values=255) for part, pad in zip((side, top), pads)])

    def enlarged(self, now: Moment) -> list[Picture]:
        """The side view around the next step of all methods, one picture each; none if no method has a next step."""
        plans = [steps for steps in now.plans.values() if steps]
        if not plans:
            return []
        jars = [self.jars(np.concatenate([steps[0].cloud for steps in plans]))]
        jars += [self.cloud(steps[0].region, True).points for steps in plans if steps[0].region is not None]
        seen = SIDE.flat(np.concatenate(jars))
        middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(LEAST, 1.15 * float(np.ptp(seen, axis=0).max())) / 2
        flat = self._flat(now, SIDE, middle - half, middle + half, ENLARGED)
        return [self._painted_flat(flat, now, steps) for steps in now.plans.values()]

    def _flat(self, now: Moment, view: View, low: Floats, high: Floats, pixels: int) -> Flat:
        return Flat(self.task, now.state[:7], view, low, high, pixels, self.cloud)

    def _painted_flat(self, flat: Flat, now: Moment, steps: list[PlanStep]) -> Picture:
        return self.furnished(flat, paint_plan(flat, steps, self._here), now, steps)


class Flat(Canvas):
    """A view of the shelf and the arm; configurations are where their jar is, regions are dots.

    Args:
        task: the shelf and its arm.
        y: configuration (7,) of the arm.
        view: direction of view.
        low, high: corners (2,) of the window (m).
        pixels: width of the picture.
        cloud: gives positions of the jar in a region, many of them for the first of a plan.
    """

    def __init__(
        self,
        task: ShelfTask,
        y: Floats,
        view: View,
        low: Floats,
        high: Floats,
        pixels: int,
        cloud: Callable[[Any, bool], Cloud],
    ) -> None:
        self.task, self.view, self.low, self._cloud = task, view, np.asarray(low), cloud
        self.pitch = float(high[0] - low[0]) / pixels
        bodies = [seen_through(body, view) for name, body in shelf_bodies(task, y).items() if name != "goal"]
        self.picture: Picture = rendered(bodies, view, low, high, pixels).pixels
        self.shape, self.axes, self.sides = self.picture.shape[:2], (0, 1), np.full(2, self.pitch)
        self.circle(self.picture, view.flat(task.shelf.goal), task.shelf.within, GOAL_COLOUR, inside=0.2)

    def pixel(self, Y: Floats) -> Floats:
        """Row and column of the jar at configurations Y (n, 7), not rounded: (n, 2)."""
        return self.pixel_of_points(self.task.jars(np.ascontiguousarray(Y))[:, :3])

    def pixel_of_points(self, points: Floats) -> Floats:
        """Row and column of points (n, 3) of the world, not rounded: (n, 2)."""
        along = (self.view.flat(points) - self.low) / self.pitch
        return np.stack([self.shape[0] - along[:, 1], along[:, 0]], axis=1) - 0.5

    def ground(self, rest: Floats) -> tuple[Any, Picture]:
        return None, self.picture

    def region(self, picture: Picture, region: Any, rest: Floats, strength: float) -> None:
        for m, points in self._cloud(region, strength >= NEAR).parts():
            stamp(picture, self.pixel_of_points(points), "o", colour_of(m), 1)
