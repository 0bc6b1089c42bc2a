"""The shelf in pictures and on the page: the arm in 3D, the shelf from two sides, and the jar's positions in regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import particles_of
from capture_cp.planning.episode import TIMED_OUT
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Dots, Line, Panel, Shape, rectangle
from capture_cp.report.scene import Body, Handle, Points, Scene
from capture_cp.report.solids import SIDE, TOP, View, rendered
from capture_cp.report.space import Step
from capture_cp.report.style import INFEASIBLE_COLOUR, PATH_COLOUR, STEP_MARKS, STRATA_COLOURS, colour_of, label
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.drawing import Drawing, Film
from capture_lab.tasks.figures import MOST_GROWTH, reached
from capture_lab.tasks.moment import Moment
from capture_lab.tasks.shelf.motions import moving_inputs
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import (
    BEFORE,
    GLASS_COLOUR,
    GOAL_COLOUR,
    JAR_COLOUR,
    WOOD_COLOUR,
    Cloud,
    flat_shapes,
    jar_cloud,
    pushed,
    shelf_bodies,
    touched_glasses,
    window,
)
from capture_lab.tasks.task import Task

#: Visible space in front of the shelf in the picture of the space and in films (m), and opacity of the arm in front of it.
WHOLE_ARM, IN_FILM, PALE_ARM = 0.85, 0.17, 0.55
#: Random inputs from which situations are chosen, and true outcomes of each.
INPUTS, OUTCOMES = 3_000, 60
#: Members of a region per stratum: in figures, in films, and on the page for the next step and for each later one.
MEMBERS, FILMED, NEXT, LATER = 700, 350, 250, 60
#: Margin around jars, length of a scale, and least width of the page's close-up (m).
MARGIN, SCALE, LEAST = 0.03, 0.05, 0.16
#: Direction of the picture in 3D, its middle and half its size (m), and its width in pixels.
CORNER, LOOK_AT, HALF, PIXELS = View.from_above(240, 17), np.array([0.45, 0.0, 0.43]), np.array([0.68, 0.57]), 660
#: Diameters of a region's members, particles and the jar's path in 3D (m).
MEMBER, PARTICLE, WAY = 0.008, 0.012, 0.007
THINGS = [("jar", JAR_COLOUR), ("glass", GLASS_COLOUR), ("goal of the jar", GOAL_COLOUR), ("shelf", WOOD_COLOUR)]
TOUCHED = "touched the glass"
#: Scene units per metre, half a side of its ground (m), and degrees per radian.
UNIT, GROUND, DEGREE = 2.0, 1.5, 180 / np.pi
#: Iterations and damping (m²) of the inverse kinematics for the jar, and the largest rotation per iteration (rad).
ROUNDS, DAMPING, TURN = 12, 2e-3, 0.2
REACH = "The commanded rotation; the true arm is disturbed, and sags under the jar."


class ShelfDrawing(Drawing):
    """Draws one shelf, its arm and its jar, from the side and from above; lengths on the axes are metres."""

    task: ShelfTask
    paths_title, failed = "Paths of the jar", TOUCHED
    inches, places, columns = (12.0, 7.2), "AB;AC", 6
    ends: Mapping[str, str] = {"success": "the jar is in its place", TOUCHED: TOUCHED, TIMED_OUT: "out of time"}
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

    @property
    def layout(self) -> Mapping[str, Any]:  # type: ignore[override]
        corners = (window(self.task.shelf, view, IN_FILM) for view in (SIDE, TOP))
        heights = [float((high - low)[1]) for low, high in corners]
        return MappingProxyType({"width_ratios": (2.1, 1), "height_ratios": heights})

    @property
    def name(self) -> str:
        return f"Shelf ({self.task.place})"

    def corners(self) -> tuple[Floats, Floats]:
        """Limits of the joints."""
        return self.task.strata.limits[0], self.task.strata.limits[1]

    def jars(self, Y: Floats) -> Floats:
        """Centres (n, 3) of the jar at configurations or states Y (n, 7 or 14)."""
        return np.asarray(self.task.jars(np.ascontiguousarray(Y[:, :7]))[:, :3])

    def panel(
        self, view: View, before: float, y: Floats | None = None, touched: Sequence[int] = (), arm: float = 1.0
    ) -> Panel:
        """The shelf in a view, with the arm at a configuration y (7,)."""
        low, high = window(self.task.shelf, view, before)
        return Panel(low, high, shapes=flat_shapes(self.task, view, y, touched, arm), title=view.name)

    # -- figures of studies -------------------------------------------------------------------------------------------

    def draw_spaces(self, file: Path) -> None:
        """The shelf with the arm at its start, the glasses and the goal of the jar, from the side and from above."""
        shelf = self.task.shelf
        side, top = (self.panel(view, WHOLE_ARM, np.array(shelf.start)) for view in (SIDE, TOP))
        side = replace(side, low=np.array([side.low[0], -0.02]), up="z (m)")  # type: ignore[index]
        title = f"{label(self.task.place)}: {label(shelf.about)}" if shelf.about else label(self.task.place)
        rows = [[side], [replace(top, across="x (m)", up="y (m)")]]
        save(figure_of(rows, (7.2, 8.6), title, THINGS, height_ratios=_heights(rows), sharex=True), file)

    def region_key(self) -> list[Any]:
        return [*(Dots(np.empty((0, 2)), colour, name=name) for name, colour in self.strata_key()), *STEP_MARKS,
                Dots(np.empty((0, 2)), INFEASIBLE_COLOUR, name="infeasible")]  # fmt: skip

    def region_panels(self, x: Floats, regions: Mapping[str, Region]) -> list[Panel]:
        """The jar's positions in the regions of one input x (21,), from the side."""
        outcomes = self.task.outcomes(x[None], OUTCOMES, seed=1)[0]
        after, start = SIDE.flat(self.jars(outcomes)), SIDE.flat(self.jars(x[None, :7]))[0]
        clouds = [jar_cloud(self.task, region, MEMBERS, stream(0, "picture")) for region in regions.values()]
        low, high = _square(np.concatenate([after, *(SIDE.flat(cloud.points) for cloud in clouds)]))
        wide = _square(np.vstack([low, high, start]), 0.0)
        if (wide[1] - wide[0])[0] <= MOST_GROWTH * (high - low)[0]:
            low, high = wide
        corner = low + 0.01
        bar = Shape(rectangle(corner, corner + np.array([SCALE, 0.04 * SCALE])), "#000000", order=7)
        names: dict[str, Any] = {"ticks": False, "across": f"bar: {100 * SCALE:.0f} cm", "title": ""}
        return [
            replace(
                panel := self.panel(SIDE, 0.0),
                low=low,
                high=high,
                shapes=(*panel.shapes, bar),
                dots=_dots(cloud, SIDE, 7),
                particles=SIDE.flat(self.jars(particles_of(region.prediction))),
                start=start,
                outcomes=after,
                inside=region.contains(outcomes),
                small=self.small,
                **names,
            )
            for region, cloud in zip(regions.values(), clouds)
        ]

    def situation_inputs(self, rng: np.random.Generator) -> Floats:
        return moving_inputs(self.task, INPUTS, rng)

    def path_panels(self, runs: Sequence[Any]) -> list[Panel]:
        """Paths of the jar from the side and from above."""
        paths, panels = [self.jars(np.array(run["path"], dtype=np.float64)) for run in runs], []
        for view in (SIDE, TOP):
            lines = tuple(self._path(run, view.flat(path))._replace(order=5) for path, run in zip(paths, runs))
            ends = tuple(Dots(line.points[-1:], line.colour, 10, 1.0, order=6) for line in lines)
            across = reached(runs) if view is TOP else ""
            look: dict[str, Any] = {"ticks": False, "title": "", "across": across, "up": f", {view.name}"}
            panels.append(replace(self.panel(view, 0.22), lines=lines, dots=ends, **look))
        return panels

    def path_key(self) -> list[Any]:
        return [*super().path_key(), *THINGS[1:3]]

    # -- films and the page -------------------------------------------------------------------------------------------

    def panels(self, now: Moment, film: Film) -> list[Panel]:
        """The arm in 3D with the region of the step as positions of the jar, and the same from the side and from above."""
        y, path, step = now.state[:7], self.jars(now.trail), self.step(now, now.steps)
        cloud, touched = self.cloud(step.region, FILMED), self.touched(now)
        particles = self.jars(step.cloud)
        points = [Points(particles, "#000000", PARTICLE), Points(_dense(path), "#333333", WAY)]
        points.append(Points(cloud.points, cloud.paint, MEMBER))
        middle, bodies = CORNER.flat(LOOK_AT), shelf_bodies(self.task, y, touched).values()
        image = rendered(bodies, CORNER, middle - HALF, middle + HALF, PIXELS, points)
        m = int(self.task.strata.index(y[None])[0])
        title = "infeasible" if m == INFEASIBLE else self.task.strata.names[m]
        arm = Panel(image.low, image.high, (image,), ticks=False, bare=True, title=title)
        flats = [self.panel(view, IN_FILM, y, touched, PALE_ARM) for view in (SIDE, TOP)]
        side, top = (self._with_step(flat, view, step, FILMED) for flat, view in zip(flats, (SIDE, TOP)))
        return [arm, replace(side, title=SIDE.name + step.verdict), top]

    def touched(self, now: Moment) -> list[int]:
        """Numbers of the glasses that have been touched; none while the episode runs."""
        return touched_glasses(self.task, np.ascontiguousarray(now.trail[-2:, :7])) if now.outcome == TOUCHED else []

    def _with_step(self, panel: Panel, view: View, step: Step, members: int) -> Panel:
        """A view with the jar in a step: the regions as dots by stratum, the path, the particles and the outcome."""
        path, later = self.jars(step.path), [self.cloud(region, LATER) for _, region in step.later]
        clouds, none = [*reversed(later), self.cloud(step.region, members)], step.inside is None
        return replace(
            panel,
            dots=tuple(dots for cloud in clouds for dots in _dots(cloud, view, 6)),
            lines=(Line(view.flat(path), PATH_COLOUR, 1.2, order=4),),
            particles=view.flat(self.jars(step.cloud)) if len(step.cloud) else None,
            start=view.flat(path[-1]),
            outcomes=None if step.went is None else view.flat(self.jars(step.went[None])),
            inside=None if none else np.array([step.inside]),
            ticks=False,
        )

    def page_panels(self, now: Moment) -> tuple[list[list[Panel]], list[Panel]]:
        """For every method the side view and the top view, and the side view around the next step."""
        steps = [self.step(now, plan) for plan in now.plans.values()] or [self.step(now, [])]
        views = [(view, self.panel(view, BEFORE, now.state[:7], (), PALE_ARM)) for view in (SIDE, TOP)]
        whole = [[self._with_step(panel, view, step, NEXT) for view, panel in views] for step in steps]
        if not now.steps:
            return whole, []
        jars = [self.jars(step.cloud) for step in steps] + [self.cloud(step.region, NEXT).points for step in steps]
        seen = SIDE.flat(np.concatenate(jars))
        middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(LEAST, 1.15 * float(np.ptp(seen, axis=0).max())) / 2
        return whole, [replace(side, low=middle - half, high=middle + half, title="close-up") for side, _ in whole]

    def cloud(self, region: Any, members: int) -> Cloud:
        """Positions of the jar in a region, computed once: the same region is drawn in several pictures."""
        for known, cloud in self._clouds:
            if known is region:
                return cloud
        cloud = jar_cloud(self.task, region, members, stream(0, "picture"))
        self._clouds = [(region, cloud), *self._clouds[:31]]
        return cloud

    def scene(self, now: Moment) -> Scene:
        self._here = now.state[:7].copy()
        ground = Body("plane", np.array([GROUND, GROUND, 0.0]), np.zeros(3), "#e6e6e6")
        clouds = [self.cloud(step.region, NEXT if h == 0 else LATER) for h, step in enumerate(now.steps)]
        none = np.empty((0, 3))
        places, paint = (np.concatenate([none, *(getattr(c, part) for c in clouds)]) for part in ("points", "paint"))
        points = {"region": Points(places, paint, 0.005), **now.points(0.006, self.jars)}
        bodies = {"ground": ground, **shelf_bodies(self.task, self._here)}
        return Scene(bodies, points, handle=Handle(self.jars(now.state[None])[0]), scale=UNIT)

    def first_look(self) -> tuple[Floats, Floats]:
        """The arm at its start, about to reach forward."""
        return self.task.starts(1)[0], self.task.bounds * [0.0, 0.7, 0.0, 0.7, 0.0, 0.0, 0.0]

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


def _dots(cloud: Cloud, view: View, size: float) -> tuple[Dots, ...]:
    """Positions of the jar in a view, by stratum."""
    return tuple(Dots(view.flat(points), colour_of(m), size) for m, points in cloud.parts())


def _dense(path: Floats) -> Floats:
    """A path (t, 3) with points close to each other."""
    steps = np.arange(len(path) - 1) if len(path) > 1 else np.zeros(1, dtype=int)
    share = np.linspace(0, 1, 20)[None, :, None]
    after = path[np.minimum(steps + 1, len(path) - 1)]
    return np.asarray(path[steps][:, None] + share * (after - path[steps])[:, None]).reshape(-1, 3)


def _square(points: Floats, margin: float = MARGIN) -> tuple[Floats, Floats]:
    """Corners (2,) of the square around points (n, 2), with a margin."""
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    half = float((high - low).max()) / 2
    return (low + high) / 2 - half, (low + high) / 2 + half


def _heights(rows: Sequence[Sequence[Panel]]) -> list[float]:
    return [float((row[0].high - row[0].low)[1]) for row in rows]  # type: ignore[operator]
