"""Output of an experiment: rows in JSON, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import Pathlike, write_json
from capture_cp.conformal.coverage import CoverageRow, clopper_pearson

#: Points of coverage off target from which a table cell is marked.
MARGIN = 0.02


def output_folder(path: Pathlike) -> Path:
    """`path` as a folder, created if needed."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"cannot make the folder {folder}: {error.strerror}; choose another place.") from None
    return folder


def write_rows(path: Pathlike, rows: Sequence[Mapping[str, Any]], config: Any, **more: Any) -> None:
    """Write rows, their settings (a dataclass) and `more` entries as one JSON file."""
    write_json(path, {"schema": 1, "rows": list(rows), **more, "config": asdict(config)})


def table_of(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None, left: Sequence[str] = ()
) -> Table:
    """A table for a terminal: the first column and those in `left` begin at the left, numbers end at the right."""
    table = Table(title=title, caption=caption, caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in (headings[0], *left) else "right")
    for row in rows:
        table.add_row(*row)
    return table


def cell_beside_paper(row: CoverageRow, figure: float | None, target: float) -> str:
    """Coverage in % with the paper's `figure` in brackets, marked where it is off target; under it the 95% interval."""
    if row.n == 0:
        return "-"
    low, high = row.ci95
    mark = "▼" if row.coverage < target - MARGIN else "▲" if row.coverage > target + MARGIN else ""
    beside = "" if figure is None else f" ({100 * figure:.1f})"
    return f"{mark}{100 * row.coverage:.1f}{beside}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"


def beside(text: str, figures: Sequence[float] | None, index: int, form: str) -> str:
    """Our number with the paper's in brackets, where there is one."""
    return text if figures is None or len(figures) <= index else f"{text} ({figures[index]:{form}})"


def share_with_interval(held: int, of: int) -> str:
    """A fraction in % with its exact 95% interval below."""
    if of == 0:
        return "-"
    low, high = clopper_pearson(held, of)
    return f"{100 * held / of:.1f}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"
