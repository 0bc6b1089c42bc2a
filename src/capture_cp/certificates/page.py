"""A verdict as a table, and a certificate as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from capture_cp.base.checks import CaptureError
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.verdict import Candidate, Verdict
from capture_cp.report.html import report_trouble, write_page


def verdict_table(title: str, verdict: Verdict) -> Table:
    """Every candidate with its failures, and whether it is certified."""
    least = any(risk.delta is None for risk in verdict.risks)
    table = Table(title=title, caption=_caption(verdict, least), caption_justify="left")
    table.add_column("setting")
    table.add_column("episodes", justify="right")
    for risk in verdict.risks:
        limit = "" if risk.delta is None else f"\nat most {100 * risk.delta:g}%"
        table.add_column(f"{risk.name}{limit}", justify="right")
    for heading in ("success", "steps", "", "verdict"):
        table.add_column(heading, justify="right")
    best = verdict.best
    for candidate in verdict.candidates:
        cells = [_cell(candidate, risk.name, least) for risk in verdict.risks]
        steps = "-" if candidate.steps != candidate.steps else f"{candidate.steps:g}"
        p = "" if least or not candidate.episodes else f"p = {candidate.p_value:.2g}"
        mark = "not tried" if not candidate.episodes else "no" if not candidate.certified else "" if least else "certified"
        success = f"{100 * candidate.success:.1f}%" if candidate.episodes else "-"
        table.add_row(
            candidate.name, f"{candidate.episodes:,}", *cells, success, steps, p, "best" if candidate is best else mark
        )
    return table


def _cell(candidate: Candidate, risk: str, least: bool) -> str:
    if not candidate.episodes:
        return "-"
    share = f"{candidate.failures[risk]} ({100 * candidate.failures[risk] / candidate.episodes:.1f}%)"
    return f"{share}\nat most {100 * candidate.bounds[risk]:.2f}%" if least else share


def _caption(verdict: Verdict, least: bool) -> str:
    what = "Bounds hold for all settings and risks" if least else "All certified settings keep all rates"
    return (
        f"{what} at once, with {100 * (1 - verdict.beta):g}% confidence over these episodes. Steps: median of successful "
        "episodes.\n"
        f"{'Best: lowest bound' if least else 'Best: most success'}, then fewest steps."
    )


def write_certificate_page(file: Path, certificate: Certificate) -> None:
    """Write the certificate as one HTML file that opens without a network."""
    trouble = report_trouble()
    if trouble:
        raise CaptureError(f"the page cannot be written: {trouble}")
    low, high = certificate.success_interval
    success = f"{100 * certificate.successes / certificate.episodes:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
    risks = {
        risk.name: _cells(
            f"{100 * float(risk.delta or 1):g}%",
            f"{certificate.failures[risk.name]} of {certificate.episodes}",
            ("every outcome but " if risk.others else "") + ", ".join(risk.outcomes),
        )
        for risk in certificate.risks
    }
    facts: dict[str, Any] = {
        "about": certificate.about,
        "setting": certificate.setting,
        "episodes": f"{certificate.episodes:,}",
        "success, 95% interval": success,
        "steps, median": "unknown" if certificate.steps is None else f"{certificate.steps:g}",
        "made": certificate.date,
    }
    tried = {
        one["name"]: _cells(
            f"{one['episodes']:,}",
            *(f"{one['failures'][risk.name]}" for risk in certificate.risks),
            f"{100 * one['successes'] / one['episodes']:.1f}%" if one["episodes"] else "-",
            "yes" if one["certified"] else "no",
        )
        for one in certificate.tried
    }
    write_page(
        file,
        "certificate.html",
        Path(__file__).parent / "templates",
        certificate=certificate,
        facts=facts,
        risks={"title": "Risks", "columns": ["certified at most", "seen", "outcomes"], "lines": risks},
        tried={
            "title": "Every setting that was tried",
            "columns": ["episodes", *(risk.name for risk in certificate.risks), "success", "certified"],
            "lines": tried,
        },
        settings={name: str(value) for name, value in certificate.settings.items()},
        fingerprints=certificate.fingerprints | {"this certificate": certificate.fingerprint},
    )


def _cells(*texts: str) -> list[dict[str, str]]:
    """Cells of a table in the form the template expects."""
    return [{"ours": text, "mark": "", "interval": "", "paper": ""} for text in texts]
