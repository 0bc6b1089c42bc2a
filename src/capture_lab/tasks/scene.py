"""A task on the live page: its scene, pictures of its configuration space, sliders, and plans.

`TaskScene` works for any task: its configuration space, or a slice of it, lies flat, with regions, particles and the path so
far on it. A task with more to show derives from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import part_volumes
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Canvas, Picture, rgb
from capture_cp.report.scene import Handle, Points, Scene
from capture_cp.report.style import ACTION, GOAL, OUTSIDE, PARTICLES, PATH_COLOUR, START, STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, Strata, grid_of, has_grid
from capture_cp.viewer.session import Slider
from capture_cp.viewer.texts import REGION_KEY
from capture_lab.tasks.drawing import checked_shown
from capture_lab.tasks.task import Task

#: Opacity of the region of the first step of a plan, and of the last.
NEAR, FAR = 0.85, 0.25
#: Length of the longer side of pictures, width of the enlarged one, and width of its pixels in pixels of the page.
PIXELS, ENLARGED, COARSE = 460, 156, 3
#: Random inputs that give the range of the entries of a state.
INPUTS = 1000
GOAL_COLOUR = GOAL.colour


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
class Moment:
    """A task at one time.

    Attributes:
        state: (ds,).
        trail: states so far, the current one last, (t + 1, ds).
        missed: whether each state of the trail was outside the region of its step, (t + 1,).
        plan: actions from here on, (H, da); empty when the episode is over.
        outcome: how the episode ended, or None.
        plan_ms: time spent on the plan.
        particles: recorded particles of the first step (L, dc), or None.
        plans: steps ahead with their regions, by method.
    """

    state: Floats
    trail: Floats
    missed: Bools
    plan: Floats
    outcome: str | None = None
    plan_ms: float | None = None
    particles: Floats | None = None
    plans: Mapping[str, list[PlanStep]] = field(default_factory=dict)

    @property
    def steps(self) -> list[PlanStep]:
        """The steps ahead with the first method."""
        return next(iter(self.plans.values()), [])

    def points(self, size: float, place: Any) -> dict[str, Points]:
        """Particles and path in the scene; `place` makes points (n, 3) of configurations or states (n, d)."""
        clouds = [np.empty((0, 3)), *(place(step.cloud) for step in self.steps)]
        paint = np.where(self.missed[:, None], rgb(OUTSIDE.colour), rgb(PATH_COLOUR))
        particles = Points(np.concatenate(clouds), PARTICLES.colour, size)
        return {"particles": particles, "trail": Points(place(self.trail), paint, 1.3 * size)}


class TaskScene:
    """One task on the page. Used by one thread only."""

    #: Whether every step of a plan has a region, or only the first, as in the planner's cost; and a key of the pictures.
    regions_along = True
    key = REGION_KEY
    #: The two axes of the configuration in pictures.
    shown: tuple[int, int] = (0, 1)
    #: Smallest height of the enlarged picture, in cells of the grid, or without a grid in small lengths of the task.
    least_cells = 6.0
    #: Label, unit and hint of the slider of each entry of the input, None without one; by default the entries' names.
    entries: Sequence[tuple[str, float, str] | None] = ()
    camera: tuple[Floats, Floats] = (np.array([0.0, -1.15, 1.4]), np.array([0.0, -0.05, 0.0]))
    marks = PARTICLES, START, ACTION, OUTSIDE

    def __init__(self, task: Task) -> None:
        self.task: Any = task
        self.gridded = has_grid(task.strata)
        self.grid: Any = grid_of(task.strata).require_grid() if self.gridded else None
        self._columns, self._axes = list(checked_shown(self.shown, len(task.axes))), list(task.axes)
        # without a grid the strata of pixels are computed one by one: fewer pixels, each drawn as a square
        self.coarse = 1 if self.gridded else COARSE
        self._painted: tuple[list[PlanStep], Picture] | None = None

    # -- states and plans ---------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        """The state and the action shown before anything has moved."""
        return self.task.starts(1)[0], self.task.bounds / 2

    def placed(self, state: Floats) -> Floats:
        """The feasible state nearest to the requested one."""
        axes, strata, state = self._axes, self.task.strata, state.copy()
        state[axes] = np.clip(state[axes], *self.corners())
        if strata.index(state[axes][None])[0] != INFEASIBLE:
            return state
        if self.gridded:
            free = self.grid.centre(np.flatnonzero(strata.labels != INFEASIBLE))
            state[axes] = free[np.argmin(np.linalg.norm(free - state[axes], axis=1))]
        else:
            extent = self.task.extent
            state[axes] = extent.nearest(state[axes], self.task.metric, strata.index(extent.configurations) >= 0)
        return state

    def dragged(self, state: Floats, place: Floats) -> Floats:
        """The state (ds,) once its handle is at a place (3,)."""
        low, high = (corner[self._columns] for corner in self.corners())
        after = state.copy()
        after[[self._axes[column] for column in self._columns]] = place[:2] / self._scale + (low + high) / 2
        return after

    def ahead(self, cap: Capture, now: Moment, alpha: float, seed: int) -> list[PlanStep]:
        """The steps of a plan with their regions.

        The noise is the same at every call, so that a picture changes only if the state or the plan does. A Gaussian has the
        covariance of the first step at every step.
        """
        gaussian, rng, steps = isinstance(cap.score, Mahalanobis), stream(seed, "picture"), list[PlanStep]()
        states = np.tile(now.state, (cap.n_particles, 1))
        for h, action in enumerate(now.plan):
            x = np.concatenate([states.mean(axis=0) if h else now.state, action])
            states = self.believed(states, np.tile(action, (len(states), 1)), rng)
            cloud: Any = np.ascontiguousarray(states[:, self._axes])
            if h == 0 and now.particles is not None and now.particles.shape == cloud.shape:
                cloud = now.particles
            if h > 0 and not self.regions_along:
                steps.append(PlanStep(cloud))
            elif h == 0 and (gaussian or not self.regions_along):
                steps.append(plan_step(cap, x, cloud, cap.region(x, alpha, rng=seed)))
            else:
                first = steps[0].region if gaussian else None
                prediction = cloud if first is None else (cloud.mean(axis=0)[None], first.prediction.cov)
                steps.append(plan_step(cap, x, cloud, cap.region(x, alpha, prediction=prediction), count=h == 0))
        return steps

    def believed(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) predicted by the model of a plan."""
        return np.asarray(self.task.model_step(states, actions, rng))

    # -- legend, sliders, text ----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Names and colours of the things in the pictures."""
        return (*zip(self.task.strata.names, STRATA_COLOURS), *INFEASIBLE_LEGEND)

    @property
    def state_bounds(self) -> tuple[Floats, Floats]:
        """Bounds (ds,) of a state: of the space, and of random inputs."""
        X = self.task.inputs(INPUTS, np.random.default_rng(0))[:, : len(self.task.states)]
        low, high = X.min(axis=0), X.max(axis=0)
        low[self._axes], high[self._axes] = self.corners()
        return low, high

    @cached_property
    def sliders(self) -> list[Slider]:
        """Sliders for state and action, within the bounds of the space, of random inputs and of actions."""
        task, low, high = self.task, *self.state_bounds
        ends = np.hstack([np.stack([low, high]), np.stack([-task.bounds, task.bounds])])
        entries = self.entries or [(name, 1.0, "") for name in (*task.states, *task.actions)]
        return [Slider.between(entry[0], i, ends[:, i], *entry[1:]) for i, entry in enumerate(entries) if entry is not None]

    def reading(self, now: Moment) -> str:
        """The state as text, in Markdown."""
        m = int(self.task.strata.index(now.state[self._axes][None])[0])
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in zip(self.task.states, now.state))
        return f"{numbers}; {'infeasible' if m == INFEASIBLE else self.task.strata.names[m]}"

    # -- three dimensions ---------------------------------------------------------------------------------------------

    def scene(self, now: Moment, picture: Picture) -> Scene:
        """The scene; `picture` is that of the first method."""
        low, high = (corner[self._columns] for corner in self.corners())
        at = (now.state[self._axes][self._columns] - (low + high) / 2) * self._scale
        return Scene(picture=picture, handle=Handle(np.append(at, 0.0), (True, True, False)))

    @property
    def _scale(self) -> float:
        low, high = self.corners()
        return Scene.side / float((high - low)[self._columns].max())

    # -- pictures -----------------------------------------------------------------------------------------------------

    @property
    def pictured(self) -> tuple[Strata, Sequence[int] | None]:
        """The strata in pictures, and the number of the colour of each, None for their order."""
        return self.task.strata, None

    def rest(self, now: Moment) -> Floats:
        """The slice that is shown: a configuration (dc,), of which only the axes outside the picture matter."""
        first = now.steps
        slice_ = np.array(first[0].cloud.mean(axis=0) if first else now.state[self._axes])
        if self.gridded:  # slices between cells look the same
            slice_ = self.grid.origin + np.rint((slice_ - self.grid.origin) / self.grid.spacing) * self.grid.spacing
        slice_[self._columns] = 0.0
        return np.asarray(slice_)

    def picture(self, now: Moment, steps: list[PlanStep]) -> Picture:
        """The configuration space with the regions of one method."""
        return self.furnished(self.canvas, self.painted(now, steps), now, steps, self.coarse)

    def enlarged(self, now: Moment) -> list[Picture]:
        """The part around the next step, one picture per method; none if no method has one."""
        plans = list(now.plans.values())
        firsts = [steps[0] for steps in plans if steps]
        if not firsts:
            return []
        canvas, rest = self.canvas_between(*self._window(firsts, wide=len(plans) == 1), ENLARGED), self.rest(now)
        return [self.furnished(canvas, paint_plan(canvas, steps, rest), now, steps, COARSE, 2) for steps in plans]

    def furnished(
        self, canvas: Canvas, picture: Picture, now: Moment, steps: list[PlanStep], times: int = 1, dot: int = 1
    ) -> Picture:
        """A picture, `times` as large, with the things in the space, the path, particles, action and robot on it."""
        canvas, picture = canvas.finer(picture, times)
        here, trail = now.state[self._axes], now.trail[:, self._axes]
        self.furnish(canvas, picture)
        canvas.dots(picture, trail, PATH_COLOUR, 2)
        if now.missed.any():
            canvas.mark(picture, trail[now.missed], OUTSIDE, 4)
        for step in reversed(steps):
            canvas.dots(picture, step.cloud, PARTICLES.colour, dot)
        if steps:
            canvas.action(picture, here, steps[0].cloud)
        canvas.mark(picture, here[None], START)
        return picture

    def furnish(self, canvas: Canvas, picture: Picture) -> None:
        """Draw things in the configuration space, such as a goal."""

    def painted(self, now: Moment, steps: list[PlanStep]) -> Picture:
        """The strata with the regions of a plan, painted once per frame."""
        if self._painted is None or self._painted[0] is not steps:
            self._painted = steps, paint_plan(self.canvas, steps, self.rest(now))
        return self._painted[1]

    @cached_property
    def canvas(self) -> Canvas:
        """The canvas of the whole space."""
        low, high = (corner[self._columns] for corner in self.corners())
        return self.canvas_between(low, high, PIXELS // self.coarse)

    def canvas_between(self, low: Floats, high: Floats, pixels: int) -> Canvas:
        """A canvas for the part of the space between two corners (2,)."""
        strata, colours = self.pictured
        return Canvas(strata, low, high, pixels, (self._columns[0], self._columns[1]), colours)

    def corners(self) -> tuple[Floats, Floats]:
        """Outer corners (dc,) of the grid; without one, of the range of random inputs."""
        if not self.gridded:
            return self.task.extent.low, self.task.extent.high
        low = self.grid.origin - self.grid.spacing / 2
        return low, low + self.grid.spacing * np.array(self.grid.shape)

    def _window(self, firsts: list[PlanStep], wide: bool) -> tuple[Floats, Floats]:
        """Corners (2,) of a window around steps, particles and regions; as wide as high, or twice as wide."""
        corners = [first.cloud for first in firsts]
        for region in (first.region for first in firsts if first.region is not None):
            finite = region.thresholds[np.isfinite(region.thresholds)]
            if len(finite):
                corners += region.score.box(region.prediction, finite.max(keepdims=True), region.dims)
        shown = np.concatenate(corners)[:, self._columns]
        shown = shown[np.isfinite(shown).all(axis=1)]
        middle, reach = (shown.min(axis=0) + shown.max(axis=0)) / 2, np.ptp(shown, axis=0)
        half = max(self.least_cells * float(self.task.cell), 1.15 * float(reach.max())) / 2
        return middle - half * np.array([1.0 + wide, 1.0]), middle + half * np.array([1.0 + wide, 1.0])


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
    for step, strength in reversed(list(zip(steps, np.linspace(NEAR, FAR, len(steps))))):
        if step.region is not None:
            canvas.region(picture, step.region, rest, float(strength))
    return picture
