"""The tables of the page of `capture gap`, and its numbers and comparisons in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

UNITS = {"deg": "°"}
#: Titles of the tables of errors, by where their mode is counted and where their steps begin.
TITLES = {
    "end": "Error by the contact mode where the steps end",
    "start": "Error by the contact mode where the steps start: what a planner knows",
    "episode start": "Error of runs replayed from the start of each episode",
}
#: A verdict in a cell and in a sentence, and the class of its look.
VERDICTS = {
    "better": ("closer", "closer in most episodes", "good"),
    "worse": ("farther", "farther in most episodes", "bad"),
    "no better": ("no better", "no better", "bad"),
    "cannot tell": ("cannot tell", "{episodes} episodes cannot tell", "open"),
}


def number(value: float) -> str:
    """Three digits: 0.275, 2.30, 13.3, 105."""
    if value < 0.001:
        return "<0.001" if value else "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value) * 1.0005)))}f}"


def amount(value: float, unit: str, digits: str = "") -> str:
    """A number with its unit, in three digits by default."""
    return (digits or number(value)) + ("°" if unit == "deg" else f" {unit}")


def span(seconds: float) -> str:
    """A time in ms or s."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def options(text: str) -> Any:
    """A text for HTML, with options of the command line marked."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(--[a-z-]+)", r"<code>\1</code>", str(escape(text))))


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


def titled(quantity: Row) -> str:
    """The name of a quantity with its unit."""
    return f"{spoken(quantity['name'])}, {UNITS.get(quantity['unit'], quantity['unit'])}"


def spoken(quantity: str) -> str:
    """The name of a quantity for people: "cube.position" is "cube position"."""
    return quantity.replace(".", " ").replace("_", " ")


def looks_of(document: Row) -> dict[str, str]:
    """A class of the style for every simulator: s0, s1, ... in colours; r0, r1, ... in greys for rules that cost nothing.

    What is no simulator, such as the noise of the start, is x.
    """
    found: dict[str, str] = {}
    for one in document["page"]["simulators"]:
        kind = "r" if one["kind"] == "rule" else "s"
        found.setdefault(one["name"], f"{kind}{sum(look[0] == kind for look in found.values())}")
    return {row["simulator"]: "x" for row in document["rows"]} | found


def distinct(values: Any) -> list[Any]:
    """Values without repetitions, in their order."""
    return list(dict.fromkeys(values))


# -- tables ---------------------------------------------------------------------------------------------------------------


def error_tables(rows: Sequence[Row], page: Row, looks: Mapping[str, str]) -> list[dict[str, Any]]:
    """Sections of tables of errors: a table per quantity in groups per mode, or one in groups per quantity for one mode."""
    kinds = distinct(row.get("from", row["mode_at"]) for row in rows)
    sections = []
    for kind in kinds:
        part = [row for row in rows if row.get("from", row["mode_at"]) == kind]
        outer, inner = ("quantity", "mode") if len({row["mode"] for row in part}) > 1 else ("mode", "quantity")
        tables = []
        for title in distinct(row[outer] for row in part):
            shown = [row for row in part if row[outer] == title]
            units = {row["unit"] for row in shown} if outer == "quantity" else set()
            steps = {row["steps"]: row["seconds"] for row in sorted(shown, key=lambda row: row["steps"])}
            groups = [_group(name, inner, shown, list(steps), page, looks) for name in distinct(row[inner] for row in shown)]
            named = titled({"name": title, "unit": units.pop()}) if units else f"One contact mode: {title}"
            tables.append({"title": named, "inner": inner, "steps": steps, "groups": groups})
        titles = TITLES if len(page["modes"]) > 1 else TITLES | {"end": "Error by the number of steps"}
        sections.append({"title": titles.get(kind, kind), "tables": tables})
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
    for simulator in distinct(row["simulator"] for row in rows):
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
    return {"name": name if by == "mode" else spoken(name), "note": note, "lines": lines}


def trust_tables(rows: Sequence[Row], page: Row) -> list[dict[str, Any]]:
    """Tables of trusted steps: a line per simulator, a column per mode."""
    tables = []
    for kind in distinct((row.get("from"), row.get("mode_at", "end")) for row in rows):
        part = [row for row in rows if (row.get("from"), row.get("mode_at", "end")) == kind]
        cells = {(row["simulator"], row["mode"]): row for row in part}
        modes, names = (distinct(row[key] for row in part) for key in ("mode", "simulator"))
        lines = {name: [cells.get((name, mode)) for mode in modes] for name in names}
        tables.append({"at": kind[1], "from": kind[0], "whole": part[0].get("whole_way"), "modes": modes, "lines": lines})
    return tables


def comparison_tables(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Tables of comparisons: one per pair and quantity, a line per mode, a column per number of steps."""
    tables = []
    for key in distinct((row["simulator"], row["against"], row["quantity"]) for row in rows):
        part = [row for row in rows if (row["simulator"], row["against"], row["quantity"]) == key]
        steps, modes = (distinct(row[key] for row in part) for key in ("steps", "mode"))
        cells = {(row["mode"], row["steps"]): {**row, "says": sentence(row), **_verdict(row)} for row in part}
        lines = {mode: [cells.get((mode, step)) for step in steps] for mode in modes}
        says = _summary(lines)
        tables.append({"pair": key[:2], "quantity": spoken(key[2]), "steps": steps, "lines": lines, "says": says})
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
