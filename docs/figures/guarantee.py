"""Pictures of the guarantee: the rank, the variation of one calibration, many calibrations."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from capture_cp import Tree, conformal_quantile, method
from capture_cp.conformal.quantile import conformal_rank
from capture_cp.report.style import STRATA_COLOURS
from capture_lab.tasks.box import Box
from figures.style import CORNER, DARK_EDGE, EDGE, FREE, INK, MARKERS, save


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
        label="guaranteed: 1-α to 1-α+1/(n+1)",
    )
    ax.plot(n, truncated, "x", color=CORNER, ms=6, mew=1.3, label="floating-point rank")
    ax.plot(n, exact, "o", color=FREE, ms=3.6, label="exact rank (this library)")
    ax.plot(n, interpolated, "s", color=DARK_EDGE, ms=2.6, label="interpolated quantile")
    ax.axhline(1 - alpha, color=INK, lw=0.8)
    ax.set(xlabel="calibration scores n", ylabel="mean coverage", ylim=(0.77, 1.012), xlim=(0, 61))
    ax.set_xticks([1, *range(9, 60, 10)])
    ax.legend(loc="lower right", ncol=2)
    save("rank", figure)


def spread_picture() -> None:
    """Coverage of one calibration is random: its distribution for three n, without and with confidence."""
    rng = np.random.default_rng(3)
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


def draws_picture() -> None:
    """Many calibration sets of the box: coverage by stratum of PCP and CaPTURe."""
    rng = np.random.default_rng(4)
    box = Box()
    test = box.transitions(40_000, rng)
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
            title={"pcp": "PCP: one threshold", "capture": "CaPTURe: one tree per stratum"}[name],
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
