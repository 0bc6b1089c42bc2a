"""The report of a calibration: tables, and regions where there is a plane to draw them in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.conformal.coverage import Coverage
from capture_cp.data.transitions import Transitions
from capture_cp.logs.luck import MARKED, marks
from capture_cp.logs.tables import share_cells
from capture_cp.report.html import settings_of, write_page
from capture_cp.report.tables import DASH, Cell, PageTable
from capture_cp.spaces.plotting import label, plot_strata, pyplot
from capture_cp.spaces.strata import GriddedStrata

if TYPE_CHECKING:
    from capture_cp.logs.calibrate import Calibrate

TEMPLATES = Path(__file__).parent / "templates"
MOST_REGIONS = 6


def write_report(
    file: Path,
    command: Calibrate,
    cap: Capture,
    coverage: Coverage,
    groups: list[dict[str, Any]],
    kept: Transitions,
    cautions: list[str],
) -> None:
    """Draw the figures and write the page."""
    with TemporaryDirectory() as scratch:
        regions = Path(scratch) / "regions.png"
        drawn = _draw_regions(cap, kept, command, regions)
        write_page(
            file,
            "calibration.html",
            TEMPLATES,
            data=command.data.name,
            alpha=command.alpha,
            confidence=command.confidence,
            linear=command._linear,
            by_episode=command.episode is not None,
            facts=cap.data_,
            coverage=_coverage_table(coverage, marks(cap, kept, command.alpha, command.confidence, command.seed)),
            marked=MARKED,
            groups=_group_table(groups),
            regions=regions if drawn else None,
            cautions=cautions,
            check=check_line(command),
            settings=settings_of(command, ("report", "json", "folder")),
        )


def check_line(command: Calibrate) -> str:
    """The command that checks new transitions, complete: to be pasted where this one was run."""
    own = [] if command._linear else ["--model", command.model]
    own += [] if command.strata is None else ["--strata", command.strata]
    folder = ("--folder", str(command.folder)) if own and command.folder != Path() else ()
    return shlex.join(["capture", "check", str(command.out), "new.csv", *own, *folder])


def _coverage_table(coverage: Coverage, marked: Mapping[str, str]) -> PageTable:
    lines = {}
    for row in coverage if len(coverage.strata) > 1 else [coverage.all]:
        share, interval = share_cells(row)
        cells = DASH if row.volume is None else f"{row.volume:,.1f}"
        lines[row.name] = [Cell(share, interval, mark=marked.get(row.name, "")), Cell(f"{row.n:,}"), Cell(cells)]
    return PageTable("Next configurations inside the region, per cent", ["coverage", "outcomes", "mean cells"], lines)


def _group_table(groups: list[dict[str, Any]]) -> PageTable:
    lines = {}
    for group in groups:
        share = DASH if group["coverage"] is None else f"{100 * group['coverage']:.1f}"
        low, high = group["ci95"]
        interval = "" if group["coverage"] is None else f"{100 * low:.1f} - {100 * high:.1f}"
        threshold = "∞" if group["threshold"] is None else f"{group['threshold']:.4g}"
        lines[group["group"]] = [Cell(f"{group['calibration']:,}"), Cell(threshold), Cell(share, interval)]
    return PageTable("Groups", ["calibrated on", "threshold", "coverage, %"], lines)


def _draw_regions(cap: Capture, kept: Transitions, command: Calibrate, file: Path) -> bool:
    """Regions of a few inputs, the typical ones of each stratum; False where there is no plane to draw them in."""
    strata = cap.strata
    if not isinstance(strata, GriddedStrata) or strata.grid is None or strata.grid.dims != 2:
        return False
    plt = pyplot()
    rows = _typical(cap, kept)
    figure, panels = plt.subplots(1, len(rows), figsize=(3.4 * len(rows), 4.1), layout="constrained", squeeze=False)
    for ax, row in zip(panels[0], rows):
        plot_strata(strata, ax)
        region = cap.region(kept.X[row], command.alpha, command.confidence, rng=derived_seed(command.seed, row))
        region.plot(ax)
        ax.plot(*kept.Y[row], "x", color="#b3400a", ms=9, mew=2.2, label="what happened", zorder=5)
        ax.set(xlabel=label(kept.next_names[0]), ylabel=label(kept.next_names[1]))
        _frame(ax, region, kept.Y[row], strata)
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)
    figure.savefig(file, dpi=130, bbox_inches="tight")
    plt.close(figure)
    return True


def _typical(cap: Capture, kept: Transitions) -> list[int]:
    """For each stratum in turn, outcomes spread evenly over those that ended there: row numbers."""
    labels = np.asarray(cap.strata.index(kept.Y))
    present = [np.flatnonzero(labels == m) for m in range(len(cap.strata.names)) if (labels == m).any()][:MOST_REGIONS]
    each = max(1, 4 // len(present))
    return [int(rows[len(rows) * (2 * i + 1) // (2 * each)]) for rows in present for i in range(min(each, len(rows)))]


def _frame(ax: Any, region: Any, outcome: Any, strata: GriddedStrata) -> None:
    """Show the region, its particles and the outcome, and a margin."""
    grid = strata.require_grid()
    particles = region.prediction[0] if isinstance(region.prediction, np.ndarray) else region.prediction.mean
    shown = np.vstack([grid.centre(region.cells()), np.atleast_2d(particles), outcome])
    low, high = shown.min(axis=0), shown.max(axis=0)
    half = 0.6 * max(float((high - low).max()), 12 * float(grid.spacing.max()))
    middle = (low + high) / 2
    ax.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
