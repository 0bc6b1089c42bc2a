"""A verdict as a table, and a certificate as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from capture_cp.base.checks import CaptureError
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.verdict import Candidate, Verdict
from capture_cp.report.html import report_trouble, write_page
from capture_cp.report.output import table_of
from capture_cp.report.tables import Cell, PageTable


def verdict_table(title: str, verdict: Verdict) -> Table:
    """Every candidate with its failures, and whether it is certified."""
    least = any(risk.delta is None for risk in verdict.risks)
    limits = ["" if risk.delta is None else f"\nat most {100 * risk.delta:g}%" for risk in verdict.risks]
    named = [f"{risk.name}{limit}" for risk, limit in zip(verdict.risks, limits)]
    best, rows = verdict.best, []
    for candidate in verdict.candidates:
        cells = [_cell(candidate, risk.name, least) for risk in verdict.risks]
        steps = "-" if candidate.steps != candidate.steps else f"{candidate.steps:g}"
        p = "" if least or not candidate.episodes else f"p = {candidate.p_value:.2g}"
        mark = "not tried" if not candidate.episodes else "no" if not candidate.certified else "" if least else "certified"
        success = f"{100 * candidate.success:.1f}%" if candidate.episodes else "-"
        ends = [success, steps, p, "best" if candidate is best else mark]
        rows.append([candidate.name, f"{candidate.episodes:,}", *cells, *ends])
    what = "Bounds hold for all settings and risks" if least else "All certified settings keep all rates"
    caption = (
        f"{what} at once, with {100 * (1 - verdict.beta):g}% confidence over these episodes. Steps: median of successful "
        f"episodes.\n{'Best: lowest bound' if least else 'Best: most success'}, then fewest steps."
    )
    return table_of(title, ["setting", "episodes", *named, "success", "steps", "", "verdict"], rows, caption)


def _cell(candidate: Candidate, risk: str, least: bool) -> str:
    if not candidate.episodes:
        return "-"
    share = f"{candidate.failures[risk]} ({100 * candidate.failures[risk] / candidate.episodes:.1f}%)"
    return f"{share}\nat most {100 * candidate.bounds[risk]:.2f}%" if least else share


def write_certificate_page(file: Path, certificate: Certificate) -> None:
    """Write the certificate as one HTML file that opens without a network."""
    trouble = report_trouble()
    if trouble:
        raise CaptureError(f"the page cannot be written: {trouble}")
    low, high = certificate.success_interval
    success = f"{100 * certificate.successes / certificate.episodes:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
    facts: dict[str, Any] = {
        "about": certificate.about,
        "setting": certificate.setting,
        "episodes": f"{certificate.episodes:,}",
        "success, 95% interval": success,
        "steps, median": "unknown" if certificate.steps is None else f"{certificate.steps:g}",
        "made": certificate.date,
    }
    risks, tried = {}, {}
    for risk in certificate.risks:
        ends = ("every outcome but " if risk.others else "") + ", ".join(risk.outcomes)
        seen = f"{certificate.failures[risk.name]} of {certificate.episodes}"
        risks[risk.name] = [Cell(f"{100 * float(risk.delta or 1):g}%"), Cell(seen), Cell(ends)]
    for one in certificate.tried:
        failures = [f"{one['failures'][risk.name]}" for risk in certificate.risks]
        share = f"{100 * one['successes'] / one['episodes']:.1f}%" if one["episodes"] else "-"
        texts = f"{one['episodes']:,}", *failures, share, "yes" if one["certified"] else "no"
        tried[one["name"]] = list(map(Cell, texts))
    names = [risk.name for risk in certificate.risks]
    write_page(
        file,
        "certificate.html",
        Path(__file__).parent / "templates",
        certificate=certificate,
        facts=facts,
        risks=PageTable("Risks", ["certified at most", "seen", "outcomes"], risks),
        tried=PageTable("Every setting that was tried", ["episodes", *names, "success", "certified"], tried),
        settings={name: str(value) for name, value in certificate.settings.items()},
        fingerprints=certificate.fingerprints | {"this certificate": certificate.fingerprint},
    )
