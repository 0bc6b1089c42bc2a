"""The figure of the sensitivity study: a panel a setting, a colour a method, with intervals."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.experiments.marble_sensitivity import SETTINGS, Rows, covered, shown, successes
from capture_cp.experiments.planning import PlanningStudy
from capture_cp.plotting import STRATA_COLOURS, pyplot

COLUMNS = 4
#: Success is filled and drawn through, coverage hollow and dashed, so that the figure survives a grey print.
LOOKS = {
    "success": (successes, {"marker": "o", "ls": "-"}),
    "coverage": (covered, {"marker": "s", "ls": "--", "markerfacecolor": "white"}),
}


def draw_sensitivity(rows: Rows, file: Path) -> None:
    """Success and on-policy coverage, all maps together, against every setting that was varied."""
    plt = pyplot()
    rows = [row for row in rows if row["map"] == "all"]
    names = list(dict.fromkeys(row["setting"] for row in rows))
    columns = min(COLUMNS, len(names) + 1)
    lines = ceil((len(names) + 1) / columns)  # the legend has the last panel
    shape = {"figsize": (3.3 * columns, 2.9 * lines), "squeeze": False, "sharey": True, "layout": "constrained"}
    figure, panels = plt.subplots(lines, columns, **shape)
    for panel, name in zip(panels.flat, names):
        _draw_setting(panel, name, [row for row in rows if row["setting"] == name])
    for panel in panels[:, 0]:
        panel.set_ylabel("%")
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    panels.flat[len(names)].legend(handles, labels, loc="center", frameon=False, fontsize=9)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _draw_setting(panel: Any, name: str, rows: Rows) -> None:
    setting = SETTINGS[name]
    places = range(len(setting.values))
    targets = [value if name == "alpha" and value is not None else PlanningStudy.alpha for value in setting.values]
    own = setting.values.index(setting.own)
    panel.axvspan(own - 0.4, own + 0.4, color="#eeeeee", lw=0, label="the study's own value")
    panel.plot(places, [100 * (1 - alpha) for alpha in targets], color="#222222", lw=0.8, ls=":", label="1 - alpha")
    shift = -0.18
    for method, colour in zip(dict.fromkeys(row["method"] for row in rows), STRATA_COLOURS):
        found = {row["value"]: row for row in rows if row["method"] == method}
        for what, (count, look) in LOOKS.items():
            counts = [count(found[value]) for value in setting.values]
            shares = [100 * held / of for held, of in counts]
            low, high = zip(*(clopper_pearson(*pair) for pair in counts))
            reach = [[y - 100 * end for y, end in zip(shares, low)], [100 * end - y for y, end in zip(shares, high)]]
            at = [place + shift for place in places]
            label = f"{method}: {what}"
            panel.errorbar(at, shares, reach, color=colour, lw=1.3, elinewidth=0.8, markersize=4.5, label=label, **look)
            shift += 0.12
    panel.set(xlabel=setting.label, xticks=places, xticklabels=[shown(value) for value in setting.values])
    panel.set(xlim=(-0.5, len(places) - 0.5), ylim=(-3, 104))
