"""Pictures of the quick start, of the idea, and of the page on your own data."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from capture_cp import Capture, NearestParticles, Tree, read_transitions
from capture_cp.report.regions import plot_strata
from capture_cp.report.style import STRATA_COLOURS
from capture_lab.tasks.box import Box
from figures.style import CORNER, DARK_EDGE, DOCS, FREE, INK, X_QUERY, arrow, bare, close_up, save

SHORT_OF_IT = np.array([0.30, 0.66, 0.22, -0.20])  # towards the pillar


def first_example() -> tuple[Box, Capture]:
    """The box and its calibration, as on the pages."""
    box = Box()
    log = box.transitions(5000, np.random.default_rng(0))
    score = NearestParticles(k=8)
    return box, Capture(box.model, box.strata, score=score, groups=Tree(), n_particles=16, seed=0).fit(log.X, log.Y)


def true_outcomes(box: Box, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Outcomes of the true system from x, (n, 2)."""
    push = x[2:] + box.noise * rng.standard_normal((n, 2))
    return box.step(np.tile(x[:2], (n, 1)), push, box.true_gain)


def region_picture() -> None:
    """Quick start: one region, the particles behind it, and true outcomes."""
    (box, cap), rng = first_example(), np.random.default_rng(1)
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.5))
    for ax, x, low in zip(panels, (X_QUERY, SHORT_OF_IT), ((0.56, 0.56), (0.2, 0.2))):
        plot_strata(box.strata, ax)
        cap.region(x, alpha=0.1).plot(ax)
        outcomes = true_outcomes(box, x, 40, rng)
        ax.scatter(*outcomes.T, s=14, facecolor="white", edgecolor=INK, lw=0.7, zorder=3.5)
        arrow(ax, x)
        close_up(ax, low, (low[0] + 0.49, low[1] + 0.49))
        bare(ax)
    panels[0].set_title("pushed towards a corner")
    panels[1].set_title("pushed towards the pillar")
    handles = [
        *(Patch(color=c, alpha=0.75, label=n) for c, n in zip(STRATA_COLOURS, box.strata.names)),
        Patch(color="#cccccc", label="wall"),
        Line2D([], [], marker="D", color=INK, mfc="white", ms=5, lw=1.2, label="start and push"),
        Line2D([], [], marker="o", color=INK, ms=3, ls="none", label="particles of the model"),
        Line2D([], [], marker="o", color=INK, mfc="white", ms=4, ls="none", label="true outcomes"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=4, bbox_to_anchor=(0.5, -0.1), columnspacing=1.4)
    figure.subplots_adjust(wspace=0.05)
    save("region", figure)


def idea_picture() -> None:
    """Particles and score, strata, thresholds of groups, region."""
    (box, cap), rng = first_example(), np.random.default_rng(2)
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.0), width_ratios=[1, 1, 1.15, 1])
    _particles_panel(panels[0], box, cap)
    _strata_panel(panels[1], box)
    _thresholds_panel(panels[2], box, cap, rng)
    panels[3].set_title("4. region, the union over strata")
    plot_strata(box.strata, panels[3])
    cap.region(X_QUERY, alpha=0.1).plot(panels[3])
    for number in (0, 1, 3):
        close_up(panels[number], (0.56, 0.56), (1.05, 1.05))
        bare(panels[number])
    figure.tight_layout(w_pad=1.2)
    save("idea", figure)


def _particles_panel(ax: plt.Axes, box: Box, cap: Capture) -> None:
    k, cloud, y = cap.score.k, cap.predict(X_QUERY[None])[0], np.array([1.0, 0.95])
    nearest = np.sort(np.linalg.norm(cloud - y, axis=1))
    ax.set_title("1. particles and score")
    plot_strata(box.strata, ax)
    ax.scatter(*cloud.T, s=8, color="black", zorder=3)
    ax.add_patch(Circle(y, nearest[k - 1], fill=False, color=CORNER, lw=1.4))
    ax.plot(*y, marker="*", ms=12, color=CORNER, mec="white", ls="none", zorder=4)
    ax.annotate("Y", y, xytext=(-13, 6), textcoords="offset points", color=CORNER, weight="bold")
    ax.text(0.585, 0.82, f"R = distance from Y\nto its {k}th nearest\nof {len(cloud)} particles", va="top", color=INK)


def _strata_panel(ax: plt.Axes, box: Box) -> None:
    ax.set_title("2. strata")
    plot_strata(box.strata, ax)
    for m, name in enumerate(box.strata.names):
        cells = box.strata.grid.centre(box.strata.cells(name))
        here = cells[(cells > 0.56).all(axis=1)]
        if m:
            ax.scatter(*here.T, s=4 if m == 1 else 9, marker="s", color=STRATA_COLOURS[m])
    ax.text(0.84, 0.8, "free", color=FREE, ha="center", weight="bold")
    ax.text(0.97, 0.66, "edge", color=DARK_EDGE, rotation=90, ha="right", va="center", weight="bold")
    ax.annotate(
        "corner",
        (0.985, 0.985),
        xytext=(0.88, 0.9),
        color=CORNER,
        ha="center",
        weight="bold",
        arrowprops={"arrowstyle": "-", "color": CORNER},
    )


def _thresholds_panel(ax: plt.Axes, box: Box, cap: Capture, rng: np.random.Generator) -> None:
    ax.set_title("3. groups and thresholds q̂")
    q = cap.thresholds(X_QUERY[None])[0]
    groups = cap.partition_.groups_everywhere(X_QUERY[None])[0]
    for row, (m, group) in enumerate(zip(range(3), groups)):
        start, stop = cap.calibration_.starts[group : group + 2]
        scores = cap.calibration_.scores[start:stop]
        height = 2 - row + 0.05 + 0.55 * rng.random(len(scores))
        ax.scatter(scores, height, s=3, color=STRATA_COLOURS[m], alpha=0.8, lw=0)
        ax.plot([q[m]] * 2, [2 - row, 2.65 - row], color=INK, lw=1.4)
        ax.text(0.33, 2.68 - row, f"q̂ = {q[m]:.3f}", va="bottom", ha="right")
        ax.text(
            -0.005,
            2.68 - row,
            f"{box.strata.names[m]}: {len(scores)} scores",
            va="bottom",
            ha="left",
            color=DARK_EDGE if m == 1 else STRATA_COLOURS[m],
        )
    ax.set(xlim=(-0.01, 0.33), ylim=(-0.05, 3), yticks=[], xlabel="score R of a calibration transition")
    ax.spines["left"].set_visible(False)


def own_data_picture() -> None:
    """The region of the page on your own data: a model without the pillar."""
    box = Box()

    def model(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
        push = X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
        return np.clip(X[:, None, :2] + 1.2 * push, 0.0, 1.0)

    columns = {"state": ["x", "y"], "action": ["push_x", "push_y"], "next": ["next_x", "next_y"]}
    log = read_transitions(DOCS / "assets" / "pushes.csv", **columns)
    fit = np.random.default_rng(1).permutation(len(log))[:1500]
    cap = Capture(model, box.strata, groups=Tree(min_leaf=100)).fit(log.X[fit], log.Y[fit])
    figure, ax = plt.subplots(figsize=(4, 4))
    plot_strata(box.strata, ax)
    cap.region([0.35, 0.75, 0.2, -0.25], alpha=0.1, rng=0).plot(ax)
    ax.legend(loc="lower left", bbox_to_anchor=(0.06, 0.06), fontsize=8)
    save("own-data", figure)
