"""Results of `capture gap` on real data, as stored in docs/assets: errors against steps, bodies measured and predicted."""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt

from capture_cp.gap.page import plot
from capture_cp.report.style import STRATA_COLOURS
from capture_cp.report.svg_bodies import placed, telling_view
from figures.style import DOCS, INK, bare, save

WHICH = {"median": "median", "bound": "90 %", "worst": "worst"}


def gap_cube_picture() -> None:
    """Above: bounds and medians by mode. Below: the published cube ten steps ahead."""
    document = stored("cube")
    with_bodies("gap-cube", document, "cube.position", [mode["name"] for mode in document["page"]["modes"]])


def gap_elbow_picture() -> None:
    """Above: bounds and medians by mode. Below: the elbow ten steps ahead."""
    document = stored("elbow")
    with_bodies("gap-elbow", document, "first.position", [mode["name"] for mode in document["page"]["modes"]])


def gap_so101_picture() -> None:
    """Bounds and medians at the gripper, and of the two joints that carry the arm."""
    document = stored("so101")
    for part in ("simulators", "curves"):  # one rule less, to keep the curves apart
        document["page"][part] = [
            one for one in document["page"][part] if "keeps its velocity" not in (one.get("name"), one.get("simulator"))
        ]
    shown = {"grip": "gripper's frame", "shoulder_lift": "shoulder_lift", "elbow_flex": "elbow_flex"}
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.2), layout="constrained")
    for axis, (quantity, title) in zip(axes, shown.items()):
        plot(document, quantity, axis)
        axis.set_title(title)
        if axis is not axes[-1]:
            axis.get_legend().remove()
    save("gap-so101", figure)


def stored(name: str) -> dict[str, Any]:
    """The document of an example."""
    document: dict[str, Any] = json.loads((DOCS / "assets" / f"gap-{name}.json").read_text(encoding="utf-8"))
    return document


def with_bodies(name: str, document: dict[str, Any], quantity: str, modes: list[str]) -> None:
    """Curves of one quantity, and below each mode its median and its 90 % case."""
    figure = plt.figure(figsize=(2.4 * len(modes) + 0.6, 4.8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3, 2))
    axes = above.subplots(1, len(modes), sharey=True)
    plot(document, quantity, axes)
    cells = below.subplots(1, 2 * len(modes))
    for number, mode in enumerate(modes):
        for place, which in enumerate(("median", "bound")):
            draw_case(cells[2 * number + place], document["page"], mode, which)
    save(name, figure)


def draw_case(axis: plt.Axes, page: dict[str, Any], mode: str, which: str) -> None:
    """One case of the first simulator: start in grey, measured in black, predicted in colour."""
    bare(axis)
    axis.set_aspect("equal")
    found = [case for case in page["cases"] if (case["mode"], case["which"]) == (mode, which)]
    if not found:
        return
    case = found[0]
    bodies = {name: placed(page["bodies"], case[name]) for name in ("start", "measured", "predicted")}
    view = telling_view([(bodies["measured"], bodies["predicted"])])
    looks = {"start": ("#cccccc", 0.6), "measured": (INK, 1.1), "predicted": (STRATA_COLOURS[0], 1.1)}
    for name, (colour, width) in looks.items():
        for edge in bodies[name].edges:
            axis.plot(*view.flat(bodies[name].corners[edge]).T, color=colour, lw=width, solid_capstyle="round")
    unit = next(one["unit"] for one in page["quantities"] if one["name"] == case["quantity"])
    axis.set_title(f"{WHICH[which]}\n{case['error']:.2g} {unit}", fontsize=7.5)
