"""The figure of the study of when regions help: one column per axis, success and falls of every row, per planner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.spaces.plotting import STRATA_COLOURS, label, pyplot
from capture_lab.studies.worth import ALL, Rows
from capture_lab.tasks.rows import Axis

#: Rows differ in line style, marker and colour, so that a grey print is readable.
MARKERS, STYLES = "osD^vP*", ("-", "-", "-", "-", (0, (5, 1.5)), "--", ":")
COLOURS = ("#555555", *STRATA_COLOURS)
APART = 0.06
WIDTH = 28  # letters of a label below a panel
SHARES = {"success": "success, %", "fell": "fell, %"}


def draw_worth(rows: Rows, axes: Mapping[str, Axis], file: Path) -> None:
    """Percentages of episodes that succeeded and that fell, over all places, against every axis."""
    plt = pyplot()
    together = [row for row in rows if row["map"] == ALL]
    names, planners, methods = (list(dict.fromkeys(row[key] for row in together)) for key in ("axis", "planner", "method"))
    lines = [(planner, share) for planner in planners for share in SHARES]
    figure, panels = plt.subplots(
        len(lines), len(names), figsize=(max(2.7 * len(names), 5.4), 3.6 * len(planners) + 0.6), squeeze=False,
        sharex="col", sharey="row", height_ratios=[1.7, 1.0] * len(planners), layout="constrained",
    )  # fmt: skip
    for line, (planner, share) in zip(panels, lines):
        for panel, name in zip(line, names):
            here = [row for row in together if (row["axis"], row["planner"]) == (name, planner)]
            _draw_axis(panel, axes[name], share, methods, here)
        line[0].set_ylabel(f"{label(planner)}\n{SHARES[share]}")
    for panel, name in zip(panels[-1], names):
        panel.set_xlabel(fill(label(axes[name].label), WIDTH), fontsize=9)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=max(3, len(names) + 1), frameon=False, fontsize=9)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _draw_axis(panel: Any, axis: Axis, share: str, methods: list[str], rows: Rows) -> None:
    """One panel: the planning study's default value, and one line per row with exact 95% intervals."""
    spots = {value: number for number, value in enumerate(axis.values)}
    if axis.own in spots:
        panel.axvspan(spots[axis.own] - 0.35, spots[axis.own] + 0.35, color="#eeeeee", lw=0, label="default value")
    for m, method in enumerate(methods):
        own = [row for row in rows if row["method"] == method]
        at = [spots[row["value"]] + APART * (m - (len(methods) - 1) / 2) for row in own]
        counts = [(round(row[share] * row["episodes"]), row["episodes"]) for row in own]
        shares = [100 * count / of for count, of in counts]
        ends = [clopper_pearson(count, of) for count, of in counts]
        reach = [
            [share - 100 * low for share, (low, _) in zip(shares, ends)],
            [100 * high - share for share, (_, high) in zip(shares, ends)],
        ]
        look = {"color": COLOURS[m % len(COLOURS)], "marker": MARKERS[m % len(MARKERS)], "ls": STYLES[m % len(STYLES)]}
        panel.errorbar(at, shares, reach, lw=1.3, elinewidth=0.8, markersize=4, label=label(method), **look)
    panel.set(xticks=range(len(spots)), xticklabels=[axis.shown(value) for value in axis.values])
    panel.set(xlim=(-0.5, len(spots) - 0.5), ylim=(-4, 106), yticks=(0, 50, 100))
    panel.tick_params(labelsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
