"""Draws the pictures of the documentation into docs/images: `python docs/make_figures.py`. Seeded; under a minute."""

import io
import math
import os
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch
from PIL import Image
from scipy import stats

from capture_cp import (
    METHODS,
    SE2,
    Capture,
    FunctionStrata,
    Grid,
    NearestParticles,
    PerStratum,
    Tree,
    conformal_quantile,
    conformal_rank,
    method,
)
from capture_cp.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS, plot_strata
from capture_cp.tasks.box import Box

IMAGES = Path(__file__).parent / "images"
FREE, EDGE, CORNER, GREEN = STRATA_COLOURS[:4]
INK = "#222222"
MARKERS = ("o", "s", "^")
X_QUERY = np.array([0.72, 0.78, 0.22, 0.15])  # heads for the upper right corner
SHORT_OF_IT = np.array([0.30, 0.66, 0.22, -0.20])  # heads for the pillar

plt.rcParams |= {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.dpi": 200,
}


def save(name: str, figure: plt.Figure) -> None:
    """Write a small palette PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=200, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    image = Image.open(buffer).convert("RGB").quantize(colors=128, dither=Image.Dither.NONE)
    IMAGES.mkdir(exist_ok=True)
    image.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size / 1000:.0f} kB")


def true_outcomes(box: Box, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Where the true system goes from x, (n, 2)."""
    push = x[2:] + box.noise * rng.standard_normal((n, 2))
    return box.step(np.tile(x[:2], (n, 1)), push, box.true_gain)


def bare(ax: plt.Axes) -> None:
    """No ticks: positions in the box need no numbers."""
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)


def arrow(ax: plt.Axes, x: np.ndarray) -> None:
    """The current position and the commanded push."""
    ax.annotate("", xy=x[:2] + x[2:], xytext=x[:2], arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2}, zorder=4)
    ax.plot(*x[:2], marker="D", color="white", mec=INK, ms=5, zorder=5, ls="none")


def close_up(ax: plt.Axes, low: tuple[float, float], high: tuple[float, float]) -> None:
    """Show one window of the box."""
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def region_picture(box: Box, cap: Capture, rng: np.random.Generator) -> None:
    """Quick start: one region, the particles that it grew from, and what really happens."""
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
        Line2D([], [], marker="o", color=INK, mfc="white", ms=4, ls="none", label="what really happens"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=4, bbox_to_anchor=(0.5, -0.1), columnspacing=1.4)
    figure.subplots_adjust(wspace=0.05)
    save("region", figure)


def idea_picture(box: Box, cap: Capture, rng: np.random.Generator) -> None:
    """Particles and score, strata, thresholds of groups, region."""
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.0), width_ratios=[1, 1, 1.15, 1])
    window = ((0.56, 0.56), (1.05, 1.05))
    k = cap.score.k
    cloud = cap.predict(X_QUERY[None])[0]
    y = np.array([1.0, 0.95])
    nearest = np.sort(np.linalg.norm(cloud - y, axis=1))

    ax = panels[0]
    ax.set_title("1. particles and score")
    plot_strata(box.strata, ax)
    ax.scatter(*cloud.T, s=8, color="black", zorder=3)
    ax.add_patch(Circle(y, nearest[k - 1], fill=False, color=CORNER, lw=1.4))
    ax.plot(*y, marker="*", ms=12, color=CORNER, mec="white", ls="none", zorder=4)
    ax.annotate("Y", y, xytext=(-13, 6), textcoords="offset points", color=CORNER, weight="bold")
    ax.text(0.585, 0.82, f"R = distance from Y\nto its {k}th nearest\nof {len(cloud)} particles", va="top", color=INK)

    ax = panels[1]
    ax.set_title("2. strata")
    plot_strata(box.strata, ax)
    for m, name in enumerate(box.strata.names):
        cells = box.strata.grid.centre(box.strata.cells(name))
        here = cells[(cells > 0.56).all(axis=1)]
        if m:
            ax.scatter(*here.T, s=4 if m == 1 else 9, marker="s", color=STRATA_COLOURS[m])
    ax.text(0.84, 0.8, "free", color=FREE, ha="center", weight="bold")
    ax.text(0.97, 0.66, "edge", color="#9a6a00", rotation=90, ha="right", va="center", weight="bold")
    ax.annotate(
        "corner",
        (0.985, 0.985),
        xytext=(0.88, 0.9),
        color=CORNER,
        ha="center",
        weight="bold",
        arrowprops={"arrowstyle": "-", "color": CORNER},
    )

    ax = panels[2]
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
            color="#9a6a00" if m == 1 else STRATA_COLOURS[m],
        )
    ax.set(xlim=(-0.01, 0.33), ylim=(-0.05, 3), yticks=[], xlabel="score R of a calibration transition")
    ax.spines["left"].set_visible(False)

    ax = panels[3]
    ax.set_title("4. region, the union over strata")
    plot_strata(box.strata, ax)
    cap.region(X_QUERY, alpha=0.1).plot(ax)
    for number in (0, 1, 3):
        close_up(panels[number], *window)
        bare(panels[number])
    figure.tight_layout(w_pad=1.2)
    save("idea", figure)


def rank_picture() -> None:
    """Mean coverage by number of calibration scores: exact rank, a truncating rule, interpolation."""
    alpha, n = 0.1, np.arange(1, 61)
    exact = np.array([conformal_rank(i, alpha) / (i + 1) for i in n])
    truncated = np.array([(i + 1 - int((1 - 0.9) * (i + 1))) / (i + 1) for i in n])
    interpolated = np.array([((i - 1) * (1 - alpha) + 1) / (i + 1) for i in n])
    figure, ax = plt.subplots(figsize=(7.2, 2.9))
    ax.fill_between(
        n,
        1 - alpha,
        np.minimum(1, 1 - alpha + 1 / (n + 1)),
        color=FREE,
        alpha=0.13,
        lw=0,
        label="promised: 1-α to 1-α+1/(n+1)",
    )
    ax.plot(n, truncated, "x", color=CORNER, ms=6, mew=1.3, label="floating-point rank")
    ax.plot(n, exact, "o", color=FREE, ms=3.6, label="exact rank (this library)")
    ax.plot(n, interpolated, "s", color="#9a6a00", ms=2.6, label="interpolated quantile")
    ax.axhline(1 - alpha, color=INK, lw=0.8)
    ax.set(xlabel="calibration scores n", ylabel="mean coverage", ylim=(0.77, 1.012), xlim=(0, 61))
    ax.set_xticks([1, *range(9, 60, 10)])
    ax.legend(loc="lower right", ncol=2)
    save("rank", figure)


def spread_picture(rng: np.random.Generator) -> None:
    """Coverage of one calibration is random: its distribution for three n, without and with confidence."""
    alpha, repeats = 0.1, 4000
    figure, rows = plt.subplots(2, 3, figsize=(7.2, 3.6), sharex=True)
    for row, confidence in enumerate((None, 0.95)):
        for ax, n in zip(rows[row], (49, 199, 999)):
            draws = rng.random((repeats, n))  # uniform scores: the coverage of a threshold is the threshold
            coverage = np.array([min(conformal_quantile(scores, alpha, confidence), 1.0) for scores in draws])
            below = coverage < 1 - alpha
            bins = np.linspace(0.7, 1, 61)
            ax.hist(coverage[below], bins, color=EDGE, lw=0)
            ax.hist(coverage[~below], bins, color=FREE, lw=0)
            rank = conformal_rank(n, alpha, confidence)
            at = np.linspace(0.7, 1, 400)
            ax.plot(at, stats.beta(rank, n + 1 - rank).pdf(at) * repeats * (bins[1] - bins[0]), color=INK, lw=1)
            ax.axvline(1 - alpha, color=INK, lw=0.8, ls="--")
            ax.set(yticks=[], xlim=(0.74, 1.0), xticks=[0.75, 0.8, 0.85, 0.9, 0.95])
            note = f"n = {n}\nrank {rank}\n{below.mean():.0%} fall\nbelow 0.9"
            ax.text(0.02, 0.98, note, transform=ax.transAxes, va="top", fontsize=8)
            ax.spines["left"].set_visible(False)
    rows[0, 0].set_ylabel("confidence=None")
    rows[1, 0].set_ylabel("confidence=0.95")
    for ax in rows[1]:
        ax.set_xlabel("coverage of one calibration")
    figure.tight_layout(h_pad=0.6)
    save("spread", figure)


def draws_picture(rng: np.random.Generator) -> None:
    """Many calibration sets of the box: coverage by stratum of PCP and CaPTURe."""
    box = Box()
    test = box.transitions(10_000, rng)
    m = box.strata.index(test.Y)
    recipes = {"pcp": None, "capture": Tree(min_leaf=100)}
    found = {name: [] for name in recipes}
    for seed in range(60):
        cal = box.transitions(2000, rng)
        for name, tree in recipes.items():
            inside = method(name, box, box.strata, tree=tree, seed=seed).fit(cal.X, cal.Y).contains(test.X, test.Y)
            found[name].append([inside[m == stratum].mean() for stratum in range(3)])
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 2.5), sharey=True, sharex=True)
    for ax, (name, rows) in zip(panels, found.items()):
        for stratum, values in enumerate(np.array(rows).T):
            height = 2 - stratum + rng.uniform(-0.28, 0.28, len(values))
            ax.scatter(values, height, s=7, marker=MARKERS[stratum], color=STRATA_COLOURS[stratum], alpha=0.6, lw=0)
            ax.plot([values.mean()] * 2, [1.62 - stratum, 2.38 - stratum], color=INK, lw=2)
            ax.text(
                values.mean(),
                2.42 - stratum,
                f"{values.mean():.1%}",
                ha="center",
                va="bottom",
                fontsize=8,
                bbox={"color": "white", "pad": 0.6},
            )
        ax.axvline(0.9, color=INK, lw=0.8, ls="--")
        ax.set(
            title={"pcp": "PCP: one threshold", "capture": "CaPTURe: a tree per stratum"}[name],
            xlabel="coverage",
            xlim=(0.78, 1.005),
            xticks=[0.8, 0.85, 0.9, 0.95, 1.0],
            ylim=(-0.5, 2.8),
            yticks=[2, 1, 0],
            yticklabels=box.strata.names,
        )
        ax.tick_params(axis="y", length=0)
    figure.tight_layout(w_pad=1.5)
    save("draws", figure)


def methods_pictures(box: Box, rng: np.random.Generator) -> None:
    """Six methods on the same data: coverage by stratum over many calibration sets, and regions of one input."""
    test = box.transitions(10_000, rng)
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
    handles.append(Line2D([], [], color=INK, lw=0.8, ls="--", label="asked for"))
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


def neighbour_picture(box: Box, cal: object) -> None:
    """The same input with k = 1, 4, 8, 16 and particles that fall in two clumps."""

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


def rod_picture(rng: np.random.Generator) -> None:
    """A rod above a table, poses in SE(2): samples of one region by stratum."""
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


def own_data_picture(box: Box) -> None:
    """The region of the page on your own data: a model that does not know the pillar."""

    def model(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
        push = X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
        return np.clip(X[:, None, :2] + 1.2 * push, 0.0, 1.0)

    log = box.transitions(4000, np.random.default_rng(0))
    fit = np.random.default_rng(1).permutation(len(log))[:3000]
    cap = Capture(model, box.strata, groups=Tree(min_leaf=150)).fit(log.X[fit], log.Y[fit])
    figure, ax = plt.subplots(figsize=(4, 4))
    plot_strata(box.strata, ax)
    cap.region([0.35, 0.75, 0.2, -0.25], alpha=0.1).plot(ax)
    ax.legend(loc="lower left", bbox_to_anchor=(0.06, 0.06), fontsize=8)
    save("own-data", figure)


def main() -> None:
    """Draw everything."""
    rng = np.random.default_rng(0)
    box = Box()
    cal = box.transitions(5000, rng)
    cap = Capture(box, box.strata, score=NearestParticles(k=8), groups=Tree(), n_particles=16, seed=0).fit(cal.X, cal.Y)
    region_picture(box, cap, rng)
    idea_picture(box, cap, rng)
    rank_picture()
    spread_picture(rng)
    draws_picture(rng)
    methods_pictures(box, rng)
    neighbour_picture(box, cal)
    rod_picture(rng)
    own_data_picture(box)


if __name__ == "__main__":
    main()
