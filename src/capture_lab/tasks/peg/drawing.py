"""The peg in pictures and on the live page: workspace, slices of its space, contacts, starts, regions, paths and plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import run_episode
from capture_cp.report.canvas import INFEASIBLE_LEGEND
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Dots, Line, Panel, Shape
from capture_cp.report.scene import Body, Handle, Scene, mujoco_bodies
from capture_cp.report.solids import SIDE, outlines
from capture_cp.report.space import Space, Window
from capture_cp.report.style import GOAL, INFEASIBLE_COLOUR, STEP_MARKS, WALL_COLOUR, Mark, colour_of
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.figures import STRATA, reached
from capture_lab.tasks.moment import Moment
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.geometry import shape_of, vertex
from capture_lab.tasks.peg.model import settle
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import Task

#: Numbers of the colours of the regimes.
KINDS = (0, 1, 2, 4)
REGIME_COLOURS = {regime: colour_of(kind) for regime, kind in zip(REGIMES, KINDS)}
PEG_COLOUR, PARTICLE_COLOUR, GOAL_COLOUR, BLACK = "#E69F00", "#0072B2", "#009E73", "#000000"
ANGLES = (-30, -15, 0, 15, 30)  # degrees
OUTCOMES, STARTS = 100, 50
#: Angle (degrees) at which an outcome is near a slice, and how one farther away is marked.
NEAR_SLICE = 1.0
ELSEWHERE = Mark(f"true outcome more than {NEAR_SLICE:g}° from the slice", "o", 2.5, "#FFFFFF", "#555555", "○")
VIEW = 6e-3  # m around the visible part of a region
STEPS_SHOWN = (5, 10, 15)
WARM_UP = 8  # control steps before the plan is shown, so that it settles
MM, DEGREE = 1e3, 180 / np.pi
UNITS = np.array([MM, MM, DEGREE])
#: The scene is drawn in decimetres, particles this far in front (m), the receptacle with an opacity that shows the peg.
UNIT, FRONT, CLEAR = 10.0, -0.055, 0.55
#: A pose just above the rim, leaning, and a push down and across: the peg may land on either side.
FIRST_POSE, FIRST_ACTION = (3.0e-3, 27.0e-3, 0.06), (-2.0, -2.0, -1.0)
#: Steps by which a pose in collision is lifted out (m).
LIFT = 2.5e-4
MOVE = "The commanded move; the true system adds noise and moves half as far again."


class PegDrawing(Drawing):
    """Draws a peg and its hole; lengths on the axes are millimetres, angles degrees."""

    task: Peg
    paths_title, failed = "Paths of the middle of the peg's base", "failed"
    inches, places, layout, columns, ticks = (13.6, 5.6), "ABC", {"width_ratios": (0.8, 1, 1)}, 6, True
    elsewhere, small = (ELSEWHERE, np.radians(NEAR_SLICE)), (0.5, 1.0)
    regions_along = False  # the paper's objective has a region for the first step only
    entries = (
        ("x (mm)", MM, "Or drag the peg."),
        ("z (mm)", MM, "Or drag the peg."),
        ("angle (°)", DEGREE, ""),
        *((label, 1.0, MOVE) for label in ("move x (mm)", "move z (mm)", "turn (°)")),
    )
    _log: Transitions

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        if self.task.system == "arm":
            self.camera = np.array([3.5, -10.0, 4.0]), np.array([-2.5, 0.0, 1.0])
        else:
            self.camera = np.array([0.25, -1.7, 0.75]), np.array([0.0, 0.0, 0.12])

    # -- figures of studies -------------------------------------------------------------------------------------------

    def coverage_figures(
        self, study: Any, tasks: Mapping[str, Task], caps: Mapping[str, Mapping[str, Capture]], folder: Path
    ) -> list[Path]:
        """Spaces, contacts, starts, and regions of the calibrated methods on test transitions."""
        ((place, task),) = tasks.items()
        test = task.test(study.seed, study.test)
        self._log = task.as_transitions(test.X, test.outcomes(slice(0, len(test.X)), 1, 0)[:, 0])
        files = {kind: folder / f"peg-{kind}.png" for kind in ("spaces", "contacts", "starts")}
        files["regions"] = folder / f"peg-{self.task.system}-regions.png"
        self.draw_spaces(files["spaces"])
        self.draw_contacts(self._log.Y, files["contacts"])
        self.draw_starts(files["starts"])
        self.draw_regions(caps[place], study.alpha, files["regions"])
        return list(files.values())

    def planning_figures(
        self, study: Any, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], folder: Path
    ) -> list[Path]:
        """Paths of all episodes, and particles along a plan of the last method."""
        paths, plans = (folder / f"{self.task.slug}-{kind}.png" for kind in ("paths", "horizon"))
        self.draw_trajectories(tasks, results, paths)
        name, (first, *_) = list(results.items())[-1]
        self.draw_horizon(study, name[1], np.array(first["path"][0]), plans)
        return [paths, plans]

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """Starts, contacts or regimes, for a figure of them."""
        strata = self.task.strata
        if figure.endswith("-starts"):
            return {"poses": self.task.starts(STARTS).tolist(), "units": "m, m, rad"}
        if figure.endswith("-contacts"):
            return [{"stratum": name, "regime": regime} for name, regime in zip(strata.names, strata.regimes)]
        return {"regimes": list(REGIMES)} if figure.endswith("-spaces") else None

    # -- both spaces --------------------------------------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        names = "x of the centre (mm)", "z of the centre (mm)", "θ (°)"
        kinds = [KINDS[regime] for regime in self.task.stratum_regimes]
        goal = ((GOAL, self.task.strata.goal[:2] * MM),)
        return Space(self.task.strata, self.window, names, (0, 1), UNITS, kinds, marks=goal)

    def strata_key(self) -> list[Any]:
        return list(REGIME_COLOURS.items())

    @cached_property
    def _system(self) -> Any:
        return self.task.true_system(threads=1)

    def front(self, low: Sequence[float], high: Sequence[float], pose: Floats | None = None, **contents: Any) -> Panel:
        """Table and receptacle from the front, between two corners in mm; with the peg, and its arm, at a pose (3,)."""
        bodies = self.bodies(np.array([0.0, 0.03, 0.0]) if pose is None else pose)
        fixed = [bodies.pop(name) for name in ("left", "right", "table")]
        shapes = [*outlines(fixed, SIDE), *(outlines(bodies.values(), SIDE, edge=BLACK) if pose is not None else ())]
        shapes = [shape._replace(points=shape.points * MM) for shape in shapes] + [*contents.pop("shapes", ())]
        names = {"across": "x (mm)", "up": "z (mm)"} | contents
        return Panel(np.array(low), np.array(high), shapes=tuple(shapes), **names)

    def bodies(self, pose: Floats) -> dict[str, Body]:
        """MuJoCo's bodies with the peg at a pose (3,), by name."""
        self._system.reset(pose)
        return mujoco_bodies(self._system.model, self._system.data)

    def peg(self, pose: Floats, **look: Any) -> Shape:
        """The outline of the peg at a pose (3,)."""
        g = shape_of(self.task.settings)
        corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [g.half_width, g.half_length]
        c, s = np.cos(pose[2]), np.sin(pose[2])
        return Shape((corners @ np.array([[c, s], [-s, c]]) + pose[:2]) * MM, **look)

    # -- the coverage study -------------------------------------------------------------------------------------------

    def draw_spaces(self, file: Path) -> None:
        """The peg as low as possible over the hole at several angles, and the slice of the configuration space for each."""
        above, below = [], []
        for angle in ANGLES:
            lowest, first = self._lowest(angle), angle == ANGLES[0]
            ends, shapes = ((-30, -26), (30, 54)), (self.peg(lowest, fill=PEG_COLOUR, edge=BLACK, order=2),)
            above.append(self.front(*ends, shapes=shapes, title=f"θ = {angle}°", up="workspace, z (mm)" * first, across=""))
            marks = ((GOAL, self.space.marks[0][1]),) if angle == 0 else ()
            dot = (Dots(lowest[None, :2] * MM, BLACK, 20, 1.0, "pose drawn above"),)
            up = "slice, z of the middle (mm)" * first
            below.append(self.space.panel(lowest, pale=STRATA, marks=marks, dots=dot, up=up))
        key = [*self.strata_key(), dot[0], ("infeasible", WALL_COLOUR), GOAL]
        save(figure_of([above, below], (2.5 * len(ANGLES), 5.6), key=key, columns=7, sharey="row"), file)

    def draw_contacts(self, landings: Floats, file: Path) -> None:
        """One landing (of n, 3) per stratum, with its fingerprint and its regime."""
        strata, panels = self.task.strata, []
        labels = strata.index(landings)
        for m in [m for m in range(len(strata.names)) if (labels == m).any()]:
            here = landings[labels == m]
            pose = here[np.argmin(np.hypot(here[:, 0], here[:, 2] / 4))]  # near the hole, where there is most to see
            lines, marks = self._contacts(pose, np.asarray(strata.features)[m] > 0, REGIME_COLOURS[strata.regimes[m]])
            title = f"{strata.regimes[m]}\n{strata.names[m]}"
            shapes = (self.peg(pose, fill="#f3ead9", edge=BLACK),)
            looks: dict[str, Any] = {"title": title, "ticks": False, "bare": True, "across": "", "up": ""}
            panels.append(self.front((-27, -25), (27, 58), shapes=shapes, lines=lines, marks=marks, **looks))
        columns = min(len(panels), 6)
        rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
        save(figure_of(rows, (2.1 * columns, 3.0 * len(rows)), key=self.strata_key()), file)

    def _contacts(self, pose: Floats, touching: Any, colour: str) -> tuple[tuple[Line, ...], tuple[Any, ...]]:
        """Thick edges and marks for contacts: `touching` (8,) is v1 to v4, e1 to e4."""
        x, z, theta = pose
        g = shape_of(self.task.settings)
        corners = np.array([vertex(i, x, z, np.cos(theta), np.sin(theta), g) for i in range(4)]) * MM
        edges = (Line(corners[[i, (i + 1) % 4]], colour, 2.5) for i in range(4) if touching[4 + i])
        touched = Mark("corner in contact", "o", 6.0, colour, BLACK, "●")
        return tuple(edges), ((touched, corners[touching[:4]]),)

    def draw_starts(self, file: Path, n: int = STARTS) -> None:
        """The starts of the planning study: the first feasible poses of a Halton sequence."""
        strata, poses = self.task.strata, self.task.starts(n)
        colours = [REGIME_COLOURS[strata.regimes[m]] for m in strata.index(poses)]
        shapes = [self.peg(pose, fill=c, edge=c, opacity=0.08, width=0.9) for pose, c in zip(poses, colours)]
        dots = tuple(Dots(pose[None, :2] * MM, c, 16, 1.0) for pose, c in zip(poses, colours))
        panel = self.front((-46, -25), (46, 76), shapes=shapes, dots=dots, title=f"{n} feasible Halton starts")
        save(figure_of([[panel]], (6.0, 5.2), key=self.strata_key()), file)

    def region_key(self) -> list[Any]:
        infeasible = ("region: infeasible", INFEASIBLE_COLOUR), ("infeasible", WALL_COLOUR)
        return [*self.strata_key(), *infeasible, *STEP_MARKS, ELSEWHERE]

    def situations(self) -> dict[str, Floats]:
        """One landing of each regime, among the test transitions."""
        rows = self._landings(self._log)
        return {f"lands: {regime}, θ = {DEGREE * self._log.Y[i, 2]:.1f}°": self._log.X[i] for regime, i in rows.items()}

    def landed(self, x: Floats) -> tuple[Floats, Floats]:
        """True outcomes of an input, and the logged one, at whose angle the slice lies."""
        after, _ = self.task.landings(np.tile(x, (OUTCOMES, 1)), np.random.default_rng(1), self.task.true_system(1))
        return after, self._log.Y[np.flatnonzero((x == self._log.X).all(axis=1))[0]]

    def region_window(self, after: Floats, regions: Any) -> Window:
        return self.space.squared(Window(after.min(axis=0) - VIEW, after.max(axis=0) + VIEW))

    def _landings(self, test: Transitions) -> dict[str, int]:
        """One test transition for each regime: the landing nearest to the hole's opening after a large move."""
        regimes = np.array(self.task.strata.regimes)[self.task.strata.index(test.Y)]
        mouth = np.array([0.0, shape_of(self.task.settings).half_length])
        away = np.hypot(*(test.Y[:, :2] - mouth).T)
        away[np.linalg.norm(test.action, axis=1) < self.task.settings.bound] = np.inf
        nearest = {name: int(np.argmin(np.where(regimes == name, away, np.inf))) for name in REGIMES}
        return {name: row for name, row in nearest.items() if (regimes == name).any()}

    def _lowest(self, degrees: float) -> Floats:
        """The lowest feasible pose (3,) over the centre of the hole, free all the way up, at an angle."""
        heights = np.arange(0.05, -0.01, -1e-4)
        poses = np.stack([np.zeros_like(heights), heights, np.full_like(heights, np.radians(degrees))], axis=1)
        blocked = np.flatnonzero(self.task.strata.index(poses) == INFEASIBLE)
        return np.asarray(poses[(blocked[0] if len(blocked) else len(poses)) - 1])

    # -- the planning study -------------------------------------------------------------------------------------------

    def path_panels(self, runs: Sequence[Any]) -> list[Panel]:
        """Paths of the middle of the peg's base, seen from the front."""
        half = shape_of(self.task.settings).half_length
        lines = []
        for run in runs:
            x, z, theta = np.array(run["path"]).T
            lines.append(self._path(run, np.stack([x + half * np.sin(theta), z - half * np.cos(theta)], axis=1) * MM))
        dots = tuple(Dots(line.points[-1:], line.colour, 10, 1.0) for line in lines)
        look: dict[str, Any] = {"across": f"x (mm)\n{reached(runs)}", "up": ", z (mm)"}
        return [self.front((-32, -26), (32, 32), lines=tuple(lines), dots=dots, **look)]

    def draw_horizon(self, study: Any, name: str, start: Floats, file: Path) -> None:
        """The peg a few steps into an episode of a row, and the model's particles along the plan made there."""
        shown = [h for h in STEPS_SHOWN if h <= study.horizon] or [study.horizon]
        fitted = study.fit(self.task, name)
        planner = fitted.planner(study.alpha, study.seed, study.device)
        run = run_episode(planner, self.task.closed_loop(start), start, WARM_UP, study.seed)
        now, plan = run.states[-2], run.plans[-1]
        clouds = particles_along(fitted.task, now, plan, study.particles, study.seed)
        peg = self.peg(now, fill=PEG_COLOUR, edge=BLACK, opacity=0.9, name="peg now")
        panels: list[Panel] = []
        for h in shown:
            shapes = [peg, *self.particles(clouds[h - 1]), self.goal()]
            names: dict[str, Any] = {"title": f"h = {h}", "up": "" if panels else "z (mm)"}
            panels.append(self.front((-42, -26), (42, 72), shapes=shapes, **names))
        title = f"{name}: {study.particles} particles, h steps along the plan"
        key = [peg, *self.particles(now[None]), self.goal()]
        save(figure_of([panels], (3.4 * len(panels), 3.8), title, key, sharey=True), file)

    def particles(self, poses: Iterable[Floats]) -> list[Shape]:
        """Outlines of the peg at predicted poses (n, 3)."""
        return [self.peg(pose, edge=PARTICLE_COLOUR, name="particles", order=3) for pose in poses]

    def goal(self) -> Shape:
        """The outline of the peg at its goal."""
        return self.peg(self.task.strata.goal, edge=GOAL_COLOUR, dash="--", name="goal", order=3)

    # -- films and the page -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"Peg ({self.task.system})"

    def film_key(self, regions: bool) -> list[Any]:
        return [*super().film_key(regions), ("infeasible", WALL_COLOUR), GOAL]

    def workspace(self, now: Moment) -> list[Panel]:
        """The peg from the front, with its particles, its goal and what it touches."""
        strata, poses = self.task.strata, [pose for step in now.steps[:1] for pose in step.cloud]
        touching = strata.names[strata.index(now.state[None])[0]]
        title = "workspace: " + ("free" if touching == "free" else f"touches {touching}")
        return [self.front((-36, -26), (36, 78), now.state, shapes=[*self.particles(poses), self.goal()], title=title)]

    def first_look(self) -> tuple[Floats, Floats]:
        return self.placed(np.array(FIRST_POSE)), np.array(FIRST_ACTION)

    def placed(self, state: Floats) -> Floats:
        """Within the grid, and lifted out of the receptacle."""
        grid = self.task.strata.require_grid()
        high = grid.origin + grid.spacing * (np.array(grid.shape) - 1)
        pose = np.clip(state, grid.origin, high)
        while self.task.strata.index(pose[None])[0] == INFEASIBLE and pose[1] < high[1]:
            pose[1] += LIFT
        return pose

    def dragged(self, state: Floats, place: Floats) -> Floats:
        return np.array([place[0], place[2], state[2]])

    def believed(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return settle(self.task.model_step(states, actions, rng), self.task.settings)

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        return (*REGIME_COLOURS.items(), *INFEASIBLE_LEGEND, ("goal", GOAL_COLOUR))

    def reading(self, now: Moment) -> str:
        (x, z, theta), strata = now.state * UNITS, self.task.strata
        m = int(strata.index(now.state[None])[0])
        contact, regime = ("infeasible",) * 2 if m == INFEASIBLE else (strata.names[m], strata.regimes[m])
        return f"peg at ({x:.2f}, {z:.2f}) mm, {theta:.1f}°; contact: **{contact}** ({regime})"

    def scene(self, now: Moment) -> Scene:
        """The receptacle, the peg and, if it has one, its arm."""
        pose, half, bodies = now.state, self.task.settings.peg_length / 2, self.bodies(now.state)
        bodies |= {side: replace(bodies[side], opacity=CLEAR) for side in ("left", "right")}

        def bases(poses: Floats) -> Floats:
            """The middle of the peg's lower end in poses (n, 3), in front of the receptacle."""
            x, z = poses[:, 0] + half * np.sin(poses[:, 2]), poses[:, 1] - half * np.cos(poses[:, 2])
            return np.column_stack([x, np.full(len(x), FRONT), z])

        handle = Handle(np.array([pose[0], 0.0, pose[1]]), (True, False, True))
        return Scene(bodies, now.points(8e-4, bases), handle=handle, scale=UNIT)


def particles_along(task: Task, start: Floats, plan: Floats, n_particles: int, seed: int) -> Floats:
    """The model's particles after each step of a plan (H, 3) from a pose (3,): (H, L, 3)."""
    rng, cloud, clouds = np.random.default_rng(seed), np.tile(start, (n_particles, 1)), []
    for action in plan:
        cloud = task(np.hstack([cloud, np.tile(action, (n_particles, 1))]), 1, rng)[:, 0]
        clouds.append(cloud)
    return np.array(clouds)
