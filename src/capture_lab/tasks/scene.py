"""A task on the live page: a scene in 3D, pictures of the configuration space, sliders, and plans.

`Scene` works for any task: its configuration space, or a slice of it, lies flat, with regions, particles and the path so far
on it. A task with more to show derives from it. Only `build` and the methods called after it need viser (extra `view`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import has_grid, part_volumes
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Canvas, Picture, rgb
from capture_cp.spaces.marks import ACTION, OUTSIDE, PARTICLES, PATH_COLOUR, START, Mark
from capture_cp.spaces.marks import GOAL as GOAL_MARK
from capture_cp.spaces.plotting import STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, Strata, grid_of
from capture_lab.tasks.point_slices import checked_shown
from capture_lab.tasks.task import Task

#: Opacity of the region of the first step of a plan, and of the last.
NEAR, FAR = 0.85, 0.25
#: Length of the longer side of pictures, width of the enlarged one, and width of its pixels in pixels of the page.
PIXELS, ENLARGED, COARSE = 460, 156, 3
TRAIL, PARTICLE, GOAL = PATH_COLOUR, PARTICLES.colour, GOAL_MARK.colour
#: Positions of a slider, and random inputs that give the range of the other entries of a state.
POSITIONS, INPUTS = 200, 1000
#: The meaning of strong and pale colours.
REGION_KEY = "Strong colours: region. Pale: strata."
#: Length of the longer side of the flat space, in the unit of cameras and gizmos.
SIDE = 1.2


@dataclass(frozen=True)
class Slider:
    """A slider for one entry of the state or of the action, shown as `unit` times its value."""

    label: str
    of: str  # "state" or "action"
    index: int
    low: float
    high: float
    step: float
    unit: float = 1.0
    hint: str = ""


@dataclass(frozen=True)
class PlanStep:
    """One step of a plan, as predicted by the model.

    Attributes:
        cloud: particles (L, dc).
        region: of the step, where the planner builds one.
        cells: cells of the first step's region by stratum, infeasible ones last, (M + 1,); volumes without a grid.
    """

    cloud: Floats
    region: Region | None = None
    cells: Ints | Floats | None = None


@dataclass(frozen=True)
class Snapshot:
    """The content of a scene.

    Attributes:
        state: (ds,).
        trail: states so far, the current one last, (t + 1, ds).
        plans: steps ahead with their regions, by method.
        outside: whether each state of the trail was outside the region of its step, (t + 1,); None if unknown.
    """

    state: Floats
    trail: Floats
    plans: Mapping[str, list[PlanStep]]
    outside: Bools | None = None

    @property
    def missed(self) -> Bools:
        """States of the trail that were outside the region of their step, (t + 1,)."""
        return np.zeros(len(self.trail), dtype=bool) if self.outside is None else self.outside

    @property
    def trail_paint(self) -> Floats:
        """Colours of the states of the trail, (t + 1, 3)."""
        return np.where(self.missed[:, None], rgb(OUTSIDE.colour), rgb(TRAIL))

    @property
    def first_plan(self) -> list[PlanStep]:
        """The steps ahead with the first method."""
        return next(iter(self.plans.values()), [])


#: Called with the entries of the state that the user has dragged, and their new values.
Moved = Callable[[Sequence[int], Floats], None]


class Scene:
    """One task on the page. Drawn by one thread only."""

    #: Whether every step of a plan has a region, or only the first.
    regions_along = True
    #: How pictures show regions, for the legend.
    key = REGION_KEY
    #: The two axes of the configuration in pictures.
    shown: tuple[int, int] = (0, 1)
    #: Smallest height of the enlarged picture, in cells of the grid, or without a grid in small lengths of the task.
    least_cells = 6.0
    #: Path of the gizmo that drags the robot, and the axes of the scene along which it moves.
    handle = "/task/handle"
    drag_axes = (True, True, False)

    def __init__(self, task: Task) -> None:
        self.task: Any = task
        self.gridded = has_grid(task.strata)
        self.grid: Any = grid_of(task.strata).require_grid() if self.gridded else None
        self._columns = list(checked_shown(self.shown, len(task.axes)))
        # without a grid the strata of pixels are computed one by one: fewer pixels, each drawn as a square
        self.coarse = 1 if self.gridded else COARSE
        self._painted: tuple[list[PlanStep], Picture] | None = None

    # -- states and plans ---------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        """The state and the action shown before anything has moved."""
        return self.task.starts(1)[0], self.task.bounds / 2

    def placed(self, state: Floats) -> Floats:
        """The feasible state nearest to the requested one."""
        axes, state = list(self.task.axes), state.copy()
        state[axes] = np.clip(state[axes], *self.corners())
        if self.task.strata.index(state[axes][None])[0] == INFEASIBLE:
            state[axes] = self._nearest_free(state[axes])
        return state

    def _nearest_free(self, configuration: Floats) -> Floats:
        """The feasible cell, or without a grid the random input's configuration, nearest to a configuration (dc,)."""
        strata = self.task.strata
        if not self.gridded:
            extent = self.task.extent
            return np.asarray(extent.nearest(configuration, self.task.metric, strata.index(extent.configurations) >= 0))
        free = self.grid.centre(np.flatnonzero(strata.labels != INFEASIBLE))
        return np.asarray(free[np.argmin(np.linalg.norm(free - configuration, axis=1))])

    def ahead(
        self, cap: Capture, state: Floats, plan: Floats, alpha: float, seed: int, recorded: Floats | None = None
    ) -> list[PlanStep]:
        """The steps of a plan (H, da) from a state; `recorded` particles (L, dc) replace the first prediction.

        The noise is the same at every call, so that a picture changes only if the state or the plan does.
        """
        along = self.regions_along and not isinstance(cap.score, Mahalanobis)  # its covariance is that of one step
        rng, states, steps = stream(seed, "picture"), np.tile(state, (cap.n_particles, 1)), []
        for h, action in enumerate(plan):
            x = np.concatenate([states.mean(axis=0) if h else state, action])
            states = self.believed(states, np.tile(action, (len(states), 1)), rng)
            cloud = np.ascontiguousarray(states[:, list(self.task.axes)])
            if h == 0 and recorded is not None and recorded.shape == cloud.shape:
                cloud = recorded
            if along:
                steps.append(plan_step(cap, x, cloud, cap.region(x, alpha, prediction=cloud), count=h == 0))
            else:
                steps.append(plan_step(cap, x, cloud, cap.region(x, alpha, rng=seed)) if h == 0 else PlanStep(cloud))
        return steps

    def believed(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) predicted by the model of a plan."""
        return np.asarray(self.task.model_step(states, actions, rng))

    # -- legend and controls ------------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Names and colours of the things in the pictures."""
        return (*zip(self.task.strata.names, STRATA_COLOURS), *INFEASIBLE_LEGEND)

    @property
    def marks(self) -> Sequence[Mark]:
        """The marks in the pictures."""
        return PARTICLES, START, ACTION, OUTSIDE

    @property
    def camera(self) -> tuple[Floats, Floats]:
        """Initial position of the camera, and the point it looks at, both (3,)."""
        return np.array([0.0, -1.15, 1.4]), np.array([0.0, -0.05, 0.0])

    def sliders(self) -> list[Slider]:
        """Sliders for the state and the action, within the bounds of the space, of random inputs and of actions."""
        names, inputs = self.task.states, self.task.inputs(INPUTS, np.random.default_rng(0))[:, : len(self.task.states)]
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        low[list(self.task.axes)], high[list(self.task.axes)] = self.corners()
        found = [Slider(name, "state", i, *whole_steps(a, b)) for i, (name, a, b) in enumerate(zip(names, low, high))]
        bounds = zip(self.task.actions, self.task.bounds)
        return found + [Slider(name, "action", i, *whole_steps(-bound, bound)) for i, (name, bound) in enumerate(bounds)]

    def reading(self, snapshot: Snapshot) -> str:
        """The state as text, in Markdown."""
        m = int(self.task.strata.index(snapshot.state[list(self.task.axes)][None])[0])
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in zip(self.task.states, snapshot.state))
        return f"{numbers}; {'infeasible' if m == INFEASIBLE else self.task.strata.names[m]}"

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build(self, server: Any, snapshot: Snapshot, moved: Moved) -> None:
        """Set up the scene on a viser server, in place of the previous one."""
        server.scene.remove_by_name("/task")
        server.scene.add_frame("/task", show_axes=False)
        server.scene.add_light_hemisphere("/task/sky", intensity=2.5, position=(0.0, 0.0, 3.0))
        self.server, self.moved = server, moved
        low, high = self.corners()
        self.canvas = self.canvas_between(low[self._columns], high[self._columns], PIXELS // self.coarse)
        self.build_solids(snapshot)
        self._handle = server.scene.add_transform_controls(
            self.handle, 0.22, active_axes=self.drag_axes, disable_rotations=True, depth_test=False
        )
        self._handle.on_update(self._dragged)

    def build_solids(self, snapshot: Snapshot) -> None:
        """Add the solid objects of the scene."""

    def draw(self, snapshot: Snapshot) -> None:
        """Update the scene."""
        picture = self.picture(snapshot, snapshot.first_plan)
        size = np.array(picture.shape[1::-1]) * self._scale() * self.canvas.pitch / self.coarse
        turned = (0.0, 1.0, 0.0, 0.0)  # images of viser have their top at -y
        self.server.scene.add_image("/task/space", picture, *size, format="jpeg", wxyz=turned)
        self.put_handle(np.append(self._on_plate(snapshot.state[list(self.task.axes)][self._columns]), 0.0))

    def put_handle(self, place: Floats) -> None:
        """Move the gizmo to a position (3,) of the scene."""
        if not np.allclose(self._handle.position, place, atol=1e-6):
            self._handle.position = place

    def dragged_to(self, place: Floats) -> tuple[Sequence[int], Floats]:
        """The entries of the state that a place (3,) of the gizmo sets, and their values."""
        low, high = (corner[self._columns] for corner in self.corners())
        return [self.task.axes[axis] for axis in self._columns], place[:2] / self._scale() + (low + high) / 2

    def _dragged(self, event: Any) -> None:
        if event.client is not None:
            self.moved(*self.dragged_to(np.asarray(event.target.position)))

    def _scale(self) -> float:
        low, high = self.corners()
        return SIDE / float((high - low)[self._columns].max())

    def _on_plate(self, point: Floats) -> Floats:
        low, high = (corner[self._columns] for corner in self.corners())
        return (point - (low + high) / 2) * self._scale()

    def point_cloud(self, name: str, points: Floats, colours: Any, size: float, shape: str = "circle") -> None:
        """Draw points (n, 3), replacing those with the same name; `colours` are one or (n, 3)."""
        path = f"/task/{name}"
        if not len(points):
            self.server.scene.remove_by_name(path)
            return
        paint = np.tile(rgb(colours), (len(points), 1)) if isinstance(colours, str) else colours
        look = {"point_size": size, "point_shape": shape, "precision": "float32", "point_shading": "flat"}
        self.server.scene.add_point_cloud(path, points, paint.astype(np.uint8), **look)

    # -- pictures -----------------------------------------------------------------------------------------------------

    @property
    def pictured(self) -> Strata:
        """The strata in pictures."""
        return self.task.strata  # type: ignore[no-any-return]

    @property
    def colours(self) -> Sequence[int] | None:
        """Number of the colour of each stratum, (M,); None for their order."""
        return None

    def rest(self, snapshot: Snapshot) -> Floats:
        """The slice that is shown: a configuration (dc,), of which only the axes outside the picture matter."""
        first = snapshot.first_plan
        here = first[0].cloud.mean(axis=0) if first else snapshot.state[list(self.task.axes)]
        slice_ = np.array(here)
        if self.gridded:
            cells = np.rint((here - self.grid.origin) / self.grid.spacing)  # slices between cells look the same
            slice_ = self.grid.origin + cells * self.grid.spacing
        slice_[self._columns] = 0.0
        return np.asarray(slice_)

    def picture(self, snapshot: Snapshot, steps: list[PlanStep]) -> Picture:
        """The configuration space with the regions of one method."""
        canvas, picture = self.canvas, self.painted(snapshot, steps).copy()
        if self.coarse > 1:
            canvas, picture = canvas.finer(picture, self.coarse)
        self.furnish(canvas, picture, snapshot, steps)
        return picture

    def enlarged(self, snapshot: Snapshot) -> list[Picture]:
        """The part around the next step, one picture per method; none if no method has one."""
        plans = list(snapshot.plans.values())
        firsts, least = [steps[0] for steps in plans if steps], self.least_cells * float(self.task.cell)
        window = window_around(firsts, least, wide=len(plans) == 1, axes=self._columns)
        if window is None:
            return []
        canvas, pictures = self.canvas_between(*window, ENLARGED), []
        for steps in plans:
            fine, picture = canvas.finer(paint_plan(canvas, steps, self.rest(snapshot)), COARSE)
            self.furnish(fine, picture, snapshot, steps, dot=2)
            pictures.append(picture)
        return pictures

    def furnish(self, canvas: Canvas, picture: Picture, snapshot: Snapshot, steps: list[PlanStep], dot: int = 1) -> None:
        """Draw the things in the space, the path so far, particles, action and robot, whatever slice they are in."""
        axes = list(self.task.axes)
        self.furnish_space(canvas, picture)
        canvas.dots(picture, snapshot.trail[:, axes], TRAIL, 2)
        if snapshot.missed.any():
            canvas.mark(picture, snapshot.trail[snapshot.missed][:, axes], OUTSIDE, 4)
        for step in reversed(steps):
            canvas.dots(picture, step.cloud, PARTICLE, dot)
        if steps:
            canvas.action(picture, snapshot.state[axes], steps[0].cloud)
        canvas.mark(picture, snapshot.state[axes][None], START)

    def furnish_space(self, canvas: Canvas, picture: Picture) -> None:
        """Draw things in the configuration space, such as a goal."""

    def painted(self, snapshot: Snapshot, steps: list[PlanStep]) -> Picture:
        """The strata with the regions of a plan, painted once per frame."""
        if self._painted is None or self._painted[0] is not steps:
            self._painted = steps, paint_plan(self.canvas, steps, self.rest(snapshot))
        return self._painted[1]

    def canvas_between(self, low: Floats, high: Floats, pixels: int) -> Canvas:
        """A canvas for the part of the space between two corners (2,)."""
        return Canvas(self.pictured, low, high, pixels, (self._columns[0], self._columns[1]), self.colours)

    def corners(self) -> tuple[Floats, Floats]:
        """Outer corners (dc,) of the grid; without one, of the range of random inputs."""
        if not self.gridded:
            return self.task.extent.low, self.task.extent.high
        low = self.grid.origin - self.grid.spacing / 2
        return low, low + self.grid.spacing * np.array(self.grid.shape)


def plan_step(cap: Capture, x: Floats, cloud: Floats, region: Region, count: bool = True) -> PlanStep:
    """A step with the region of its input x (ds + da,), and with `count` its cells, or volumes."""
    if not count:
        return PlanStep(cloud, region)
    if not has_grid(cap.strata):
        return PlanStep(cloud, region, part_volumes(region, stream(0, "picture")))
    return PlanStep(cloud, region, cap.count_cells(x[None], region.alpha, prediction=region.prediction)[0])


def paint_plan(canvas: Canvas, steps: list[PlanStep], rest: Floats) -> Picture:
    """The strata with the regions of a plan over them, the next step's on top; `rest` (dc,) gives the slice."""
    picture = canvas.ground(rest)[1].copy()
    strengths = np.linspace(NEAR, FAR, len(steps)) if len(steps) > 1 else [NEAR]
    for step, strength in reversed(list(zip(steps, strengths))):
        if step.region is not None:
            canvas.region(picture, step.region, rest, float(strength))
    return picture


def window_around(firsts: list[PlanStep], least: float, wide: bool, axes: Sequence[int]) -> tuple[Floats, Floats] | None:
    """Corners (2,) of a window around steps, particles and regions, on two axes; None if there are none.

    At least `least` high; as wide as high, or twice as wide.
    """
    if not firsts:
        return None
    corners = [first.cloud for first in firsts]
    for region in (first.region for first in firsts if first.region is not None):
        finite = region.thresholds[np.isfinite(region.thresholds)]
        if len(finite):
            corners += region.score.box(region.prediction, finite.max(keepdims=True), region.dims)
    shown = np.concatenate(corners)[:, list(axes)]
    shown = shown[np.isfinite(shown).all(axis=1)]
    middle, reach = (shown.min(axis=0) + shown.max(axis=0)) / 2, np.ptp(shown, axis=0)
    half = max(least, 1.15 * float(reach.max())) / 2 * np.array([2.0 if wide else 1.0, 1.0])
    return middle - half, middle + half


def whole_steps(low: float, high: float) -> tuple[float, float, float]:
    """Bounds of a slider that are multiples of its step, and the step: a round number."""
    step = float(10.0 ** np.floor(np.log10(max(high - low, 1e-12) / POSITIONS * 2)))
    return float(np.floor(low / step) * step), float(np.ceil(high / step) * step), step
