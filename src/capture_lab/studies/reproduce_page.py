"""The index page of a reproduction: every table and figure with the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capture_cp.report.html import embedded, write_page
from capture_cp.report.tables import PageTable, coverage_page_table, draw_coverage, planning_page_table
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.paper import Paper
from capture_lab.studies.reproduce import NOT_YET, Part, Reproduction, table_file


def write_index(work: Reproduction, scratch: Path) -> None:
    """Write the page with all parts, finished or not; charts are drawn into `scratch`."""
    sizes = {part.name: "; ".join(_words(size) for size in part.sizes) for part in work.parts}
    sections = [_section(work, part, scratch) for part in work.parts]
    write_page(work.folder / "index.html", "reproduce.html", scale=work.scale, sizes=sizes, sections=sections)


def _section(work: Reproduction, part: Part, scratch: Path) -> dict[str, Any]:
    found = work.finished(part)
    section: dict[str, Any] = {"name": part.name, "title": part.about["title"], "tables": [], "figures": []}
    if found is None:
        return section | {"status": part.trouble or NOT_YET}
    for table in part.about["tables"]:
        rows = part.rows_of(table, found["rows"])
        entry = {"number": table["number"], "title": table["title"], "file": table_file(table), "chart": None}
        entry["tables"] = _tables(part, rows)
        if part.about["study"] == CoverageStudy.command and len(entry["tables"]) == 1:
            chart = scratch / f"chart-{table['number']}.svg"
            draw_coverage(rows, chart)
            entry["chart"] = embedded(chart)
        section["tables"].append(entry)
    for name in found["figures"]:
        figure, data = part.figure_of(Path(name)), str(Path(name).with_suffix(".json"))
        about = {"beside": figure["paper"] or "", "caption": figure["caption"]}
        section["figures"].append({"picture": work.folder / name, "file": name, "data": data} | about)
    return section | {"status": "", "seconds": found["seconds"]}


def _tables(part: Part, rows: list[dict[str, Any]]) -> list[PageTable]:
    """One table per place."""
    paper, tables = Paper.of(part.studies[0].task), []
    for place in dict.fromkeys(row["map"] for row in rows):
        title, here = paper.place_name(place), [row for row in rows if row["map"] == place]
        if part.about["study"] == CoverageStudy.command:
            tables.append(coverage_page_table(title, here))
        else:
            tables.append(planning_page_table(title, here, paper.planning_columns))
    return tables


def _words(size: Any) -> str:
    return ", ".join(f"{key} {_word(value)}" for key, value in size.items())


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
