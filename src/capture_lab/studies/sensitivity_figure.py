"""The figure of the sensitivity study: one panel per setting, one colour per method, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot
from capture_lab.studies.planning_rows import covered, successes
from capture_lab.studies.sensitivity import ALL, Rows
from capture_lab.tasks.rows import Setting

COLUMNS = 4
APART = 0.12
#: Success is filled and solid, coverage hollow and dashed, so that a grey print is readable.
LOOKS = {
    "success": (0.0, successes, {"marker": "o", "ls": "-"}),
    "coverage": (APART, covered, {"marker": "s", "ls": "--", "markerfacecolor": "white"}),
}


def draw_sensitivity(rows: Rows, settings: Mapping[str, Setting], alpha: float, file: Path) -> None:
    """Success and on-policy coverage over all places, against every setting that was varied; `alpha` is the study's."""
    plt = pyplot()
    names = list(dict.fromkeys(row["setting"] for row in rows))
    columns = min(COLUMNS, len(names) + 1)
    lines = ceil((len(names) + 1) / columns)  # the legend has the last panel
    shape = {"figsize": (3.3 * columns, 2.9 * lines), "squeeze": False, "sharey": True, "layout": "constrained"}
    figure, panels = plt.subplots(lines, columns, **shape)
    for panel, name in zip(panels.flat, names):
        _draw_setting(panel, settings[name], alpha, [row for row in rows if row["setting"] == name])
    for panel in panels[:, 0]:
        panel.set_ylabel("%")
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    panels.flat[len(names)].legend(handles, labels, loc="center", frameon=False, fontsize=9)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _draw_setting(panel: Any, setting: Setting, alpha: float, rows: Rows) -> None:
    """One panel: the target, the default value, and one line per method and quantity."""
    spots = {value: number for number, value in enumerate(setting.values)}
    targets = [value if setting.option == "alpha" else alpha for value in setting.values]
    ours = spots[setting.own]
    panel.axvspan(ours - 0.4, ours + 0.4, color="#eeeeee", lw=0, label="default value")
    panel.plot(spots.values(), [100 * (1 - a) for a in targets], color="#222222", lw=0.8, ls=":", label="1 - alpha")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for m, (method, colour) in enumerate(zip(methods, STRATA_COLOURS)):
        first = APART * (2 * m - len(methods) + 0.5)  # lines are drawn side by side
        own = [row for row in rows if row["method"] == method]
        single, together = ([row for row in own if (row["map"] == ALL) == of_all] for of_all in (False, True))
        at, shares = [spots[row["value"]] + first for row in single], [100 * row["success"] for row in single]
        panel.plot(at, shares, "x", color=colour, ms=5, label=f"{method}: success, each place")
        for what, (shift, count, look) in LOOKS.items():
            at = [spots[row["value"]] + first + shift for row in together]
            shares, reach = _with_reach([count(row) for row in together])
            line = {"color": colour, "lw": 1.3, "elinewidth": 0.8, "markersize": 4.5, "label": f"{method}: {what}"}
            panel.errorbar(at, shares, reach, **line, **look)
    panel.set(xlabel=setting.label, xticks=range(len(spots)), xticklabels=[setting.shown(value) for value in setting.values])
    panel.set(xlim=(-0.5, len(spots) - 0.5), ylim=(-3, 104))


def _with_reach(counts: list[tuple[int, int]]) -> tuple[list[float], list[list[float]]]:
    """Fractions in %, and the lengths of their exact 95% intervals below and above."""
    shares = [100 * held / of for held, of in counts]
    ends = [clopper_pearson(held, of) for held, of in counts]
    below = [share - 100 * low for share, (low, _) in zip(shares, ends)]
    above = [100 * high - share for share, (_, high) in zip(shares, ends)]
    return shares, [below, above]
