"""Pictures of the six methods, of the neighbour k, and of a rod above a table."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from capture_cp import SE2, Capture, FunctionStrata, Grid, NearestParticles, PerStratum, method
from capture_cp.capture.methods import METHODS
from capture_cp.report.regions import plot_strata
from capture_cp.report.style import INFEASIBLE_COLOUR, STRATA_COLOURS
from capture_lab.tasks.box import Box
from figures.style import INK, MARKERS, X_QUERY, arrow, bare, close_up, save


def methods_pictures() -> None:
    """Six methods on the same data: coverage by stratum over many calibration sets, and regions of one input."""
    box, rng = Box(), np.random.default_rng(5)
    test = box.transitions(60_000, rng)
    m = box.strata.index(test.Y)
    found = {name: [] for name in METHODS}
    for seed in range(12):
        cal = box.transitions(5000, rng)
        fitted = {name: method(name, box, box.strata, seed=seed).fit(cal.X, cal.Y) for name in METHODS}
        for name, cap in fitted.items():
            inside = cap.contains(test.X, test.Y)
            found[name].append([inside[m == stratum].mean() for stratum in range(3)])
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 2.9), width_ratios=[1, 4.6])
    for ax, names in zip(panels, (METHODS[:1], METHODS[1:])):
        for place, name in enumerate(names):
            for stratum, values in enumerate(np.array(found[name]).T):
                at = place + 0.22 * (stratum - 1)
                colour = STRATA_COLOURS[stratum]
                ax.scatter(at + rng.uniform(-0.05, 0.05, len(values)), values, s=5, color=colour, alpha=0.5, lw=0)
                ax.plot(at, values.mean(), marker=MARKERS[stratum], color=colour, ms=7, mec=INK, mew=0.8)
        ax.axhline(0.9, color=INK, lw=0.8, ls="--")
        ax.set(xticks=range(len(names)), xticklabels=names, xlim=(-0.5, len(names) - 0.5))
    panels[0].set(ylabel="coverage", ylim=(0, 1))
    panels[1].set(ylim=(0.75, 1.005))
    handles = [
        Line2D([], [], marker=MARKERS[m], color=STRATA_COLOURS[m], ms=7, mec=INK, mew=0.8, ls="none", label=name)
        for m, name in enumerate(box.strata.names)
    ]
    handles.append(Line2D([], [], color=INK, lw=0.8, ls="--", label="target"))
    panels[1].legend(handles=handles, loc="lower right", ncol=4, columnspacing=1.2, handletextpad=0.3)
    figure.tight_layout(w_pad=0.8)
    save("methods-coverage", figure)

    figure, panels = plt.subplots(2, 3, figsize=(7.2, 5.0))
    for ax, (name, cap) in zip(panels.flat, fitted.items()):
        region = cap.region(X_QUERY, alpha=0.1)
        plot_strata(box.strata, ax)
        region.plot(ax)
        arrow(ax, X_QUERY)
        ax.set_title(f"{name}: {len(region.cells()):,} cells")
        close_up(ax, (0.56, 0.56), (1.05, 1.05))
        bare(ax)
    handles = [
        *(Patch(color=c, alpha=0.75, label=n) for c, n in zip(STRATA_COLOURS, box.strata.names)),
        Patch(color=INFEASIBLE_COLOUR, alpha=0.75, label="infeasible"),
        Line2D([], [], marker="o", color=INK, ms=3, ls="none", label="prediction"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=5, bbox_to_anchor=(0.5, 0.02))
    save("methods-regions", figure)


def neighbour_picture() -> None:
    """The same input with k = 1, 4, 8, 16 and particles in two clusters."""
    box = Box()
    cal = box.transitions(5000, np.random.default_rng(0))

    def split_model(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
        gain = np.where(rng.random((len(X), n_particles, 1)) < 0.5, 0.6, 1.6)
        push = gain * X[:, None, 2:] + 0.015 * rng.standard_normal((len(X), n_particles, 2))
        return box.step(X[:, None, :2], push, gain=1.0)

    figure, panels = plt.subplots(1, 4, figsize=(7.2, 2.6))
    for ax, k in zip(panels, (1, 4, 8, 16)):
        cap = Capture(split_model, box.strata, score=NearestParticles(k), groups=PerStratum()).fit(cal.X, cal.Y)
        plot_strata(box.strata, ax)
        region = cap.region(np.array([0.3, 0.78, -0.05, -0.35]), alpha=0.1)
        region.plot(ax)
        ax.set_title(f"k = {k}\n{len(region.cells()):,} cells")
        bare(ax)
        close_up(ax, (-0.05, 0.0), (0.62, 0.95))
    figure.tight_layout(w_pad=0.4)
    save("neighbours", figure)


def rod_picture() -> None:
    """A rod above a table, poses in SE(2): samples of one region by stratum."""
    rng = np.random.default_rng(6)
    half, touch = 0.1, 0.008

    def contact(Y: np.ndarray) -> np.ndarray:
        rise = half * np.sin(Y[:, 2])
        height = np.stack([Y[:, 1] - rise, Y[:, 1] + rise], axis=1)
        near = (abs(height) <= touch).astype(int)
        return np.where((height < -touch).any(axis=1), -1, near[:, 0] + 2 * near[:, 1])

    def move(pose: np.ndarray, push: np.ndarray) -> np.ndarray:
        after = pose + push
        after[..., 1] = np.maximum(after[..., 1], half * abs(np.sin(after[..., 2])))
        return after

    def model(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
        noise = rng.standard_normal((len(X), n_particles, 3)) * [0.01, 0.01, 0.1]
        return move(X[:, None, :3], X[:, None, 3:] + noise)

    n = 5000
    pose = np.stack([rng.uniform(-0.1, 0.1, n), rng.uniform(0, 0.06, n), rng.uniform(-math.pi, math.pi, n)], axis=1)
    pose[:, 1] += half * abs(np.sin(pose[:, 2]))
    push = rng.uniform(-1, 1, (n, 3)) * [0.1, 0.1, 0.5]
    after = move(pose, 1.3 * push + rng.standard_normal((n, 3)) * [0.01, 0.01, 0.1])
    grid = Grid((-0.3, 0.0, -math.pi), (0.01, 0.01, math.tau / 120), (61, 26, 120), periodic=(2,))
    strata = FunctionStrata(contact, ["in the air", "left end down", "right end down", "flat"], grid=grid)
    cap = Capture(model, strata, score=NearestParticles(8, SE2(length=half)), groups=PerStratum())
    cap.fit(np.hstack([pose, push]), after)
    region = cap.region(np.array([-0.08, 0.1, 0.1, 0.09, -0.08, -0.1]), alpha=0.1)
    figure, ax = plt.subplots(figsize=(7.2, 2.7))
    for x, z, theta in region.sample(110, rng):
        stratum = int(contact(np.array([[x, z, theta]]))[0])
        along = half * np.array([[-1, 1], [-1, 1]]) * np.array([[math.cos(theta)], [math.sin(theta)]])
        ax.plot(x + along[0], z + along[1], color=STRATA_COLOURS[stratum], lw=0.9, alpha=0.6, zorder=2 + stratum)
    start = np.array([-0.08, 0.1, 0.1])
    along = half * np.array([math.cos(start[2]), math.sin(start[2])])
    ax.plot([start[0] - along[0], start[0] + along[0]], [start[1] - along[1], start[1] + along[1]], color=INK, lw=3)
    ax.text(start[0] - half, start[1], "now", ha="left", va="bottom")
    ax.axhspan(-0.03, 0, color="#cccccc", lw=0)
    ax.text(-0.21, -0.01, "table", va="center")
    ax.set(xlim=(-0.22, 0.2), ylim=(-0.02, 0.125), aspect="equal")
    bare(ax)
    handles = [Line2D([], [], color=STRATA_COLOURS[m], lw=2, label=name) for m, name in enumerate(strata.names)]
    figure.legend(handles=handles, loc="lower center", ncol=4)
    save("rod", figure)
