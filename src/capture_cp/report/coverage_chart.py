"""A chart of coverage: one line per method, one mark per stratum, whiskers for the interval, the paper's figures hollow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot

#: Shape and colour both tell strata apart, so that the chart survives a grey print.
_MARKERS = ("o", "s", "^", "D", "v")
_PAPER = {"markerfacecolor": "none", "linestyle": "none", "markersize": 7, "alpha": 0.8}


def draw_coverage(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Coverage rows of one place as a picture."""
    plt = pyplot()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    strata = [name for name in dict.fromkeys(row["stratum"] for row in rows) if name != "all"]
    figure, axis = plt.subplots(figsize=(9.0, 0.9 + 0.5 * len(methods)), layout="constrained")
    target = 1 - rows[0]["alpha"]
    axis.axvline(100 * target, color="#222222", lw=1, ls="--", label=f"target {100 * target:g} %")
    beside_paper = False
    for m, stratum in enumerate(strata):
        colour, marker = STRATA_COLOURS[m % len(STRATA_COLOURS)], _MARKERS[m % len(_MARKERS)]
        found = {row["method"]: row for row in rows if row["stratum"] == stratum and row["n"]}
        heights = {name: i + 0.22 * (m - (len(strata) - 1) / 2) for i, name in enumerate(methods)}
        for name, row in found.items():
            low, high = row["ci95"]
            axis.plot([100 * low, 100 * high], [heights[name]] * 2, color=colour, lw=2)
            if row.get("paper") is not None:
                beside_paper = True
                axis.plot(100 * row["paper"], heights[name], marker=marker, color=colour, **_PAPER)
        places = [heights[name] for name in found]
        axis.plot([100 * row["coverage"] for row in found.values()], places, marker, color=colour, label=stratum)
    if beside_paper:
        axis.plot([], [], "o", color="#222222", label="the paper's (hollow)", **_PAPER)
    axis.set(yticks=range(len(methods)), yticklabels=methods, xlabel="next configurations inside the region, %")
    axis.invert_yaxis()
    axis.grid(axis="x", color="#dddddd", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(strata) + 2, frameon=False, fontsize=9)
    figure.savefig(file)
    plt.close(figure)
