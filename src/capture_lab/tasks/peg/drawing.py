"""Pictures of the peg: workspace, slices of the configuration space, contacts, starts, regions, paths, plans and films."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.region_draws import particles_of
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import TIMED_OUT, Episode, run_episode
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Dots, Line, Panel, Shape
from capture_cp.report.scene import mujoco_bodies
from capture_cp.report.solids import SIDE, outlines
from capture_cp.report.space import Space, Window
from capture_cp.report.style import GOAL, INFEASIBLE_COLOUR, STEP_MARKS, WALL_COLOUR, Mark, colour_of
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.drawing import FAILED, STRATA, SUCCESS, Drawing, Storyboard, reached, size_of, with_start, with_titles
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.geometry import shape_of, vertex
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import Task

#: Numbers of the colours of the regimes.
KINDS = (0, 1, 2, 4)
REGIME_COLOURS = {regime: colour_of(kind) for regime, kind in zip(REGIMES, KINDS)}
PEG_COLOUR, PARTICLE_COLOUR, GOAL_COLOUR, BLACK = "#E69F00", "#0072B2", "#009E73", "#000000"
ANGLES = (-30, -15, 0, 15, 30)  # degrees
OUTCOMES, STARTS = 100, 50
#: Angle (degrees) at which an outcome is near a slice; how one farther away is marked; size of the marks of many outcomes.
NEAR_SLICE = 1.0
ELSEWHERE = Mark(f"true outcome more than {NEAR_SLICE:g}° from the slice", "o", 2.5, "#FFFFFF", "#555555", "○")
TINY = (0.5, 1.0)
VIEW = 6e-3  # m around the visible part of a region
STEPS_SHOWN = (5, 10, 15)
WARM_UP = 8  # control steps before the plan is shown, so that it settles
UNITS = np.array([1e3, 1e3, 180 / np.pi])
MM = 1e3


class PegDrawing(Drawing):
    """Draws a peg and its hole; lengths on the axes are millimetres, angles degrees."""

    task: Peg

    # -- figures of studies -------------------------------------------------------------------------------------------

    def coverage_figures(
        self, study: Any, tasks: Mapping[str, Task], caps: Mapping[str, Mapping[str, Capture]], folder: Path
    ) -> list[Path]:
        """Spaces, contacts, starts, and regions of the calibrated methods on test transitions."""
        ((place, task),) = tasks.items()
        test = task.test(study.seed, study.test)
        log = task.as_transitions(test.X, test.outcomes(slice(0, len(test.X)), 1, 0)[:, 0])
        files = {kind: folder / f"peg-{kind}.png" for kind in ("spaces", "contacts", "starts")}
        files["regions"] = folder / f"peg-{self.task.system}-regions.png"
        self.draw_spaces(files["spaces"])
        self.draw_contacts(log.Y, files["contacts"])
        self.draw_starts(files["starts"])
        self.draw_landing_regions(caps[place], log, study.alpha, files["regions"])
        return list(files.values())

    def planning_figures(
        self, study: Any, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], folder: Path
    ) -> list[Path]:
        """Paths of all episodes, and particles along a plan of the last method."""
        paths, plans = (folder / f"{self.task.slug}-{kind}.png" for kind in ("paths", "horizon"))
        by_method = {name: runs for (_, name), runs in results.items()}
        name = study.methods[-1]
        self.draw_paths(by_method, paths)
        self.draw_horizon(study, name, np.array(by_method[name][0]["path"][0]), plans)
        return [paths, plans]

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """Starts, contacts or regimes, for a figure of them."""
        strata = self.task.strata
        if figure.endswith("-starts"):
            return {"poses": self.task.starts(STARTS).tolist(), "units": "m, m, rad"}
        if figure.endswith("-contacts"):
            return [{"stratum": name, "regime": regime} for name, regime in zip(strata.names, strata.regimes)]
        return {"regimes": list(REGIMES)} if figure.endswith("-spaces") else None

    def storyboard(self, episode: Episode) -> PegStoryboard:
        return PegStoryboard(self, episode)

    # -- the coverage study -------------------------------------------------------------------------------------------

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

    def workspace(self, low: Sequence[float], high: Sequence[float], pose: Floats | None = None, **contents: Any) -> Panel:
        """Table and receptacle from the front, between two corners in mm; with the peg, and its arm, at a pose (3,)."""
        self._system.reset(np.array([0.0, 0.03, 0.0]) if pose is None else pose)
        bodies = mujoco_bodies(self._system.model, self._system.data)
        fixed = [bodies.pop(name) for name in ("left", "right", "table")]
        shapes = [*outlines(fixed, SIDE), *(outlines(bodies.values(), SIDE, edge=BLACK) if pose is not None else ())]
        shapes = [shape._replace(points=shape.points * MM) for shape in shapes] + [*contents.pop("shapes", ())]
        names = {"across": "x (mm)", "up": "z (mm)"} | contents
        return Panel(np.array(low), np.array(high), shapes=tuple(shapes), **names)

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
            above.append(
                self.workspace(*ends, shapes=shapes, title=f"θ = {angle}°", up="workspace, z (mm)" * first, across="")
            )
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
            panels.append(self.workspace((-27, -25), (27, 58), shapes=shapes, lines=lines, marks=marks, **looks))
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
        panel = self.workspace((-46, -25), (46, 76), shapes=shapes, dots=dots, title=f"{n} feasible Halton starts")
        save(figure_of([[panel]], (6.0, 5.2), key=self.strata_key()), file)

    def draw_landing_regions(self, caps: Mapping[str, Capture], test: Transitions, alpha: float, file: Path) -> None:
        """Regions of every method for one landing of each regime, in the slice at the landing's angle."""
        task, space = self.task, self.space
        rows: list[list[Panel]] = []
        for regime, i in self._landings(test).items():
            after, _ = task.landings(np.tile(test.X[i], (OUTCOMES, 1)), np.random.default_rng(1), task.true_system(1))
            low, high = after.min(axis=0) - VIEW, after.max(axis=0) + VIEW
            window = with_start(space, space.squared(Window(low, high)), test.X[i, :3])
            near, panels = np.abs(after[:, 2] - test.Y[i, 2]) <= np.radians(NEAR_SLICE), []
            for cap in caps.values():
                region = cap.region(test.X[i], alpha, rng=0)
                contents: dict[str, Any] = {
                    "outcomes": space.flat(after[near]),
                    "inside": region.contains(after[near]),
                    "small": TINY,
                }
                contents |= {"start": space.flat(test.X[i, :3])[0], "particles": space.flat(particles_of(region.prediction))}
                contents |= {"marks": ((ELSEWHERE, space.flat(after[~near])),), "across": size_of(region), "ticks": False}
                panels.append(space.panel(test.Y[i], window, region, strong=0.85, **(contents | {"up": ""})))
            panels[0] = replace(panels[0], up=f"lands: {regime}, θ = {np.degrees(test.Y[i, 2]):.1f}°")
            rows.append(panels if rows else with_titles(panels, caps))
        key = [
            *self.strata_key(),
            ("region: infeasible", INFEASIBLE_COLOUR),
            ("infeasible", WALL_COLOUR),
            *STEP_MARKS,
            ELSEWHERE,
        ]
        title = f"Regions at {1 - alpha:.0%} in the slice at one landing's angle"
        save(figure_of(rows, (2.3 * len(caps), 2.5 * len(rows)), title, key, 6), file)

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

    def draw_paths(self, results: Mapping[str, Sequence[Any]], file: Path) -> None:
        """Paths of the centre of the peg's base in every episode, one panel per method."""
        half = shape_of(self.task.settings).half_length
        panels: list[Panel] = []
        for name, runs in results.items():
            lines, dots = [], []
            for run in runs:
                colour, dash = SUCCESS if run["outcome"] == "success" else FAILED
                x, z, theta = np.array(run["path"]).T
                base = np.stack([x + half * np.sin(theta), z - half * np.cos(theta)], axis=1) * MM
                lines.append(Line(base, colour, 0.8, dash, 0.7))
                dots.append(Dots(base[-1:], colour, 10, 1.0))
            look: dict[str, Any] = {"title": f"{name}\n{reached(runs)}", "lines": tuple(lines), "dots": tuple(dots)}
            names: dict[str, Any] = {"across": "x of the base (mm)", "up": "" if panels else "z of the base (mm)"}
            panels.append(self.workspace((-32, -26), (32, 32), **look, **names))
        none = np.empty((0, 2))
        key = [Line(none, SUCCESS[0], 1.5, name="inserted"), Line(none, FAILED[0], 1.5, "--", name=TIMED_OUT)]
        save(figure_of([panels], (2.6 * len(panels), 3.2), key=key, sharey=True), file)

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
            panels.append(self.workspace((-42, -26), (42, 72), shapes=shapes, **names))
        title = f"{name}: {study.particles} particles, h steps along the plan"
        key = [peg, *self.particles(now[None]), self.goal()]
        save(figure_of([panels], (3.4 * len(panels), 3.8), title, key, sharey=True), file)

    def particles(self, poses: Iterable[Floats]) -> list[Shape]:
        """Outlines of the peg at predicted poses (n, 3)."""
        return [self.peg(pose, edge=PARTICLE_COLOUR, name="particles", order=3) for pose in poses]

    def goal(self) -> Shape:
        """The outline of the peg at its goal."""
        return self.peg(self.task.strata.goal, edge=GOAL_COLOUR, dash="--", name="goal", order=3)


class PegStoryboard(Storyboard):
    """The workspace next to the configuration space, all in millimetres."""

    inches, places, layout, columns = (13.6, 5.6), "ABC", {"width_ratios": (0.8, 1, 1)}, 6
    ticks = True
    task: Peg

    @property
    def title(self) -> str:
        return f"Peg ({self.task.system}), {self.episode.info.get('method', '')}"

    def key(self) -> list[Any]:
        return [*super().key(), ("infeasible", WALL_COLOUR), GOAL]

    def workspace(self, step: int) -> list[Panel]:
        now, strata = self.episode.states[step], self.task.strata
        poses = self.episode.particles[step] if step < len(self.episode.particles) else ()
        touching = strata.names[strata.index(now[None])[0]]
        title = "workspace: " + ("free" if touching == "free" else f"touches {touching}")
        shapes = [*self.drawing.particles(poses), self.drawing.goal()]
        return [self.drawing.workspace((-36, -26), (36, 78), now, shapes=shapes, title=title)]


def particles_along(task: Task, start: Floats, plan: Floats, n_particles: int, seed: int) -> Floats:
    """The model's particles after each step of a plan (H, 3) from a pose (3,): (H, L, 3)."""
    rng, cloud, clouds = np.random.default_rng(seed), np.tile(start, (n_particles, 1)), []
    for action in plan:
        cloud = task(np.hstack([cloud, np.tile(action, (n_particles, 1))]), 1, rng)[:, 0]
        clouds.append(cloud)
    return np.array(clouds)
