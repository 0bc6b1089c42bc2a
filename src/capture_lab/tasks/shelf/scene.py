"""The shelf on the live page: the arm in 3D with the region around its jar, and flat pictures from two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.report.canvas import Picture, beside, rgb
from capture_cp.spaces.marks import OUTSIDE, START
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS, colour_of
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.scene import GOAL, PARTICLE, TRAIL, PlanStep, Scene, Slider, Snapshot
from capture_lab.tasks.shelf.painting import Flat, as_high, stacked
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import (
    GLASS_COLOUR,
    JAR_COLOUR,
    SIDE,
    TOP,
    WOOD_COLOUR,
    Arm,
    Cloud,
    glass_capsules,
    jar_cloud,
    nearest_last,
    pushed,
    window,
)
from capture_lab.tasks.task import Task

#: Scene units per metre: cameras and gizmos are made for things of about that size.
UNIT, DEGREE = 2.0, 180 / np.pi
#: Members of a region per stratum, for the next step and for each later one.
MEMBERS, LATER = 250, 60
#: Width of a flat picture in pixels, and of the enlarged one, which shows at least this width (m).
PIXELS, ENLARGED, LEAST = 380, 300, 0.16
#: Iterations and damping (m²) of the inverse kinematics for the jar, and the largest rotation per iteration (rad).
ROUNDS, DAMPING, TURN = 12, 2e-3, 0.2
#: Opacity of a wall.
CLEAR = 0.15


class ShelfScene(Scene):
    """The shelf, the arm and the jar."""

    task: ShelfTask
    key = "Coloured dots: places of the jar in the regions, by stratum."
    drag_axes = (True, True, True)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.arm = Arm(self.task)
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
        state = state.copy()
        y = np.clip(state[:7], *self.corners())[None]
        if self.task.strata.index(y)[0] == INFEASIBLE:
            y = pushed(self.task, y)
        state[:7] = y[0] if self.task.strata.index(y)[0] != INFEASIBLE else self._here
        return state

    def dragged_to(self, place: Floats) -> tuple[Sequence[int], Floats]:
        """Angles (7,) that bring the jar to a position, or near it, starting from the present ones."""
        y, wanted = self._here.copy(), np.asarray(place) / UNIT
        for _ in range(ROUNDS):
            missing = wanted - self.task.jars(y[None])[0, :3]
            jacobian = self.task.jar_jacobians(y[None])[0]
            turn = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + DAMPING * np.eye(3), missing)
            y = np.clip(y + np.clip(turn, -TURN, TURN), *self.corners())
        return list(range(7)), y

    # -- controls of the page -----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        things = (
            ("infeasible, in a region", INFEASIBLE_COLOUR),
            ("glass", GLASS_COLOUR),
            ("jar", JAR_COLOUR),
            ("goal", GOAL),
        )
        return (*zip(self.task.strata.names, STRATA_COLOURS), *things)

    @property
    def camera(self) -> tuple[Floats, Floats]:
        return np.array([0.0, -1.2, 0.85]) * UNIT, np.array([0.42, 0.0, 0.45]) * UNIT

    def sliders(self) -> list[Slider]:
        low, high = np.array(self.corners()) * DEGREE
        bound = round(self.task.bound * DEGREE, 1)
        hint = "The commanded rotation; the true arm is disturbed, and sags under the jar."
        found = [
            Slider(f"joint {i + 1} (°)", "state", i, float(np.ceil(low[i])), float(np.floor(high[i])), 0.5, DEGREE,
                   "Or drag the jar.")
            for i in range(7)
        ]  # fmt: skip
        turns = [Slider(f"turn {i + 1} (°)", "action", i, -bound, bound, 0.1, DEGREE, hint) for i in range(7)]
        return found + turns

    def reading(self, snapshot: Snapshot) -> str:
        y = np.ascontiguousarray(snapshot.state[None, :7])
        x, across, z, upright = self.task.jars(y)[0]
        m, apart = int(self.task.strata.index(y)[0]), float(self.task.glass_clearances(y)[0])
        contact = "infeasible" if m == INFEASIBLE else self.task.strata.names[m]
        glass = "**touches the glass**" if apart < 0 else f"{1e3 * apart:.0f} mm from a glass"
        leaning = np.degrees(np.arccos(min(upright, 1.0)))
        return f"jar at ({x:.3f}, {across:.3f}, {z:.3f}) m, leaning {leaning:.0f}°; **{contact}**; {glass}"

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build_solids(self, snapshot: Snapshot) -> None:
        shelf = self.task.shelf
        for kind, boxes in (("board", shelf.boards), ("wall", shelf.walls)):
            for number, corners in enumerate(boxes.values()):
                low, high = np.array(corners) * UNIT
                look: dict[str, Any] = {"color": _bytes(WOOD_COLOUR), "opacity": CLEAR if kind == "wall" else None}
                self.server.scene.add_box(
                    f"/task/{kind}-{number}", dimensions=tuple(high - low), position=(low + high) / 2, **look
                )
        for number, capsule in enumerate(glass_capsules(shelf)):
            self._capsule(f"glass-{number}", capsule[:3], capsule[3:6], capsule[6], GLASS_COLOUR, 0.7)
        goal: dict[str, Any] = {"color": _bytes(GOAL), "opacity": 0.45, "position": np.array(shelf.goal) * UNIT}
        self.server.scene.add_icosphere("/task/goal", radius=shelf.within * UNIT, **goal)
        self.server.scene.add_grid("/task/ground", width=3 * UNIT, height=3 * UNIT, cell_size=0.1 * UNIT)
        self._links = [self.server.scene.add_frame(f"/task/link-{i}", show_axes=False) for i in range(8)]
        for number, ((a, b), link) in enumerate(zip(self.arm.ends, self.arm.links)):
            paint = JAR_COLOUR if number == self.arm.jar else tuple((255 * self.arm.colours[number]).astype(int))
            self._capsule(f"link-{link % 8}/part-{number}", a, b, self.arm.radii[number], paint)

    def _capsule(self, name: str, a: Floats, b: Floats, radius: float, colour: Any, opacity: float | None = None) -> None:
        """A capsule between two points (3,) of its parent's frame."""
        import trimesh

        mesh = trimesh.creation.capsule(height=float(np.linalg.norm(b - a)), radius=float(radius), count=(16, 16))
        mesh.apply_translation(-mesh.bounds.mean(axis=0))
        turn: Any = trimesh.geometry.align_vectors([0.0, 0.0, 1.0], b - a)  # type: ignore[no-untyped-call]
        mesh.apply_transform(turn)
        mesh.apply_translation((a + b) / 2)
        paint = _bytes(colour) if isinstance(colour, str) else tuple(int(part) for part in colour)
        self.server.scene.add_mesh_simple(f"/task/{name}", mesh.vertices * UNIT, mesh.faces, color=paint, opacity=opacity)

    def draw(self, snapshot: Snapshot) -> None:
        import viser.transforms as transforms

        self._here, steps = snapshot.state[:7].copy(), snapshot.first_plan
        places, turns = self.arm.frames(self._here)
        for frame, place, turn in zip(self._links, places, turns):
            frame.position, frame.wxyz = place * UNIT, transforms.SO3.from_matrix(turn).wxyz
        self.put_handle(self._jars(self._here[None])[0] * UNIT)
        clouds = [self._cloud(step, MEMBERS if h == 0 else LATER) for h, step in enumerate(steps) if step.region is not None]
        points = np.concatenate([np.empty((0, 3)), *(cloud.points for cloud in clouds)])
        labels = np.concatenate([np.empty(0, dtype=np.int64), *(cloud.labels for cloud in clouds)])
        paint = np.array([rgb(colour_of(int(m))) for m in labels]).reshape(-1, 3)
        self.point_cloud("region", points * UNIT, paint, 0.005 * UNIT)
        particles = self._jars(np.concatenate([step.cloud for step in steps])) if steps else np.empty((0, 3))
        self.point_cloud("particles", particles * UNIT, PARTICLE, 0.006 * UNIT)
        self.point_cloud("trail", self._jars(snapshot.trail[:, :7]) * UNIT, snapshot.trail_paint, 0.008 * UNIT)

    def _jars(self, Y: Floats) -> Floats:
        """Centres (n, 3) of the jar at configurations Y (n, 7)."""
        return self.task.jars(np.ascontiguousarray(Y))[:, :3]

    def _cloud(self, step: PlanStep, n: int) -> Cloud:
        """Positions of the jar in the region of a step, computed once: the same step is drawn in several pictures."""
        for known, cloud in self._clouds:
            if known is step:
                return cloud
        assert step.region is not None
        cloud = jar_cloud(self.task, step.region, n, stream(0, "picture"))
        self._clouds = [(step, cloud), *self._clouds[:31]]
        return cloud

    # -- pictures -----------------------------------------------------------------------------------------------------

    def picture(self, snapshot: Snapshot, steps: list[PlanStep]) -> Picture:
        """Side view and top view with the jar's positions in the regions of one method.

        Side by side; one above the other if another method is shown next to it.
        """
        pictures = []
        for view in (SIDE, TOP):
            low, high = window(self.task.shelf, view)
            pictures.append(self._furnished(Flat(self.task.shelf, view, low, high, PIXELS), snapshot, steps))
        rows = max(map(len, pictures))
        return stacked(pictures) if len(snapshot.plans) > 1 else beside([as_high(picture, rows) for picture in pictures])

    def enlarged(self, snapshot: Snapshot) -> list[Picture]:
        """The side view around the next step of all methods, one picture each; none if no method has a next step."""
        plans = [steps for steps in snapshot.plans.values() if steps]
        if not plans:
            return []
        jars = [self._jars(np.concatenate([steps[0].cloud for steps in plans]))]
        jars += [self._cloud(steps[0], MEMBERS).points for steps in plans if steps[0].region is not None]
        seen = SIDE.flat(np.concatenate(jars))
        middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(LEAST, 1.15 * float(np.ptp(seen, axis=0).max())) / 2
        return [
            self._furnished(Flat(self.task.shelf, SIDE, middle - half, middle + half, ENLARGED), snapshot, steps)
            for steps in snapshot.plans.values()
        ]

    def _furnished(self, flat: Flat, snapshot: Snapshot, steps: list[PlanStep]) -> Picture:
        """A flat picture with the arm, regions, particles, the jar's path and its present position."""
        capsules = self.arm.at(snapshot.state[:7])
        for number in nearest_last(capsules, flat.view):
            grey = JAR_COLOUR if number == self.arm.jar else "#dcdde2"
            flat.capsule(capsules[number], grey, 0.75)
        for h, step in reversed(list(enumerate(steps))):
            if step.region is not None:
                for m, points in self._cloud(step, MEMBERS if h == 0 else LATER).parts():
                    flat.dots(points, colour_of(m), 1)
        trail, here = self._jars(snapshot.trail[:, :7]), self._jars(snapshot.state[None, :7])
        flat.dots(trail, TRAIL, 2)
        if snapshot.missed.any():
            flat.mark(trail[snapshot.missed], OUTSIDE, 4)
        for step in reversed(steps):
            flat.dots(self._jars(step.cloud), PARTICLE, 1)
        if steps:
            flat.action(here[0], self._jars(steps[0].cloud))
        flat.mark(here, START)
        return flat.picture


def _bytes(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(part) for part in rgb(colour))
    return red, green, blue
