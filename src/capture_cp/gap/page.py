"""The page of `capture gap`, from its document alone: a stored result is drawn again without log or simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.files import Pathlike
from capture_cp.report import html, svg, svg_bodies
from capture_cp.report.style import STRATA_COLOURS, label, pyplot

Row = Mapping[str, Any]

TEMPLATES = Path(__file__).parent / "templates"
UNITS = {"deg": "°"}
#: Titles of the tables of errors, by where their mode is counted and where their steps begin.
TITLES = {
    "end": "Error by the contact mode where the steps end",
    "start": "Error by the contact mode where the steps start: what a planner knows",
    "episode start": "Error of runs replayed from the start of each episode",
}
CASES = {"median": "median case", "bound": "the {share} case", "worst": "worst case"}
#: A verdict in a cell and in a sentence, and the class of its look.
VERDICTS = {
    "better": ("closer", "closer in most episodes", "good"),
    "worse": ("farther", "farther in most episodes", "bad"),
    "no better": ("no better", "no better", "bad"),
    "cannot tell": ("cannot tell", "{episodes} episodes cannot tell", "open"),
}


def write_page(path: Pathlike, document: Row) -> None:
    """Write the page of a document as one HTML file, complete or not at all."""
    page = document["page"]
    looks = _looks(page)
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
        tables=_tables(rows, page, looks),
        trust=_trust(document["trust"], page),
        pairs=_pairs(document["comparisons"]),
        charts=_charts(page, looks, alpha),
        modes=_cases(page, looks, f"{100 * (1 - alpha):g} %"),
        strip=_strip(page, looks),
        number=number,
        span=span,
        amount=amount,
    )


def plot(document: Row, quantity: str | None = None, axes: Any = None) -> Any:
    """A figure of matplotlib: error against steps, one axis per contact mode; bounds as lines, medians dotted.

    Args:
        document: what `measure_gap` found, as its document.
        quantity: the error that is drawn; by default the first.
        axes: axes to draw into, one per mode; by default those of a new figure.
    """
    page = document["page"]
    modes = [mode["name"] for mode in page["modes"]]
    shown = next(one for one in page["quantities"] if quantity in (None, one["name"]))
    if axes is None:
        size = (3.2 * len(modes) + 0.6, 3.2)
        _, axes = pyplot().subplots(1, len(modes), sharey=True, squeeze=False, figsize=size, layout="constrained")
    for axis, mode in zip(np.ravel(axes), modes):
        for curve in (one for one in page["curves"] if (one["mode"], one["quantity"]) == (mode, shown["name"])):
            look = _looks(page)[curve["simulator"]]
            number = int(look[1:])
            colour = STRATA_COLOURS[number % len(STRATA_COLOURS)] if look[0] == "s" else str(0.35 + 0.12 * (number % 5))
            known = {key: np.array(curve[key], dtype=float) for key in ("bound", "median")}
            axis.plot(
                curve["steps"],
                known["bound"],
                "-" if look[0] == "s" else "--",
                color=colour,
                label=label(curve["simulator"]),
            )
            axis.plot(curve["steps"], known["median"], ":", color=colour, linewidth=1)
        axis.set(title=label(mode), xlabel="steps ahead", yscale="log")
    np.ravel(axes)[0].set_ylabel(label(_axis_title(shown)))
    np.ravel(axes)[-1].legend(frameon=False, fontsize="small")
    return np.ravel(axes)[0].figure


# -- words ----------------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits: 0.275, 2.30, 13.3, 105."""
    if not value:
        return "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value) * 1.0005)))}f}"


def amount(value: float, unit: str, digits: str = "") -> str:
    """A number with its unit, in three digits by default."""
    return (digits or number(value)) + ("°" if unit == "deg" else f" {unit}")


def span(seconds: float) -> str:
    """A time in ms or s."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def sentence(row: Row) -> str:
    """A comparison in words."""
    who = f"{row['simulator']} is closer than {row['against']} in "
    counts = f"{row['closer']} closer, {row['tied']} tied, {row['farther']} farther"
    if row["share"] is None:
        return f"{row['simulator']} and {row['against']} are tied in all {row['tied']} episodes."
    low, high = row["ci95"]
    share = f"{100 * row['share']:.0f} [{100 * low:.0f}, {100 * high:.0f}] % of the episodes that are not tied ({counts})"
    if row["ratio"] is None:
        return f"{who}{share}."
    return f"{who}{share}; its errors are {_ratio(row)} times as large."


def _ratio(row: Row) -> str:
    ends = [end for end in row.get("ratio_ci95") or () if end is not None]
    return number(row["ratio"]) + (f" [{number(ends[0])}, {number(ends[1])}]" if len(ends) == 2 else "")


def _axis_title(quantity: Row) -> str:
    return f"{_name(quantity['name'])}, {UNITS.get(quantity['unit'], quantity['unit'])}"


def _name(quantity: str) -> str:
    """The name of a quantity for people: "cube.position" is "cube position"."""
    return quantity.replace(".", " ").replace("_", " ")


def _looks(page: Row) -> dict[str, str]:
    """A class of the style for every simulator: s0, s1, ... in colours; r0, r1, ... in greys for rules that cost nothing."""
    found: dict[str, str] = {}
    for name, rule in [(one["name"], one["kind"] == "rule") for one in page["simulators"]]:
        found[name] = f"{'r' if rule else 's'}{sum(look[0] == ('r' if rule else 's') for look in found.values())}"
    for one in page["curves"]:  # what is drawn beside the simulators, such as the noise of the start
        found.setdefault(one["simulator"], f"r{sum(look[0] == 'r' for look in found.values())}")
    return found


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


# -- tables ---------------------------------------------------------------------------------------------------------------


def _tables(rows: Sequence[Row], page: Row, looks: Mapping[str, str]) -> list[dict[str, Any]]:
    """Sections of tables of errors: a table per quantity in groups per mode, or one in groups per quantity for one mode."""
    kinds = _distinct(row.get("from", row["mode_at"]) for row in rows)
    sections = []
    for kind in kinds:
        part = [row for row in rows if row.get("from", row["mode_at"]) == kind]
        outer, inner = ("quantity", "mode") if len({row["mode"] for row in part}) > 1 else ("mode", "quantity")
        tables = []
        for title in _distinct(row[outer] for row in part):
            shown = [row for row in part if row[outer] == title]
            units = {row["unit"] for row in shown} if outer == "quantity" else set()
            steps = {row["steps"]: row["seconds"] for row in sorted(shown, key=lambda row: row["steps"])}
            groups = [
                _group(name, inner, shown, list(steps), page, looks) for name in _distinct(row[inner] for row in shown)
            ]
            named = _axis_title({"name": title, "unit": units.pop()}) if units else f"One contact mode: {title}"
            tables.append({"title": named, "inner": inner, "steps": steps, "groups": groups})
        sections.append({"title": TITLES.get(kind, kind), "tables": tables})
    return sections


def _group(
    name: str, by: str, rows: Sequence[Row], steps: Sequence[int], page: Row, looks: Mapping[str, str]
) -> dict[str, Any]:
    """The lines of one mode, or of one quantity: a simulator each, a cell per number of steps."""
    rows = [row for row in rows if row[by] == name]
    at = {(row["simulator"], row["steps"]): row for row in rows}
    tolerance = (page["tolerance"] or {}).get(rows[0]["quantity"])
    free = [row for row in rows if looks[row["simulator"]][0] == "r" and row["bound"] is not None]
    least = {step: min((row["bound"] for row in free if row["steps"] == step), default=math.inf) for step in steps}
    lines = []
    for simulator in _distinct(row["simulator"] for row in rows):
        cells = []
        for step in steps:
            row = at.get((simulator, step))
            bound = None if row is None else row["bound"]
            cells.append(
                {
                    "row": row,
                    "within": bound is not None and tolerance is not None and bound <= tolerance,
                    "over": bound is not None and looks[simulator][0] == "s" and bound > 1.01 * least[step],
                }
            )
        lines.append({"simulator": simulator, "cells": cells})
    note = (
        f"{max(row['episodes'] for row in rows):,} episodes" if by == "mode" else UNITS.get(rows[0]["unit"], rows[0]["unit"])
    )
    return {"name": name if by == "mode" else _name(name), "note": note, "lines": lines}


def _trust(rows: Sequence[Row], page: Row) -> list[dict[str, Any]]:
    """Tables of trusted steps: a line per simulator, a column per mode."""
    tables = []
    for kind in _distinct((row.get("from"), row.get("mode_at", "end")) for row in rows):
        part = [row for row in rows if (row.get("from"), row.get("mode_at", "end")) == kind]
        cells = {(row["simulator"], row["mode"]): row for row in part}
        modes, names = (_distinct(row[key] for row in part) for key in ("mode", "simulator"))
        lines = {name: [cells.get((name, mode)) for mode in modes] for name in names}
        tables.append({"at": kind[1], "from": kind[0], "whole": part[0].get("whole_way"), "modes": modes, "lines": lines})
    return tables


def _pairs(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Tables of comparisons: one per pair and quantity, a line per mode, a column per number of steps."""
    tables = []
    for key in _distinct((row["simulator"], row["against"], row["quantity"]) for row in rows):
        part = [row for row in rows if (row["simulator"], row["against"], row["quantity"]) == key]
        steps, modes = (_distinct(row[key] for row in part) for key in ("steps", "mode"))
        cells = {(row["mode"], row["steps"]): {**row, "says": sentence(row), **_verdict(row)} for row in part}
        lines = {mode: [cells.get((mode, step)) for step in steps] for mode in modes}
        says = _summary(lines)
        tables.append({"pair": key[:2], "quantity": _name(key[2]), "steps": steps, "lines": lines, "says": says})
    return tables


def _verdict(row: Row) -> dict[str, str]:
    short, full, look = VERDICTS[row["verdict"]]
    return {"short": short, "full": full.format(episodes=row["closer"] + row["tied"] + row["farther"]), "look": look}


def _summary(lines: Mapping[str, Sequence[Row | None]]) -> list[tuple[str, str, str]]:
    """Each verdict, its look, and the modes and numbers of steps with it."""
    found = []
    for short, _, look in VERDICTS.values():
        where = []
        for mode, cells in lines.items():
            held = [str(cell["steps"]) for cell in cells if cell and cell["short"] == short]
            if held:
                steps = "all" if len(held) == len(cells) else f"step{'s' * (len(held) > 1)} {', '.join(held)}"
                where.append(f"{mode} ({steps})")
        found.append((short, look, "; ".join(where)))
    return [one for one in found if one[2]]


# -- figures --------------------------------------------------------------------------------------------------------------


def _charts(page: Row, looks: Mapping[str, str], alpha: float) -> list[dict[str, Any]]:
    """Sections of charts, error against steps and bound against alpha: one per quantity, or all together for one mode."""
    keys = ("curves", "alphas")
    sections: list[dict[str, Any]] = []
    for one in page["quantities"]:
        sections.append(
            {"title": _name(one["name"]), **dict(zip(keys, (_by_mode(one, key, page, looks, alpha) for key in keys)))}
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
    values = [value for one in rows for part in ("bound", "median") for value in one.get(part, ())]
    up, across = svg.axes(values, [value for one in rows for value in one[x]], log)
    level = (page["tolerance"] or {}).get(quantity["name"])
    tolerance = None if level is None else (level, f"tolerance {amount(level, quantity['unit'], f'{level:g}')}")
    at = (alpha, f"{100 * alpha:g} %") if log else None
    charts = []
    for mode in _distinct(one["mode"] for one in rows):
        here = [one for one in rows if one["mode"] == mode]
        curves = [_curve(one, x, looks) for one in here]
        said = (
            f"Bound of {_axis_title(quantity)}, against {title} in mode {mode}: {', '.join(curve.name for curve in curves)}."
        )
        drawn = svg.chart(curves, up, across, (title, _axis_title(quantity)), said, tolerance, at, log)
        charts.append({"title": mode, "steps": here[0]["steps"], "svg": drawn})
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
        where = f"episode {case['episode']}, row {case['row']}, {case['steps']} step{'s' * (case['steps'] != 1)} ahead"
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
        mode = found.setdefault(case["mode"], {"name": case["mode"], "quantity": _name(case["quantity"]), "rows": {}})
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
