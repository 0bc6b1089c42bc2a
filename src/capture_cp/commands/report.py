"""Reports of a calibration: tables in a terminal, and a page with tables and figures of regions."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureWarning, Floats
from capture_cp.base.streams import generator, stream
from capture_cp.capture.capture import Capture
from capture_cp.commands.bundle import LinearModel
from capture_cp.commands.report_figures import MeanVolume, mean_volumes, region_figures
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.conformal.drift import Outcomes, holm
from capture_cp.conformal.episodes import episode_numbers, one_of_each
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.data.transitions import CHUNK, Transitions
from capture_cp.report.html import settings_of, write_page
from capture_cp.report.output import table_of
from capture_cp.report.tables import DASH, Cell, PageTable
from capture_cp.spaces.strata import has_grid

if TYPE_CHECKING:
    from capture_cp.commands.calibrate import Calibrate

TEMPLATES = Path(__file__).parent / "templates"
MOST_GROUPS = 20
#: Largest fraction of reports of exchangeable logs in which anything is marked.
MARKED = 0.05


def coverage_by_stratum(what: str, coverage: Coverage, by_episode: bool) -> Table:
    """Coverage in % with its interval, one row per stratum."""
    unit = "episodes" if by_episode else "transitions"
    kind = "valid for any number of independent episodes" if by_episode else "exact binomial"
    measured = ["mean cells"] if coverage.all.volume is not None else []
    rows = [
        [escape(row.name), *share_cells(row), f"{row.n:,}", *([] if row.volume is None else [f"{row.volume:,.1f}"])]
        for row in (coverage if len(coverage.strata) > 1 else [coverage.all])
    ]
    return table_of(
        f"Coverage on {escape(what)}, target {100 * (1 - coverage.alpha):g}%",
        ["stratum", "coverage, %", "95% interval", unit, *measured],
        rows,
        f"Intervals: 95%, {kind}. Coverage also varies with the calibration sample.",
    )


def share_cells(row: CoverageRow) -> tuple[str, str]:
    """Coverage and its interval in %."""
    if row.n == 0:
        return "-", "-"
    low, high = row.ci95
    return f"{100 * row.coverage:.1f}", f"{100 * low:.1f} - {100 * high:.1f}"


def group_table(groups: Sequence[dict[str, Any]], alpha: float) -> Table:
    """The groups with their sizes and thresholds; if there are many, only the smallest."""
    shown = sorted(groups, key=lambda group: group["calibration"])[:MOST_GROUPS]
    more = len(groups) - len(shown)
    caption = None if more == 0 else f"The {MOST_GROUPS} smallest; {more} larger groups are left out."
    rows = [
        [
            escape(group["group"]),
            f"{group['calibration']:,}",
            "infinite" if group["threshold"] is None else f"{group['threshold']:.4g}",
            "-" if group["coverage"] is None else f"{100 * group['coverage']:.1f}",
        ]
        for group in shown
    ]
    headings = "group", "calibration", "threshold", "coverage, %"
    return table_of(f"Groups and their thresholds at alpha {alpha:g}", headings, rows, caption)


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)  # small groups have been reported already
        volumes = None if has_grid(cap.strata) else mean_volumes(cap, kept, command)
        figures, caption = region_figures(cap, kept, command)
        marked = marks(cap, kept, command.alpha, command.confidence, command.seed)
        write_page(
            file,
            "calibration.html",
            TEMPLATES,
            data=command.data.name,
            alpha=command.alpha,
            confidence=command.confidence,
            linear=command.linear,
            by_episode=command.episode is not None,
            one_group=cap.partition_.n_groups == 1,
            facts=cap.data_,
            coverage=_coverage_table(coverage, marked, volumes),
            measured=volumes is not None,
            marked=MARKED,
            groups=_group_table(groups),
            figures=figures,
            caption=caption,
            cautions=cautions,
            check=check_line(command),
            settings=settings_of(command, ("report", "json", "folder")),
        )


def check_line(command: Calibrate) -> str:
    """The complete command that checks new transitions, run from the same folder."""
    own = [] if command.linear else ["--model", command.model]
    own += [] if command.strata is None else ["--strata", command.strata]
    folder = ("--folder", str(command.folder)) if own and command.folder != Path() else ()
    return shlex.join(["capture", "check", str(command.out), "new.csv", *own, *folder])


def _coverage_table(coverage: Coverage, marked: Mapping[str, str], volumes: Mapping[str, MeanVolume] | None) -> PageTable:
    """Coverage by stratum, with mean cells where there is a grid, or mean volumes where they are known."""
    counted = coverage.all.volume is not None
    size = ["mean cells"] if counted else ["mean volume"] if volumes is not None else []
    lines = {}
    for row in coverage if len(coverage.strata) > 1 else [coverage.all]:
        share, interval = share_cells(row)
        cells = [Cell(share, interval, mark=marked.get(row.name, "")), Cell(f"{row.n:,}")]
        if row.volume is not None:
            cells.append(Cell(f"{row.volume:,.1f}"))
        elif volumes is not None:
            cells.append(_volume_cell(volumes[row.name]))
        lines[row.name] = cells
    return PageTable("Next configurations inside their region", ["coverage, %", "outcomes", *size], lines)


def _volume_cell(volume: MeanVolume) -> Cell:
    if np.isinf(volume.mean):
        return Cell("∞")
    return Cell(f"{volume.mean:.3g}", f"± {volume.error:.1g}" if volume.error else "")


def _group_table(groups: list[dict[str, Any]]) -> PageTable:
    lines = {}
    for group in groups:
        share = DASH if group["coverage"] is None else f"{100 * group['coverage']:.1f}"
        low, high = group["ci95"]
        interval = "" if group["coverage"] is None else f"{100 * low:.1f} - {100 * high:.1f}"
        threshold = "∞" if group["threshold"] is None else f"{group['threshold']:.4g}"
        lines[group["group"]] = [Cell(f"{group['calibration']:,}"), Cell(threshold), Cell(share, interval)]
    return PageTable("Thresholds and held-out coverage by group", ["calibration set", "threshold", "coverage, %"], lines)


def _scores(cap: Capture, X: Floats, Y: Floats, seed: int) -> Floats:
    """Scores (n,) of outcomes Y (n, dc) under predictions at X (n, dx)."""
    # the linear model draws the same numbers for parts of X in turn; another model may draw others
    each, rng = CHUNK if isinstance(cap.model, LinearModel) else max(1, len(X)), generator(seed)
    parts = [slice(first, first + each) for first in range(0, len(X), each)]
    return np.concatenate([np.empty(0), *(cap.scores(cap.predict(X[part], rng), Y[part]) for part in parts)])


def marks(cap: Capture, log: Transitions, alpha: float, confidence: float | None, seed: int) -> dict[str, str]:
    """Rows of a coverage table, strata and "all", off target by more than sampling variation: "too low" or "too high".

    `log` holds transitions outside the calibration set; of each episode, one random step is tested. If it is exchangeable
    with the calibration's log, anything is marked with probability at most `MARKED`: two-sided tests, Holm's correction.
    """
    X, Y = log.X, log.next
    if log.episode is not None:
        rows = one_of_each(episode_numbers(log.episode, len(X)), stream(seed, "marks"))
        X, Y = X[rows], Y[rows]
    m = cap.index(Y)
    assert isinstance(cap.calibration_, GroupScores | EpisodeScores)
    R, known = _scores(cap, X, Y, seed), cap.calibration_.single
    held = cap.group_thresholds(alpha, confidence=confidence)[cap.partition_.groups(X, m)] >= R
    outcomes = Outcomes.of(known, R, cap.partition_.grown.groups(X, m), held, alpha, confidence)
    where = {"all": np.ones(len(X), dtype=bool)}
    if len(cap.strata.names) > 1:
        where |= {name: m == i for i, name in enumerate(cap.strata.names)}
        for name, others in cap.merged_.items():  # guaranteed together, and so tested together
            here = np.any([where[part] for part in (name, *others)], axis=0)
            for part in (name, *others):
                where[part] = here
    sides = {name: (outcomes.shortfall(here), outcomes.excess(here)) for name, here in where.items() if here.any()}
    corrected = holm([min(1.0, 2 * min(both)) for both in sides.values()])
    found = zip(sides.items(), corrected)
    return {name: "too low" if low < high else "too high" for (name, (low, high)), p in found if p <= MARKED}
