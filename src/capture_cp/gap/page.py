"""The page of `capture gap`, from its document alone: a stored result is drawn again without log or simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import known_name
from capture_cp.base.files import Pathlike
from capture_cp.gap.tables import (
    Row,
    amount,
    comparison_tables,
    distinct,
    error_tables,
    looks_of,
    number,
    options,
    span,
    spoken,
    titled,
    trust_tables,
)
from capture_cp.report import html, svg, svg_bodies
from capture_cp.report.style import STRATA_COLOURS, label, pyplot

TEMPLATES = Path(__file__).parent / "templates"
CASES = {"median": "median case", "bound": "the {share} case", "worst": "worst case"}


def write_page(path: Pathlike, document: Row) -> None:
    """Write the page of a document as one HTML file, complete or not at all."""
    page = document["page"]
    looks = looks_of(document)
    rows = document["rows"]
    alpha = rows[0]["alpha"] if rows else document["config"].get("alpha", 0.1)
    html.write_page(
        Path(path),
        "gap.html",
        TEMPLATES,
        page=page,
        share=f"{100 * (1 - alpha):g} %",
        confidence=rows[0]["confidence"] if rows else None,
        config=document["config"],
        looks=looks,
        tables=error_tables(rows, page, looks),
        trust=trust_tables(document["trust"], page),
        pairs=comparison_tables(document["comparisons"]),
        charts=_charts(page, looks, alpha),
        modes=_cases(page, looks, f"{100 * (1 - alpha):g} %"),
        strip=_strip(page, looks),
        number=number,
        span=span,
        amount=amount,
        options=options,
    )


def plot(document: Row, quantity: str | None = None, axes: Any = None) -> Any:
    """A figure of matplotlib: error against steps, one axis per contact mode. Medians are dotted.

    Args:
        document: what `measure_gap` found, as its document.
        quantity: the error that is drawn; by default the first.
        axes: axes to draw into, one per mode; by default those of a new figure.
    """
    page = document["page"]
    modes = [mode["name"] for mode in page["modes"]]
    quantities = {one["name"]: one for one in page["quantities"]}
    shown = quantities[known_name("quantity", quantity or next(iter(quantities)), quantities)]
    if axes is None:
        size = (3.2 * len(modes) + 0.6, 3.2)
        _, axes = pyplot().subplots(1, len(modes), sharey=True, squeeze=False, figsize=size, layout="constrained")
    looks = looks_of(document)
    for axis, mode in zip(np.ravel(axes), modes):
        for curve in (one for one in page["curves"] if (one["mode"], one["quantity"]) == (mode, shown["name"])):
            kind, place = looks[curve["simulator"]][0], int(looks[curve["simulator"]][1:] or 1)
            colour = STRATA_COLOURS[place % len(STRATA_COLOURS)] if kind == "s" else ("#5a6570", "#a08c6a")[place % 2]
            bound, median = (np.array(curve[key], dtype=float) for key in ("bound", "median"))
            axis.plot(curve["steps"], bound, "-" if kind == "s" else "--", color=colour, label=label(curve["simulator"]))
            if kind == "s":
                axis.plot(curve["steps"], median, ":", color=colour, linewidth=1)
        axis.set(title=label(mode), xlabel="steps ahead", yscale="log")
    np.ravel(axes)[0].set_ylabel(label(titled(shown)))
    np.ravel(axes)[-1].legend(frameon=False, fontsize="small")
    return np.ravel(axes)[0].figure


# -- figures --------------------------------------------------------------------------------------------------------------


def _charts(page: Row, looks: Mapping[str, str], alpha: float) -> list[dict[str, Any]]:
    """Sections of charts, error against steps and bound against alpha: one per quantity, or all together for one mode."""
    keys = ("curves", "alphas")
    sections: list[dict[str, Any]] = []
    for one in page["quantities"]:
        sections.append(
            {"title": spoken(one["name"]), **dict(zip(keys, (_by_mode(one, key, page, looks, alpha) for key in keys)))}
        )
    if len(page["modes"]) > 1:
        return sections
    together = {key: [{**chart, "title": one["title"]} for one in sections for chart in one[key]] for key in keys}
    return [{"title": "all quantities", **together}]


def _by_mode(quantity: Row, key: str, page: Row, looks: Mapping[str, str], alpha: float) -> list[dict[str, Any]]:
    """Charts of one quantity for every mode, with the same axes: "curves" against steps, or "alphas" against alpha."""
    x, title, log = (
        ("steps", "steps ahead", False) if key == "curves" else ("alpha", "share of rows beyond the bound, alpha", True)
    )
    rows = [one for one in page[key] if one["quantity"] == quantity["name"]]
    drawn = [_curve(one, x, looks) for one in rows]
    values = [value for curve in drawn for part in (curve.y, curve.low) for value in part]
    up, across = svg.axes(values, [value for curve in drawn for value in curve.x], log)
    level = (page["tolerance"] or {}).get(quantity["name"])
    tolerance = None if level is None else (level, f"tolerance {amount(level, quantity['unit'], f'{level:g}')}")
    at = (alpha, f"{100 * alpha:g} %") if log else None
    charts = []
    for mode in distinct(one["mode"] for one in rows):
        curves = [curve for curve, one in zip(drawn, rows) if one["mode"] == mode]
        said = f"Bound of {titled(quantity)}, against {title} in mode {mode}: {', '.join(curve.name for curve in curves)}."
        picture = svg.chart(curves, up, across, (title, titled(quantity)), said, tolerance, at, log)
        charts.append({"title": mode, "steps": rows[0]["steps"], "svg": picture})
    return charts


def _curve(one: Row, x: str, looks: Mapping[str, str]) -> svg.Curve:
    """Rules that cost nothing have no band: they are there for comparison."""
    look = looks[one["simulator"]]
    return svg.Curve(one["simulator"], look, one[x], one["bound"], one.get("median", ()) if look[0] == "s" else ())


def _cases(page: Row, looks: Mapping[str, str], share: str) -> list[dict[str, Any]]:
    """Pictures of the median, the bound and the worst case of every mode, by simulator."""
    units = {one["name"]: one["unit"] for one in page["quantities"]}
    found: dict[str, dict[str, Any]] = {}
    for i, case in enumerate(page["cases"]):
        error = "diverged" if case["error"] is None else amount(case["error"], units.get(case["quantity"], "deg"))
        which = CASES.get(case["which"], case["which"]).format(share=share)
        ahead = f"{case['steps']} step{'s' * (case['steps'] != 1)} ahead"
        where = f"episode {case['episode']}, from row {case['row']:,} of the log, {ahead}"
        said = f"{case['simulator']} in mode {case['mode']}, {which}: measured and predicted bodies, {error} apart; {where}."
        one, two, start = (svg_bodies.placed(page["bodies"], case[key] or {}) for key in ("measured", "predicted", "start"))
        if not len(one.points):
            continue
        both = [(one, two)] if len(two.points) == len(one.points) else []
        frame = svg_bodies.Frame.around(svg_bodies.telling_view(both), [one, *(two for _, two in both if _near(one, two))])
        contacts = np.array(case["contacts"], dtype=float).reshape(-1, 3)
        drawn = svg_bodies.scene(
            one, two if both else None, frame, looks[case["simulator"]], f"case{i}", said, start, page["ground"], contacts
        )
        mode = found.setdefault(case["mode"], {"name": case["mode"], "quantity": spoken(case["quantity"]), "rows": {}})
        mode["rows"].setdefault(case["simulator"], []).append({"which": which, "error": error, "where": where, "svg": drawn})
    return list(found.values())


def _near(one: svg_bodies.Placed, two: svg_bodies.Placed) -> bool:
    """Whether a prediction is near enough to be shown beside what was measured."""
    size = max(float(np.ptp(one.points, axis=0).max()), 1e-3)
    return float(np.abs(two.points - one.points).max()) < 2 * size


def _strip(page: Row, looks: Mapping[str, str]) -> dict[str, Any] | None:
    """Pictures of one episode over time, all from the same side and at the same scale."""
    strip = page["strip"]
    if not strip or not strip["frames"]:
        return None
    pairs = [
        tuple(svg_bodies.placed(page["bodies"], frame[key]) for key in ("measured", "predicted"))
        for frame in strip["frames"]
    ]
    if not len(pairs[0][0].points):
        return None
    view = svg_bodies.telling_view([(one, two) for one, two in pairs])
    frames = [svg_bodies.Frame.around(view, [one, *([two] if _near(one, two) else [])]) for one, two in pairs]
    half, found = max(frame.half for frame in frames), []
    for i, ((one, two), frame, shown) in enumerate(zip(pairs, frames, strip["frames"])):
        at = f"step {shown['step']}, {span(shown['step'] * page['log']['period'])}"
        said = f"{strip['simulator']} in episode {strip['episode']} at {at}: measured and predicted bodies."
        look, same = looks[strip["simulator"]], frame._replace(half=half)
        drawn = svg_bodies.scene(one, two, same, look, f"frame{i}", said, ground=page["ground"], lens=False)
        found.append({"at": at, "svg": drawn})
    return {**strip, "pictures": found}
