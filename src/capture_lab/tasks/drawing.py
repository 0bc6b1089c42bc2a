"""How a task looks at one time, described once: panels for films and the page, a scene in 3D, and the page's sliders.

`Drawing` works for any task. One with more to show derives from it and adds panels of its workspace, bodies, or texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Canvas, Picture
from capture_cp.report.draw import Frames
from capture_cp.report.panel import Panel
from capture_cp.report.scene import Handle, Scene
from capture_cp.report.space import Step, Window, paint_regions
from capture_cp.report.style import ACTION, OUTCOME, OUTSIDE, PARTICLES, START, STEP_MARKS, STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, grid_of, has_grid
from capture_cp.viewer.session import Slider
from capture_cp.viewer.texts import REGION_KEY
from capture_lab.tasks.figures import Figures
from capture_lab.tasks.moment import Moment, PlanStep, plan_step, recorded_moment
from capture_lab.tasks.recorded import recorded_method, recorded_region

#: Pixels along the longer side of the flat picture of a scene; fewer where strata are computed one by one.
PIXELS, FEWER = 240, 80
#: Random inputs that give the range of the entries of a state.
INPUTS = 1000
#: Half a side of a film's close-up without regions, in small lengths of the task; how much wider it is than most regions.
CLOSE, ROOM = 12.0, 1.3
#: Diameter of particles in a scene, and their height above its flat picture.
DOT, LIFT = 0.008, 0.002


class Drawing(Figures):
    """One task in pictures, films and on the live page."""

    #: Size of a film in inches, letters of its panels, their layout, most entries of the legend in one row, and whether the
    #: space has ticks.
    inches: tuple[float, float] = (10.4, 5.4)
    places: str = "AB"
    layout: Mapping[str, Any] = MappingProxyType({})
    columns, ticks = 4, False
    #: Words for an outcome in the heading of a film's last picture.
    ends: Mapping[str, str] = {"success": "reached the goal", TIMED_OUT: "out of time"}
    #: Whether every step of a plan has a region, or only the first, as in the planner's cost; and a key of the pictures.
    regions_along, key = True, REGION_KEY
    #: Label, unit and hint of the slider of each entry of the input, None without one; by default the entries' names.
    entries: Sequence[tuple[str, float, str] | None] = ()
    camera: tuple[Floats, Floats] = (np.array([0.0, -1.15, 1.4]), np.array([0.0, -0.05, 0.0]))

    # -- one time -----------------------------------------------------------------------------------------------------

    def step(self, now: Moment, steps: Sequence[PlanStep]) -> Step:
        """A moment with the steps that one method plans, as far as pictures of the space show it."""
        path = now.trail[:, self._axes]
        first = steps[0] if steps else PlanStep(np.empty((0, len(self._axes))))
        went = None if now.after is None else now.after[self._axes]
        later = [(step.cloud, step.region) for step in steps[1:]]
        return Step(first.region, first.cloud, path[-1], went, now.inside, path, path[now.missed], later)

    def panels(self, now: Moment, film: Film) -> list[Panel]:
        """All panels of a film's picture."""
        step = self.step(now, now.steps)
        bare: dict[str, Any] = {} if self.ticks else {"ticks": False, "across": "", "up": ""}
        near = self.space.near(step, film.half)
        return [*self.workspace(now), *(replace(panel, **bare) for panel in self.space.whole_and_near(step, near))]

    def workspace(self, now: Moment) -> list[Panel]:
        """The panels before the configuration space."""
        return []

    def page_panels(self, now: Moment) -> tuple[list[list[Panel]], list[Panel]]:
        """For every method its panels of the whole space, and its close-up; no close-ups without plans."""
        steps = [self.step(now, plan) for plan in now.plans.values()] or [self.step(now, [])]
        ends = [self.space.near(step) for step in steps]
        low, high = np.min([end.low for end in ends], axis=0), np.max([end.high for end in ends], axis=0)
        near = self.space.squared(Window(low, high, self.window.angles))
        pairs = [self.space.whole_and_near(step, near) for step in steps]
        return [[whole] for whole, _ in pairs], [close for _, close in pairs] if now.steps else []

    # -- films --------------------------------------------------------------------------------------------------------

    def film(self, episode: Episode) -> Film:
        """The film of a recorded episode of this task."""
        return Film(self, episode)

    @property
    def name(self) -> str:
        """The task and its place in the heading of a film."""
        return str(self.task.place)

    def film_key(self, regions: bool) -> list[Any]:
        """Entries of a film's legend."""
        return [*self.strata_key(), *(STEP_MARKS if regions else (START, OUTCOME))]

    # -- plans --------------------------------------------------------------------------------------------------------

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

    # -- the page -----------------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        """The state and the action shown before anything has moved."""
        return self.task.starts(1)[0], self.task.bounds / 2

    def placed(self, state: Floats) -> Floats:
        """The feasible state nearest to the requested one."""
        axes, strata, state = self._axes, self.task.strata, state.copy()
        state[axes] = np.clip(state[axes], *self.corners())
        if strata.index(state[axes][None])[0] == INFEASIBLE:
            if has_grid(strata):
                free = grid_of(strata).require_grid().centre(np.flatnonzero(strata.labels != INFEASIBLE))
                state[axes] = free[np.argmin(np.linalg.norm(free - state[axes], axis=1))]
            else:
                extent = self.task.extent
                state[axes] = extent.nearest(state[axes], self.task.metric, strata.index(extent.configurations) >= 0)
        return state

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Names and colours of the things in the pictures."""
        return (*zip(self.task.strata.names, STRATA_COLOURS), *INFEASIBLE_LEGEND)

    marks = PARTICLES, START, ACTION, OUTSIDE

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

    def scene(self, now: Moment) -> Scene:
        """The scene: by default the flat picture of the space, with particles and the path on it."""
        here = self._on_picture(now.state[None])[0]
        points = now.points(DOT, self._on_picture)
        return Scene({}, points, self.flat_picture(now)[0], handle=Handle(here - [0, 0, LIFT], (True, True, False)))

    def dragged(self, state: Floats, place: Floats) -> Floats:
        """The state (ds,) once its handle is at a place (3,)."""
        after, window = state.copy(), self.space.window
        middle = (window.low + window.high) / 2
        for axis, along in zip(self.space.shown, place / self._scale):
            after[self._axes[axis]] = along + middle[axis]
        return after

    def flat_picture(self, now: Moment) -> tuple[Picture, Canvas, Floats]:
        """The slice of the space with the regions of the first method, its canvas, and where the slice lies (dc,)."""
        steps, rest = now.steps, self.step(now, now.steps).middle.copy()
        rest[list(self.space.shown)] = 0.0
        picture = self._canvas.ground(rest)[1].copy()
        paint_regions(self._canvas, picture, [step.region for step in steps], rest)
        return picture, self._canvas, rest

    @cached_property
    def _canvas(self) -> Canvas:
        shown, pixels = list(self.space.shown), PIXELS if has_grid(self.task.strata) else FEWER
        window, axes = self.space.window, (self.space.shown[0], self.space.shown[1])
        return Canvas(self.space.strata, window.low[shown], window.high[shown], pixels, axes, self.space.kinds)

    @property
    def _scale(self) -> float:
        return Scene.side / float(self.space.window.size[list(self.space.shown)].max())

    def _on_picture(self, Y: Floats) -> Floats:
        """Configurations or states (n, d) on the flat picture: (n, 3)."""
        Y = Y[:, self._axes] if Y.shape[1] == len(self.task.states) else Y
        shown, window = list(self.space.shown), self.space.window
        flat = (Y - (window.low + window.high) / 2)[:, shown] * self._scale
        return np.column_stack([flat, np.full(len(flat), LIFT)])


class Film:
    """Draws a recorded episode, one picture per control step.

    Attributes:
        rate: control steps per second.
        cap: the episode's method, not fitted; None for an episode without regions.
    """

    def __init__(self, drawing: Drawing, episode: Episode) -> None:
        self.drawing, self.episode = drawing, episode
        drawing.task.check_episode(episode)
        self.rate: float = drawing.task.rate
        self.cap = recorded_method(episode, drawing.task)
        key = drawing.film_key(self.cap is not None)
        self.frames = Frames(drawing.inches, key, drawing.columns, drawing.places, **drawing.layout)

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step, 0 to T: the state, and the region of the action taken there."""
        run = self.episode
        when = f"{self.drawing.name}, {run.info.get('method', '')}: step {step} of {run.steps}, {step / self.rate:.1f} s"
        heading = when if step < run.steps else f"{when}: {self.drawing.ends.get(run.outcome, run.outcome)}"
        return self.frames.draw(self.drawing.panels(self.moment(step), self), heading)

    def moment(self, step: int) -> Moment:
        """A step as far as the episode has it."""
        now, run = recorded_moment(self.episode, step), self.episode
        if step >= run.steps:
            return now
        inside = bool(run.inside[step]) if step < len(run.inside) else None
        region = None if self.cap is None else recorded_region(run, self.cap, step)
        plans = {} if now.particles is None else {"recorded": [PlanStep(now.particles, region)]}
        return replace(now, after=run.states[step + 1], inside=inside, plans=plans)

    @cached_property
    def half(self) -> float:
        """Half a side of the close-up, enough to show most regions whole."""
        regions = [self.moment(step).steps[0].region for step in range(len(self.episode.particles))]
        if not regions:
            return CLOSE * float(self.drawing.task.cell)
        shown, size = list(self.drawing.space.shown), self.drawing.window.size
        widths = [np.minimum(np.diff(region.finite_box(), axis=0)[0], size)[shown].max() for region in regions if region]
        return ROOM * float(np.quantile(widths, 0.9)) / 2
