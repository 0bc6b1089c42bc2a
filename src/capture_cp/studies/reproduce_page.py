"""The index page of a reproduction: every table and figure, ours and the paper's, on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from capture_cp.report.coverage_chart import draw_coverage
from capture_cp.report.html import embedded, settings_of, write_page
from capture_cp.report.tables import PageTable, coverage_page_table, planning_page_table
from capture_cp.studies.reproduction import Part

if TYPE_CHECKING:
    from capture_cp.studies.reproduce import Reproduction

_NAMES = {"planar": "peg on rails", "arm": "in a Panda's hand", "all maps": "all maps"}


def write_index(work: Reproduction) -> None:
    """Write the page over all parts, finished or not."""
    with TemporaryDirectory() as scratch:
        sections = [_section(work, part, Path(scratch)) for part in work.parts]
        write_page(
            work.folder / "index.html",
            "reproduce.html",
            scale=work.scale,
            sizes=settings_of(work.sizes),
            sections=sections,
        )


def _section(work: Reproduction, part: Part, scratch: Path) -> dict[str, Any]:
    found = work.finished(part)
    section: dict[str, Any] = {"name": part.name, "title": part.title, "tables": [], "figures": []}
    if found is None:
        return section | {"status": work.status(part)}
    for table in part.tables:
        rows = [row for row in found["rows"] if table.holds(row)]
        entry: dict[str, Any] = {"number": table.number, "title": table.title, "file": table.file, "chart": None}
        if part.name.endswith("coverage"):
            entry["tables"] = _by_map(rows, coverage_page_table)
            if len(entry["tables"]) == 1 and rows:
                chart = scratch / f"chart-{table.number}.svg"
                draw_coverage(rows, chart)
                entry["chart"] = embedded(chart)
        else:
            entry["tables"] = _by_map(rows, planning_page_table)
        section["tables"].append(entry)
    for name in found["figures"]:
        figure = part.figure_of(Path(name))
        section["figures"].append(
            {
                "picture": work.folder / name,
                "file": name,
                "data": str(Path(name).with_suffix(".json")),
                "beside": figure.beside if figure else "",
                "caption": figure.caption if figure else Path(name).stem,
            }
        )
    return section | {"status": "", "seconds": found["seconds"]}


def _by_map(rows: list[dict[str, Any]], make: Callable[[str, Sequence[dict[str, Any]]], PageTable]) -> list[PageTable]:
    maps = dict.fromkeys(row["map"] for row in rows)
    return [
        make(_NAMES.get(name, Path(name).stem.replace("-", " ")), [row for row in rows if row["map"] == name])
        for name in maps
    ]
