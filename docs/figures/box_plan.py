"""The picture of the page on planning: the path around a pit and the region of every executed step."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from capture_cp import method
from capture_cp.planning import MPPI, PythonRollout, run_episode
from capture_cp.report.regions import plot_strata
from capture_lab.tasks.box import Box
from figures.style import CORNER, FREE, INK, bare, save

GOAL, PIT, RADIUS = np.array([0.9, 0.15]), np.array([0.3, 0.45]), 0.15


def plan_picture() -> None:
    """One episode, as on the page."""
    box = Box()
    data = box.transitions(20_000, np.random.default_rng(0))
    cap = method("capture", box, box.strata).fit(data.X, data.Y)
    centres = box.strata.grid.centre(np.arange(box.strata.grid.size))
    hazard = np.linalg.norm(centres - PIT, axis=1) < RADIUS
    rollout = PythonRollout(
        cap,
        box.model_step,
        lambda stage: np.linalg.norm(stage.mean - GOAL, axis=1) + 10 * stage.hazard,
        hazard,
        axes=(0, 1),
        alpha=0.1,
    )
    planner = MPPI(
        rollout, horizon=4, samples=300, temperature=0.05, noise=0.02 * np.eye(2), low=[-0.2, -0.2], high=[0.2, 0.2]
    )

    def system(state: np.ndarray, action: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
        after = box.true_step(state[None], action[None], rng)[0]
        return after, "arrived" if np.linalg.norm(after - GOAL) < 0.08 else None

    run = run_episode(planner, system, start=np.array([0.1, 0.85]), max_steps=40, seed=0)
    figure, ax = plt.subplots(figsize=(6.2, 4.0))
    plot_strata(box.strata, ax)
    for x in run.inputs:
        cells = cap.region(x, alpha=0.1, rng=0).cells()
        ax.scatter(*centres[cells].T, s=4.6, marker="s", lw=0, color=FREE, alpha=0.12)
    ax.add_patch(Circle(PIT, RADIUS, color=INK, alpha=0.75))
    ax.add_patch(Circle(GOAL, 0.08, fill=False, color=CORNER, lw=1.5))
    ax.plot(*run.states.T, marker="o", ms=4, mfc="white", color=INK, lw=1)
    ax.plot(*run.states[0], marker="D", ms=6, mfc="white", color=INK)
    bare(ax)
    handles = [
        Line2D([], [], marker="D", color=INK, mfc="white", ls="none", label="start"),
        Line2D([], [], marker="o", color=INK, mfc="white", label="executed steps"),
        Patch(color=FREE, alpha=0.4, label="regions of the steps"),
        Patch(color=INK, alpha=0.75, label="pit (hazard)"),
        Line2D([], [], marker="o", mfc="none", color=CORNER, ls="none", ms=9, label="goal"),
        Patch(color="#cccccc", label="pillar, walls"),
    ]
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    save("plan", figure)
