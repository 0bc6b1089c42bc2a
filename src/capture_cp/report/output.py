"""Output of an experiment: rows in JSON, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from rich.table import Table

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import Pathlike, write_json
from capture_cp.conformal.coverage import Coverage, CoverageRow, clopper_pearson

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


def coverage_table(title: str, results: Mapping[str, Coverage], reference: str) -> Table:
    """Coverage in % with its 95% interval, one row per method; volumes as a ratio to the method `reference`."""
    first = next(iter(results.values()))
    table = Table(title=title, caption=_caption(first.alpha, reference), caption_justify="left")
    table.add_column("method")
    for row in first:
        table.add_column(row.name, justify="right")
    table.add_column("volume", justify="right")
    unit = results[reference].all.volume if reference in results else None
    for name, result in results.items():
        volume = result.all.volume
        ratio = f"{volume / unit:.2f}" if volume is not None and unit and isfinite(unit) else "-"
        table.add_row(name, *(_cell(row, 1 - result.alpha) for row in result), ratio)
    return table


def cell_beside_paper(row: CoverageRow, figure: float | None) -> str:
    """Coverage in % with the paper's `figure` in brackets, and the 95% interval under it."""
    if row.n == 0:
        return "-"
    low, high = row.ci95
    beside = "" if figure is None else f" ({100 * figure:.1f})"
    return f"{100 * row.coverage:.1f}{beside}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"


def _caption(alpha: float, reference: str) -> str:
    return (
        f"Next configurations inside their region, %, target {100 * (1 - alpha):g}.\n"
        f"▼ over {100 * MARGIN:g} points below target, ▲ over {100 * MARGIN:g} above. Volume: ratio to {reference}.\n"
        "Intervals: exact binomial, 95%, for the test set alone; coverage also\nvaries with the calibration sample."
    )


def _cell(row: CoverageRow, target: float) -> str:
    if row.n == 0:
        return "-"
    low, high = row.ci95
    mark = "▼ " if row.coverage < target - MARGIN else "▲ " if row.coverage > target + MARGIN else ""
    return f"{mark}{100 * row.coverage:.1f}\n[dim]{100 * low:.1f} - {100 * high:.1f}[/dim]"


def beside(text: str, figures: Sequence[float] | None, index: int, form: str) -> str:
    """Our number with the paper's in brackets, where there is one."""
    return text if figures is None or len(figures) <= index else f"{text} ({figures[index]:{form}})"


def share_with_interval(held: int, of: int) -> str:
    """A fraction in % with its exact 95% interval below."""
    if of == 0:
        return "-"
    low, high = clopper_pearson(held, of)
    return f"{100 * held / of:.1f}\n[dim]{100 * low:.1f}-{100 * high:.1f}[/dim]"
