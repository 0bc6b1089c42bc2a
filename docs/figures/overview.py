"""The picture at the top of the README: bare particles, one ellipsoid, and a region per stratum, for the same push."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from capture_cp import Tree, method
from capture_cp.report.regions import plot_strata
from capture_cp.report.style import STRATA_COLOURS
from capture_lab.tasks.box import Box
from figures.idea import true_outcomes
from figures.style import INK, arrow, bare, close_up, save

AT_THE_PILLAR = np.array([0.36, 0.80, 0.20, -0.24])
#: Coverage of 40,000 held-out transitions, as in the table of the README (capture demo --task box --transitions 40000).
PANELS = {
    "particles": "Particles alone\ncover 17% of outcomes",
    "lucca": "One calibrated ellipsoid (LUCCa)\n90% overall: 87% free, 97% in corners",
    "capture": "CaPTURe, one threshold per stratum\n90% free, on edges and in corners",
}


def overview_picture() -> None:
    """Three methods on one push at the pillar, with forty true outcomes."""
    box = Box()
    log = box.transitions(40_000, np.random.default_rng(0))
    outcomes = true_outcomes(box, AT_THE_PILLAR, 40, np.random.default_rng(1))
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.5))
    for ax, (name, title) in zip(axes, PANELS.items()):
        cap = method(name, box, box.strata, tree=Tree()).fit(log.X, log.Y)
        plot_strata(box.strata, ax)
        cap.region(AT_THE_PILLAR, alpha=0.1, rng=0).plot(ax)
        ax.scatter(*outcomes.T, s=14, facecolor="white", edgecolor=INK, lw=0.7, zorder=3.5)
        arrow(ax, AT_THE_PILLAR)
        close_up(ax, (0.27, 0.25), (0.89, 0.87))
        bare(ax)
        ax.set_title(title, fontsize=9.5)
    handles = [
        *(
            Patch(color=colour, alpha=0.75, label=f"region, {stratum}")
            for colour, stratum in zip(STRATA_COLOURS, ("free", "edge"))
        ),
        Patch(color="#707070", label="region inside the pillar"),
        Patch(color="#cccccc", label="pillar"),
        Line2D([], [], marker="D", color=INK, mfc="white", ms=5, lw=1.2, label="start and push"),
        Line2D([], [], marker="o", color=INK, ms=3, ls="none", label="model's prediction"),
        Line2D([], [], marker="o", color=INK, mfc="white", ms=4, ls="none", label="true outcomes"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=7, bbox_to_anchor=(0.5, 0.0), columnspacing=1.2, fontsize=8)
    figure.subplots_adjust(wspace=0.04)
    save("overview", figure)
