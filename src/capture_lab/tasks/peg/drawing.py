"""Figures of the peg: workspace, slices of the configuration space, contacts, starts, regions, paths and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import TIMED_OUT, Episode, run_episode
from capture_cp.spaces.marks import GOAL, PARTICLES, Mark, mark, mark_handles, mark_outcomes
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, pyplot
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.drawing import (
    PATH_STYLES,
    REGION_MARKS,
    Drawing,
    draw_start,
    method_panels,
    predicted,
    square,
    with_start,
)
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.geometry import shape_of, vertex
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.slices import WALL_COLOUR, Layer, Slices
from capture_lab.tasks.task import Task

if TYPE_CHECKING:
    from capture_lab.tasks.peg.film import PegStoryboard

#: Okabe and Ito's colours, which colour-blind readers can distinguish.
REGIME_COLOURS = dict(zip(REGIMES, ("#0072B2", "#E69F00", "#D55E00", "#CC79A7")))
PEG_COLOUR, BLOCK_COLOUR, PARTICLE_COLOUR, GOAL_COLOUR = "#E69F00", "#9aa3ad", "#0072B2", "#009E73"
STYLES = {"success": PATH_STYLES["success"], TIMED_OUT: PATH_STYLES["fell"]}
ANGLES = (-30, -15, 0, 15, 30)  # degrees
OUTCOMES, STARTS = 100, 50
NEAR_SLICE = 1.0  # degrees
TINY = 0.5  # size of the marks of many outcomes
#: Opacity of the strata behind a region, and of its cells.
FEASIBLE_SHADE, REGION_SHADE = 0.15, 0.85
VIEW = 6.0  # mm around the visible part of a region
STEPS_SHOWN = (5, 10, 15)
WARM_UP = 8  # control steps before the plan is shown, so that it settles
MM = 1e3


class PegDrawing(Drawing):
    """Draws a peg and its hole; lengths on the axes are millimetres."""

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
        from capture_lab.tasks.peg.film import PegStoryboard

        return PegStoryboard(self, episode)

    # -- the coverage study -------------------------------------------------------------------------------------------

    @property
    def slices(self) -> Slices:
        return Slices(self.task, [REGIME_COLOURS[regime] for regime in self.task.strata.regimes], MM)

    def draw_spaces(self, file: Path) -> None:
        """The peg as low as possible over the hole at several angles, and the slice of the configuration space for each."""
        plt, slices = pyplot(), self.slices
        figure, panels = plt.subplots(2, len(ANGLES), figsize=(2.5 * len(ANGLES), 5.6), layout="constrained", sharey="row")
        for (above, below), angle in zip(panels.T, ANGLES):
            lowest = self._lowest(angle)
            self.draw_workspace(above)
            self.draw_peg(above, lowest, facecolor="#E69F00", edgecolor="black")
            above.set(title=f"θ = {angle}°", xlim=(-30, 30), ylim=(-26, 54), xticks=[])
            slices.draw(below, slices.layer(lowest), 0.8)
            below.plot(*(lowest[:2] * MM), ".", color="black")
            below.set(xlabel="x of the centre (mm)")
        self.draw_marks(panels[1][ANGLES.index(0)])
        panels[0][0].set_ylabel("workspace, z (mm)")
        panels[1][0].set_ylabel("slice, z of the middle (mm)")
        _regime_legend(figure, [(".", "black", "pose drawn above"), ("s", WALL_COLOUR, "infeasible")], [GOAL])
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_contacts(self, landings: Floats, file: Path) -> None:
        """One landing (of n, 3) per stratum, with its fingerprint and its regime."""
        plt, strata = pyplot(), self.task.strata
        labels = strata.index(landings)
        found = [m for m in range(len(strata.names)) if (labels == m).any()]
        columns = min(len(found), 6)
        rows = -(-len(found) // columns)
        figure, panels = plt.subplots(
            rows, columns, figsize=(2.1 * columns, 3.0 * rows), squeeze=False, layout="constrained", sharex=True, sharey=True
        )
        for axis in panels.ravel():
            axis.set_axis_off()
        for axis, m in zip(panels.ravel(), found):
            here = landings[labels == m]
            pose = here[np.argmin(np.hypot(here[:, 0], here[:, 2] / 4))]  # near the hole, where there is most to see
            regime = strata.regimes[m]
            self.draw_workspace(axis)
            self.draw_peg(axis, pose, facecolor="#f3ead9", edgecolor="black", linewidth=0.8)
            self._mark_contacts(axis, pose, np.asarray(strata.features)[m] > 0, REGIME_COLOURS[regime])
            axis.set(xlim=(-27, 27), ylim=(-25, 58))
            axis.set_title(f"{regime}\n{strata.names[m]}", fontsize=9)
        _regime_legend(figure, [], [])
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_starts(self, file: Path, n: int = STARTS) -> None:
        """The starts of the planning study: the first feasible poses of a Halton sequence."""
        from matplotlib.colors import to_rgba

        plt, strata = pyplot(), self.task.strata
        poses = self.task.starts(n)
        figure, axis = plt.subplots(figsize=(6.0, 5.2), layout="constrained")
        self.draw_workspace(axis)
        for pose, m in zip(poses, strata.index(poses)):
            colour = REGIME_COLOURS[strata.regimes[m]]
            self.draw_peg(axis, pose, facecolor=to_rgba(colour, 0.08), edgecolor=colour, linewidth=0.9)
            axis.plot(*(pose[:2] * MM), ".", color=colour, markersize=4)
        axis.set(xlim=(-46, 46), ylim=(-25, 76), xlabel="x (mm)", ylabel="z (mm)", title=f"{n} feasible Halton starts")
        _regime_legend(figure, [], [])
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_landing_regions(self, caps: Mapping[str, Capture], test: Transitions, alpha: float, file: Path) -> None:
        """Regions of every method for one landing of each regime, in the slice at the landing's angle."""
        task, slices, rows = self.task, self.slices, self._landings(test)
        figure, panels = method_panels(list(caps), len(rows))
        for line, (regime, i) in zip(panels, rows.items()):
            after, _ = task.landings(np.tile(test.X[i], (OUTCOMES, 1)), np.random.default_rng(1), task.true_system(1))
            layer = slices.layer(test.Y[i])
            window = square(after[:, :2].min(axis=0) * MM - VIEW, after[:, :2].max(axis=0) * MM + VIEW)
            xlim, ylim = window = with_start(window, test.X[i, :2] * MM)
            for axis, cap in zip(line, caps.values()):
                region = cap.region(test.X[i], alpha, rng=0)
                slices.draw(axis, layer, FEASIBLE_SHADE)
                slices.draw_region(axis, region, layer, REGION_SHADE, REGION_SHADE)
                start, particles = test.X[i, :2] * MM, predicted(region)[:, :2] * MM
                mark(axis, PARTICLES, particles, zorder=4)
                draw_start(axis, start, particles, window)
                self._show_outcomes(axis, after, layer, region)
                axis.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
                axis.set_xlabel(f"{len(region.cells()):,} cells", fontsize=8)
            line[0].set_ylabel(f"lands: {regime}, θ = {np.degrees(test.Y[i, 2]):.1f}°", fontsize=8)
        figure.suptitle(f"Regions at {1 - alpha:.0%}: their cells in the slice at one landing's angle")
        marks = [
            ("s", INFEASIBLE_COLOUR, "region: infeasible"),
            ("s", WALL_COLOUR, "infeasible"),
            (".", "white", f"true outcome more than {NEAR_SLICE:g}° from the slice"),
        ]
        _regime_legend(figure, marks, REGION_MARKS)
        figure.savefig(file, dpi=130)
        pyplot().close(figure)

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

    def _mark_contacts(self, axis: Any, pose: Floats, touching: Any, colour: str) -> None:
        """Thick edges and dots for contacts: `touching` (8,) is v1 to v4, e1 to e4."""
        x, z, theta = pose
        g = shape_of(self.task.settings)
        corners = np.array([vertex(i, x, z, np.cos(theta), np.sin(theta), g) for i in range(4)]) * MM
        for i in range(4):
            if touching[4 + i]:
                axis.plot(*corners[[i, (i + 1) % 4]].T, color=colour, lw=2.5, solid_capstyle="butt")
            if touching[i]:
                axis.plot(*corners[i], "o", color=colour, markeredgecolor="black", markersize=6, zorder=4)

    def _show_outcomes(self, axis: Any, after: Floats, layer: Layer, region: Region) -> None:
        """True outcomes (n, 3): the usual marks near the slice, faint dots at other angles, whose walls are elsewhere."""
        grid = self.task.strata.require_grid()
        near = np.abs(after[:, 2] - grid.origin[2] - layer[0] * grid.spacing[2]) <= np.radians(NEAR_SLICE)
        x, z = after[:, :2].T * MM
        faint = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 0.3, "markersize": 4, "alpha": 0.7}
        axis.plot(x[~near], z[~near], ".", **faint)
        mark_outcomes(axis, after[near, :2] * MM, region.contains(after[near]), TINY)

    # -- the planning study -------------------------------------------------------------------------------------------

    def draw_paths(self, results: Mapping[str, Sequence[Any]], file: Path) -> None:
        """Paths of the centre of the peg's base in every episode, one panel per method."""
        plt, half = pyplot(), shape_of(self.task.settings).half_length
        figure, panels = _row_of_panels(len(results), 2.6, 3.2)
        for axis, (name, runs) in zip(panels, results.items()):
            self.draw_workspace(axis)
            for run in runs:
                colour, dash = STYLES[run["outcome"]]
                x, z, theta = np.array(run["path"]).T
                base = np.stack([x + half * np.sin(theta), z - half * np.cos(theta)], axis=1) * MM
                axis.plot(*base.T, color=colour, ls=dash, lw=0.8, alpha=0.7)
                axis.plot(*base[-1], ".", color=colour, markersize=4)
            inserted = sum(run["outcome"] == "success" for run in runs)
            title = f"{name}: {inserted} of {len(runs)}"
            axis.set(title=title, xlabel="x of the base (mm)", xlim=(-32, 32), ylim=(-26, 32))
        panels[0].set_ylabel("z of the base (mm)")
        for outcome, (colour, dash) in STYLES.items():
            panels[0].plot([], [], color=colour, ls=dash, label="inserted" if outcome == "success" else outcome)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
        figure.savefig(file, dpi=130)
        plt.close(figure)

    def draw_horizon(self, study: Any, name: str, start: Floats, file: Path) -> None:
        """The peg a few steps into an episode of a row, and the model's particles along the plan made there."""
        shown = [h for h in STEPS_SHOWN if h <= study.horizon] or [study.horizon]
        fitted = study.fit(self.task, name)
        planner = fitted.planner(study.alpha, study.seed, study.device)
        run = run_episode(planner, self.task.closed_loop(start), start, WARM_UP, study.seed)
        now, plan = run.states[-2], run.plans[-1]
        clouds = particles_along(fitted.task, now, plan, study.particles, study.seed)
        figure, panels = _row_of_panels(len(shown), 3.4, 3.8)
        for axis, h in zip(panels, shown):
            self.draw_workspace(axis)
            self.draw_peg(axis, now, facecolor=PEG_COLOUR, edgecolor="black", alpha=0.9)
            for pose in clouds[h - 1]:
                self.draw_peg(axis, pose, facecolor="none", edgecolor=PARTICLE_COLOUR)
            self.draw_peg(axis, self.task.strata.goal, facecolor="none", edgecolor=GOAL_COLOUR, linestyle="--")
            axis.set(title=f"h = {h}", xlabel="x (mm)", xlim=(-42, 42), ylim=(-26, 72))
        panels[0].set_ylabel("z (mm)")
        figure.suptitle(f"{name}: {study.particles} particles, h steps along the plan")
        looks = {"peg now": (PEG_COLOUR, "black", "-"), "particles": ("none", PARTICLE_COLOUR, "-")}
        looks["goal"] = "none", GOAL_COLOUR, "--"
        handles = [pyplot().Rectangle((0, 0), 1, 1, fc=fc, ec=ec, ls=ls, label=text) for text, (fc, ec, ls) in looks.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        figure.savefig(file, dpi=130)
        pyplot().close(figure)

    # -- shapes of both spaces ----------------------------------------------------------------------------------------

    def draw_workspace(self, axis: Any) -> None:
        """Table and receptacle, cut through the hole."""
        plt, g = pyplot(), shape_of(self.task.settings)
        outer, depth, hole = min(g.block, 0.1) * MM, g.depth * MM, g.hole * MM
        for left in (-outer, hole):
            axis.add_patch(plt.Rectangle((left, -depth), outer - hole, depth, color=BLOCK_COLOUR, zorder=0))
        axis.add_patch(plt.Rectangle((-100, -depth - 20), 200, 20, color="#6b5a45", zorder=0))
        axis.set_aspect("equal")

    def draw_peg(self, axis: Any, pose: Floats, **style: Any) -> None:
        """The outline of the peg at a pose (3,)."""
        plt, g = pyplot(), shape_of(self.task.settings)
        corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [g.half_width, g.half_length]
        c, s = np.cos(pose[2]), np.sin(pose[2])
        axis.add_patch(plt.Polygon((corners @ np.array([[c, s], [-s, c]]) + pose[:2]) * MM, **style))

    def draw_marks(self, axis: Any) -> None:
        """The goal."""
        mark(axis, GOAL, self.task.strata.goal[:2] * MM, zorder=6)


def particles_along(task: Task, start: Floats, plan: Floats, n_particles: int, seed: int) -> Floats:
    """The model's particles after each step of a plan (H, 3) from a pose (3,): (H, L, 3)."""
    rng, cloud, clouds = np.random.default_rng(seed), np.tile(start, (n_particles, 1)), []
    for action in plan:
        cloud = task(np.hstack([cloud, np.tile(action, (n_particles, 1))]), 1, rng)[:, 0]
        clouds.append(cloud)
    return np.array(clouds)


def _row_of_panels(n: int, width: float, height: float) -> tuple[Any, Any]:
    shape = {"figsize": (width * n, height), "squeeze": False, "layout": "constrained", "sharex": True, "sharey": True}
    figure, panels = pyplot().subplots(1, n, **shape)
    return figure, panels[0]


def _regime_legend(figure: Any, others: list[tuple[str, str, str]], looks: Sequence[Mark]) -> None:
    marks = [("s", colour, regime) for regime, colour in REGIME_COLOURS.items()] + others
    axis = figure.axes[0]
    style = {"edgecolors": "black", "linewidths": 0.3}
    handles = [axis.scatter([], [], marker=shape, color=colour, label=name, **style) for shape, colour, name in marks]
    handles += mark_handles(looks)
    columns = len(handles) if len(handles) < 8 else -(-len(handles) // 2)
    figure.legend(handles=handles, fontsize=8, loc="outside lower center", ncols=columns, frameon=False)
