"""Figures of the peg's planning: particles along the horizon of a plan, and the paths of all episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.capture.plotting import pyplot
from capture_cp.planning.episode import run_episode
from capture_cp.tasks.peg.geometry import shape_of
from capture_cp.tasks.peg.planner import closed_loop
from capture_cp.tasks.peg.task import Peg

if TYPE_CHECKING:
    from capture_cp.studies.peg_planning import PegPlanningStudy

STEPS_SHOWN = (5, 10, 15)
WARM_UP = 8  # control steps over which the plan settles, before it is shown
PEG_COLOUR, BLOCK_COLOUR, PARTICLE_COLOUR, GOAL_COLOUR = "#E69F00", "#9aa3ad", "#0072B2", "#009E73"
STYLES = {"success": ("#0072B2", "-"), "timed out": ("#D55E00", "--")}
_MM = 1e3


def write_figures(task: Peg, results: dict[str, list[Any]], study: PegPlanningStudy, folder: Path) -> list[Path]:
    """Both figures as PNG files; the plans are those of the last method."""
    name = study.methods[-1]
    paths, plans = folder / f"peg-{task.system}-paths.png", folder / f"peg-{task.system}-horizon.png"
    draw_paths(task, results, paths)
    draw_horizon(task, study, name, np.array(results[name][0]["path"][0]), plans)
    return [paths, plans]


def draw_paths(task: Peg, results: dict[str, list[Any]], file: Path) -> None:
    """Paths of the middle of the peg's base in every episode, a panel a method."""
    plt = pyplot()
    figure, panels = plt.subplots(
        1, len(results), figsize=(2.6 * len(results), 3.2), squeeze=False, layout="constrained", sharex=True, sharey=True
    )
    for axis, (name, runs) in zip(panels[0], results.items()):
        draw_receptacle(task, axis)
        for run in runs:
            colour, dash = STYLES[run["outcome"]]
            base = _base(task, np.array(run["path"]))
            axis.plot(*base.T, color=colour, ls=dash, lw=0.8, alpha=0.7)
            axis.plot(*base[-1], ".", color=colour, markersize=4)
        inserted = sum(run["outcome"] == "success" for run in runs)
        axis.set(title=f"{name}: {inserted} of {len(runs)}", xlabel="x of the base (mm)", xlim=(-32, 32), ylim=(-26, 32))
    panels[0][0].set_ylabel("z of the base (mm)")
    for outcome, (colour, dash) in STYLES.items():
        panels[0][0].plot([], [], color=colour, ls=dash, label="inserted" if outcome == "success" else outcome)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_horizon(task: Peg, study: PegPlanningStudy, name: str, start: Floats, file: Path) -> None:
    """The peg a few steps into an episode, and the model's particles along the plan made there."""
    plt = pyplot()
    shown = [h for h in STEPS_SHOWN if h <= study.horizon] or [study.horizon]
    cap, planned = study.calibrated(task, name)
    planner = study.planner(cap, planned, name, study.seed)
    run = run_episode(planner, closed_loop(task, task.true_system(1), start), start, WARM_UP, study.seed)
    now, plan = run.states[-2], run.plans[-1]
    clouds = particles_along(planned, now, plan, study.particles, study.seed)
    figure, panels = plt.subplots(
        1, len(shown), figsize=(3.4 * len(shown), 3.8), squeeze=False, layout="constrained", sharex=True, sharey=True
    )
    for axis, h in zip(panels[0], shown):
        draw_receptacle(task, axis)
        draw_peg(task, axis, now, facecolor=PEG_COLOUR, edgecolor="black", alpha=0.9)
        for pose in clouds[h - 1]:
            draw_peg(task, axis, pose, facecolor="none", edgecolor=PARTICLE_COLOUR)
        draw_peg(task, axis, task.strata.goal, facecolor="none", edgecolor=GOAL_COLOUR, linestyle="--")
        axis.set(title=f"h = {h}", xlabel="x (mm)", xlim=(-42, 42), ylim=(-26, 72))
    panels[0][0].set_ylabel("z (mm)")
    figure.suptitle(f"{name}: the peg now (filled), its {study.particles} particles along the plan, the goal (dashed)")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def particles_along(task: Peg, start: Floats, plan: Floats, n_particles: int, seed: int) -> Floats:
    """The model's particles after each step of a plan (H, 3) from a pose (3,): (H, L, 3)."""
    rng, cloud, clouds = np.random.default_rng(seed), np.tile(start, (n_particles, 1)), []
    for action in plan:
        cloud = task(np.hstack([cloud, np.tile(action, (n_particles, 1))]), 1, rng)[:, 0]
        clouds.append(cloud)
    return np.array(clouds)


def draw_receptacle(task: Peg, axis: Any) -> None:
    """Table and receptacle, cut through the hole, in millimetres."""
    plt, g = pyplot(), shape_of(task.settings)
    outer, depth, hole = min(g.block, 0.1) * _MM, g.depth * _MM, g.hole * _MM
    for left in (-outer, hole):
        axis.add_patch(plt.Rectangle((left, -depth), outer - hole, depth, color=BLOCK_COLOUR, zorder=0))
    axis.add_patch(plt.Rectangle((-100, -depth - 20), 200, 20, color="#6b5a45", zorder=0))
    axis.set_aspect("equal")


def draw_peg(task: Peg, axis: Any, pose: Floats, **style: Any) -> None:
    """The outline of the peg at a pose (3,), in millimetres."""
    plt, g = pyplot(), shape_of(task.settings)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [g.half_width, g.half_length]
    c, s = np.cos(pose[2]), np.sin(pose[2])
    axis.add_patch(plt.Polygon((corners @ np.array([[c, s], [-s, c]]) + pose[:2]) * _MM, **style))


def _base(task: Peg, poses: Floats) -> Floats:
    """Middle of the peg's base (mm) at poses (n, 3): (n, 2)."""
    half = shape_of(task.settings).half_length
    return np.stack([poses[:, 0] + half * np.sin(poses[:, 2]), poses[:, 1] - half * np.cos(poses[:, 2])], axis=1) * _MM
