"""Pictures of the shelf: the arm in 3D, the shelf from two sides, positions of the jar in regions, and its paths."""

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
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.canvas import rgb
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Dots, Line, Panel, Shape, rectangle
from capture_cp.report.scene import Points
from capture_cp.report.solids import SIDE, TOP, View, rendered
from capture_cp.report.style import INFEASIBLE_COLOUR, PATH_COLOUR, STEP_MARKS, colour_of, label
from capture_lab.tasks.drawing import MOST_GROWTH, SMALL, Drawing, Storyboard, reached
from capture_lab.tasks.shelf.motions import moving_inputs
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import (
    GLASS_COLOUR,
    GOAL_COLOUR,
    JAR_COLOUR,
    WOOD_COLOUR,
    Cloud,
    flat_shapes,
    jar_cloud,
    jar_paths,
    shelf_bodies,
    touched_glasses,
    window,
)

#: Random inputs from which situations are chosen, true outcomes of each, and members of a region per stratum.
INPUTS, OUTCOMES, MEMBERS, FEWER = 3_000, 60, 700, 350
#: Space in front of the shelf in pictures of the space and in films, margin around jars, and length of a scale (m).
WHOLE_ARM, FRONT, MARGIN, SCALE = 0.85, 0.17, 0.03, 0.05
#: Direction of the picture in 3D, its middle and half its size (m), and its width in pixels.
CORNER, LOOK_AT, HALF, PIXELS = View.from_above(240, 17), np.array([0.45, 0.0, 0.43]), np.array([0.68, 0.57]), 660
#: Diameters of a region's members, particles and the jar's path in 3D (m), and opacity of the arm in front of the shelf.
MEMBER, PARTICLE, WAY, PALE_ARM = 0.008, 0.012, 0.007, 0.55
THINGS = [("jar", JAR_COLOUR), ("glass", GLASS_COLOUR), ("goal of the jar", GOAL_COLOUR), ("shelf", WOOD_COLOUR)]
TOUCHED = "touched the glass"


class ShelfDrawing(Drawing):
    """Draws one shelf, its arm and its jar, from the side and from above; lengths on the axes are metres."""

    paths_title, failed = "Paths of the jar", TOUCHED
    task: ShelfTask

    def storyboard(self, episode: Episode) -> ShelfStoryboard:
        return ShelfStoryboard(self, episode)

    def panel(
        self, view: View, before: float, y: Floats | None = None, touched: Sequence[int] = (), arm: float = 1.0
    ) -> Panel:
        """The shelf in a view, with the arm at a configuration y (7,)."""
        low, high = window(self.task.shelf, view, before)
        return Panel(low, high, shapes=flat_shapes(self.task, view, y, touched, arm), title=view.name)

    def jars(self, Y: Floats) -> Floats:
        """Centres (n, 3) of the jar at configurations Y (n, 7)."""
        return np.asarray(self.task.jars(np.ascontiguousarray(Y))[:, :3])

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
                small=SMALL,
                **names,
            )
            for region, cloud in zip(regions.values(), clouds)
        ]

    def situation_inputs(self, rng: np.random.Generator) -> Floats:
        return moving_inputs(self.task, INPUTS, rng)

    def path_panels(self, runs: Sequence[Any]) -> list[Panel]:
        """Paths of the jar from the side and from above."""
        paths, panels = jar_paths(self.task, [run["path"] for run in runs]), []
        for view in (SIDE, TOP):
            lines = tuple(self._path(run, view.flat(path))._replace(order=5) for path, run in zip(paths, runs))
            ends = tuple(Dots(line.points[-1:], line.colour, 10, 1.0, order=6) for line in lines)
            across = reached(runs) if view is TOP else ""
            look: dict[str, Any] = {"ticks": False, "title": "", "across": across, "up": f", {view.name}"}
            panels.append(replace(self.panel(view, 0.22), lines=lines, dots=ends, **look))
        return panels

    def path_key(self) -> list[Any]:
        return [*super().path_key(), *THINGS[1:3]]


class ShelfStoryboard(Storyboard):
    """The arm in 3D; on the right, one above the other, the side view and the top view on the same scale."""

    inches, places, columns = (12.0, 7.2), "AB;AC", 6
    ends: Mapping[str, str] = {"success": "the jar is in its place", TOUCHED: TOUCHED, TIMED_OUT: "out of time"}
    task: ShelfTask

    def __init__(self, drawing: ShelfDrawing, episode: Episode) -> None:
        corners = (window(drawing.task.shelf, view, FRONT) for view in (SIDE, TOP))
        heights = [float((high - low)[1]) for low, high in corners]
        self.layout = MappingProxyType({"width_ratios": (2.1, 1), "height_ratios": heights})
        super().__init__(drawing, episode)
        self.path = drawing.jars(episode.states[:, :7])

    @property
    def title(self) -> str:
        return f"Shelf ({self.task.place}), {self.episode.info.get('method', '')}"

    def touched(self, step: int) -> list[int]:
        """Numbers of the glasses that have been touched when a step begins."""
        if self.episode.outcome != TOUCHED or step < self.episode.steps:
            return []
        return touched_glasses(self.task, np.ascontiguousarray(self.episode.states[-2:, :7]))

    def panels(self, step: int) -> list[Panel]:
        """The arm in 3D with the region of the step as positions of the jar, and the same from the side and from above."""
        now, region, going = self.episode.states[step, :7], self.region(step), step < self.episode.steps
        cloud = None if region is None else jar_cloud(self.task, region, FEWER, stream(step, "picture"))
        particles = (
            self.drawing.jars(self.episode.particles[step]) if step < len(self.episode.particles) else np.empty((0, 3))
        )
        points = [Points(particles, "#000000", PARTICLE), Points(_dense(self.path[: step + 1]), "#333333", WAY)]
        if cloud is not None:
            paint = np.array([rgb(colour_of(int(m))) for m in cloud.labels]).reshape(-1, 3)
            points.append(Points(cloud.points, paint, MEMBER))
        middle, bodies = CORNER.flat(LOOK_AT), shelf_bodies(self.task, now, self.touched(step)).values()
        image = rendered(bodies, CORNER, middle - HALF, middle + HALF, PIXELS, points)
        m = int(self.task.strata.index(now[None])[0])
        title = "infeasible" if m < 0 else self.task.strata.names[m]
        found = [Panel(image.low, image.high, (image,), ticks=False, bare=True, title=title)]
        inside = bool(self.episode.inside[step]) if step < len(self.episode.inside) else None
        verdict = "" if inside is None else f": outcome {'inside' if inside else 'outside'} the region"
        for view in (SIDE, TOP):
            shown = self.drawing.panel(view, FRONT, now, self.touched(step), PALE_ARM)
            found.append(
                replace(
                    shown,
                    dots=() if cloud is None else _dots(cloud, view, 6),
                    lines=(Line(view.flat(self.path[: step + 1]), PATH_COLOUR, 1.2, order=4),),
                    particles=view.flat(particles) if len(particles) else None,
                    start=view.flat(self.path[step]),
                    outcomes=view.flat(self.path[step + 1]) if going else None,
                    inside=None if inside is None else np.array([inside]),
                    title=view.name + verdict * (view is SIDE),
                    ticks=False,
                )
            )
        return found


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
