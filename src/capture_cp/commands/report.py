"""What is reported of a calibration: tables, in a terminal and on a page alike, and the page with figures of regions."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureWarning
from capture_cp.base.streams import generator, stream
from capture_cp.capture.capture import Capture
from capture_cp.commands.bundle import input_names
from capture_cp.commands.report_figures import region_figures
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.conformal.drift import Outcomes, holm
from capture_cp.conformal.episodes import episode_numbers, one_of_each
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.data.transitions import Transitions
from capture_cp.report.html import settings_of, write_page
from capture_cp.report.tables import Cell, PageTable

if TYPE_CHECKING:
    from capture_cp.commands.calibrate import Calibrate

TEMPLATES = Path(__file__).parent / "templates"
MOST_GROUPS = 20
#: Largest fraction of reports of exchangeable logs in which anything is marked.
MARKED = 0.05
GroupRows = list[dict[str, Any]]


# -- tables -------------------------------------------------------------------------------------------------------------


def coverage_table(what: str, coverage: Coverage, by_episode: bool, marked: Mapping[str, str] | None = None) -> PageTable:
    """Coverage in % by stratum, with mean cells where there is a grid; rows may be `marked`."""
    size, lines = [] if coverage.all.volume is None else ["mean cells"], {}
    for row in coverage if len(coverage.strata) > 1 else [coverage.all]:
        cells = [] if row.volume is None else [Cell(f"{row.volume:,.1f}")]
        lines[row.name] = [_share(row, (marked or {}).get(row.name, "")), Cell(f"{row.n:,}"), *cells]
    unit, kind = "transitions", "exact binomial"
    if by_episode:
        unit, kind = "episodes", "valid for any number of independent episodes"
    note = f"Intervals: 95%, {kind}. Coverage also varies with the calibration sample."
    title = f"Coverage on {what}, target {100 * (1 - coverage.alpha):g}%"
    return PageTable(title, ["coverage, %", unit, *size], lines, note)


def _share(row: CoverageRow, mark: str = "") -> Cell:
    if row.n == 0:
        return Cell("-")
    low, high = row.ci95
    return Cell(f"{100 * row.coverage:.1f}", f"{100 * low:.1f} - {100 * high:.1f}", mark=mark)


def group_rows(cap: Capture, coverage: Coverage, alpha: float, confidence: float | None) -> GroupRows:
    """Every group with its threshold and its coverage, as JSON values."""
    names, q = input_names(cap), cap.group_thresholds(alpha, confidence=confidence)
    return [
        {
            "group": cap.describe_group(j, names),
            "calibration": row.calibration,
            "threshold": float(q[j]) if np.isfinite(q[j]) else None,
            "coverage": row.coverage if row.n else None,
            "ci95": list(row.ci95),
            "n": row.n,
        }
        for j, row in enumerate(coverage.groups)
    ]


def group_table(groups: GroupRows, coverage: Coverage, most: int | None = None) -> PageTable:
    """The groups with their sizes and thresholds; at most so many, the smallest."""
    order = range(len(groups)) if most is None else np.argsort([one["calibration"] for one in groups], kind="stable")[:most]
    lines = {}
    for group, row in ((groups[j], coverage.groups[j]) for j in order):
        threshold = "infinite" if group["threshold"] is None else f"{group['threshold']:.4g}"
        lines[group["group"]] = [Cell(f"{group['calibration']:,}"), Cell(threshold), _share(row)]
    more = len(groups) - len(lines)
    note = f"The {most} smallest; {more} larger groups are left out." if more else ""
    title = f"Groups and their thresholds at alpha {coverage.alpha:g}"
    return PageTable(title, ["calibration", "threshold", "coverage, %"], lines, note)


# -- the page -----------------------------------------------------------------------------------------------------------


def write_report(
    file: Path,
    command: Calibrate,
    cap: Capture,
    coverage: Coverage,
    groups: GroupRows,
    kept: Transitions,
    cautions: Sequence[str],
) -> None:
    """Draw the figures and write the page."""
    by_episode = command.episode is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)  # small groups have been reported already
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
            by_episode=by_episode,
            one_group=cap.partition_.n_groups == 1,
            facts=cap.data_,
            coverage=coverage_table("what was held out", coverage, by_episode, marked),
            marked=MARKED,
            groups=group_table(groups, coverage),
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


def marks(cap: Capture, log: Transitions, alpha: float, confidence: float | None, seed: int) -> dict[str, str]:
    """Rows of a coverage table, strata and "all", off target by more than sampling variation: "too low" or "too high".

    `log` holds transitions outside the calibration set; of each episode, one random step is tested. If it is exchangeable
    with the calibration's log, anything is marked with probability at most `MARKED`: two-sided tests, Holm's correction.
    """
    X, Y = log.X, log.next
    if log.episode is not None:
        rows = one_of_each(episode_numbers(log.episode, len(X)), stream(seed, "marks"))
        X, Y = X[rows], Y[rows]
    m, R = cap.index(Y), cap.scores(cap.predict(X, generator(seed)), Y)
    assert isinstance(cap.calibration_, GroupScores | EpisodeScores)
    held = cap.group_thresholds(alpha, confidence=confidence)[cap.partition_.groups(X, m)] >= R
    groups = cap.partition_.grown.groups(X, m)
    outcomes = Outcomes.of(cap.calibration_.single, R, groups, held, alpha, confidence)
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
