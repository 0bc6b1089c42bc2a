"""The trade-off of the marble's planner: falls and steps against the costs of speed and tilt, for every method."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np

from capture_cp.conformal.coverage import clopper_pearson
from figures.style import DOCS, save

#: From fast to slow: weights of squared speed and squared tilt.
RUNGS = ((0, 0), (15, 0), (30, 0), (60, 0), (20, 50), (10, 100), (40, 100), (60, 100))
STYLES = {
    "capture": ("#1b6ca8", "o"),
    "particles": ("#888888", "s"),
    "pcp": ("#c2571a", "^"),
    "no-strata": ("#7a4ea3", "D"),
    "capture-k1": ("#2b8a3e", "v"),
}


def dial_picture() -> None:
    """Rows of `capture certify --task marble` on five maps, added up; see docs/results/certificates.md."""
    rows = json.loads((DOCS / "assets" / "certificate-dial.json").read_text())
    figure, (falls, steps) = plt.subplots(1, 2, figsize=(8.2, 3.1), layout="constrained")
    for number, (method, (colour, marker)) in enumerate(STYLES.items()):
        found = {(row["speed"], row["tilt"]): row for row in rows if row["method"] == method}
        at = [place for place, rung in enumerate(RUNGS) if rung in found]
        known = [found[RUNGS[place]] for place in at]
        share = np.array([100 * row["fell"] / row["episodes"] for row in known])
        limits = np.array([clopper_pearson(row["fell"], row["episodes"]) for row in known]).T * 100
        x = np.array(at) + 0.08 * (number - 2)
        falls.errorbar(
            x, share, yerr=np.abs(limits - share), color=colour, marker=marker, ms=4, lw=1.2, elinewidth=0.8, label=method
        )
        steps.plot(x, [row["steps"] for row in known], color=colour, marker=marker, ms=4, lw=1.2)
    names = [f"{speed} / {tilt}" for speed, tilt in RUNGS]
    for axes, title in ((falls, "falls (% of episodes, 95% intervals)"), (steps, "median steps to the goal, maps' mean")):
        axes.set_xticks(range(len(RUNGS)), names, rotation=35, ha="right")
        axes.set_title(title, loc="left")
        axes.set_xlabel("weights of speed / tilt")
    falls.set_yscale("symlog", linthresh=0.1)
    falls.set_yticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
    falls.set_ylim(bottom=0)
    falls.axhline(1, color="#bbbbbb", lw=0.8, ls="--", zorder=0)
    steps.set_ylim(0, 20)
    falls.legend(fontsize=8)
    save("certificate-dial", figure)
