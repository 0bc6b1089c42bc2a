"""Tables for people about one calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from capture_cp.conformal.coverage import Coverage, CoverageRow

MOST_GROUPS = 20


def coverage_by_stratum(what: str, coverage: Coverage, by_episode: bool) -> Table:
    """Coverage in per cent with its interval, one row per stratum."""
    unit = "episodes" if by_episode else "transitions"
    kind = "valid for any number of independent episodes" if by_episode else "exact binomial"
    luck = "Coverage also varies with the calibration sample."
    table = Table(
        title=f"Coverage on {escape(what)}, target {100 * (1 - coverage.alpha):g} %",
        caption=f"Intervals: 95 %, {kind}. {luck}",
        caption_justify="left",
    )
    table.add_column("stratum")
    measured = coverage.all.volume is not None
    for heading in ("coverage, %", "95 % interval", unit, *(["mean cells"] if measured else [])):
        table.add_column(heading, justify="right")
    for row in coverage if len(coverage.strata) > 1 else [coverage.all]:
        cells = [f"{row.volume:,.1f}"] if row.volume is not None else []
        table.add_row(escape(row.name), *share_cells(row), f"{row.n:,}", *cells)
    return table


def share_cells(row: CoverageRow) -> tuple[str, str]:
    """Coverage and its interval in per cent."""
    if row.n == 0:
        return "-", "-"
    low, high = row.ci95
    return f"{100 * row.coverage:.1f}", f"{100 * low:.1f} - {100 * high:.1f}"


def group_table(groups: Sequence[dict[str, Any]], alpha: float) -> Table:
    """The groups with their sizes and thresholds; of many, the smallest."""
    shown = sorted(groups, key=lambda group: group["calibration"])[:MOST_GROUPS]
    more = len(groups) - len(shown)
    table = Table(
        title=f"Groups and their thresholds at alpha {alpha:g}",
        caption=None if more == 0 else f"The {MOST_GROUPS} smallest; {more} larger groups are left out.",
    )
    table.add_column("group")
    for heading in ("calibration", "threshold", "coverage, %"):
        table.add_column(heading, justify="right")
    for group in shown:
        share = "-" if group["coverage"] is None else f"{100 * group['coverage']:.1f}"
        threshold = "infinite" if group["threshold"] is None else f"{group['threshold']:.4g}"
        table.add_row(escape(group["group"]), f"{group['calibration']:,}", threshold, share)
    return table
