"""The command that makes a certificate from logged outcomes, without a simulator or a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, probability
from capture_cp.base.files import check_writable
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.page import verdict_table, write_certificate_page
from capture_cp.certificates.risks import FAILURE, SUCCESS, Risk, checked_risks
from capture_cp.certificates.verdict import Correction, judge
from capture_cp.report.html import report_trouble
from capture_cp.report.output import write_rows

SettingColumn = Annotated[
    str, tyro.conf.arg(help="Column with the name of the setting; not needed if there is only one.", metavar="COLUMN")
]
OutcomeColumn = Annotated[str, tyro.conf.arg(help="Column with the outcome of the episode.", metavar="COLUMN")]


@dataclass(frozen=True)
class CertifyOutcomes:
    """Bound a planner's failure rate from a CSV file of logged episodes, one per line, in order of time.

    The columns are the setting and the outcome of each episode, and its steps if known. Episodes must be independent, and
    the settings fixed beforehand: a setting that was dropped because it failed belongs in the file, or in --ladder. If the
    number of episodes was not fixed beforehand, for example because you stopped when the results looked good, give
    --anytime.

    Exit status: 0 a setting is certified; 1 none is; 2 the input cannot be used.
    """

    outcomes: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="CSV file with episodes.", metavar="OUTCOMES")]
    risks: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="Outcomes and their largest rates, such as fell=0.02; failure is every outcome but success."),
    ] = (FAILURE,)
    beta: Annotated[float, tyro.conf.arg(help="Largest probability of a false certificate.")] = 0.05
    ladder: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="All settings, the safest first; they are tested in this order, which must be fixed beforehand."),
    ] = ()
    anytime: Annotated[bool, tyro.conf.arg(help="The number of episodes was not fixed beforehand.")] = False
    setting: SettingColumn = "setting"
    outcome: OutcomeColumn = "outcome"
    steps: Annotated[str, tyro.conf.arg(help="Column with the number of steps, if there is one.", metavar="COLUMN")] = (
        "steps"
    )
    success: Annotated[str, tyro.conf.arg(help="The outcome that counts as success.")] = SUCCESS
    about: Annotated[str | None, tyro.conf.arg(help="Description of the system, printed on the certificate.")] = None
    certificate: Annotated[Path | None, tyro.conf.arg(help="File for the certificate, .json.")] = None
    report: Annotated[Path | None, tyro.conf.arg(help="File for the certificate as an HTML page.")] = None
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the results to this JSON file.")] = None

    def run(self, console: Console) -> None:
        """Judge, print the verdict, write the certificate; status 1 if there is none."""
        risks = self._checked()
        episodes = Outcomes.read(self.outcomes, self.setting, self.outcome, self.steps)
        ladder: dict[str, dict[str, Any]] | None = {name: {} for name in self.ladder} or None
        correction: Correction = "sequence" if self.ladder else "holm"
        verdict = judge(episodes, risks, self.beta, correction, self.anytime, ladder, self.success)
        console.print(verdict_table(self.outcomes.name, verdict))
        for caution in self._cautions(episodes, risks):
            console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)
        if self.json is not None:
            rows = [asdict(one) | {"steps": None if one.steps != one.steps else one.steps} for one in verdict.candidates]
            write_rows(self.json, rows, self)
        if verdict.best is None:
            console.print("No setting is certified: allow larger rates, or log more episodes.", style="red")
            raise SystemExit(1)
        certificate = Certificate.of(verdict, self.about or self.outcomes.stem)
        console.print(certificate.claim, style="green", highlight=False, markup=False)
        if self.certificate is not None:
            certificate.save(self.certificate)
        if self.report is not None:
            write_certificate_page(self.report, certificate)

    def _checked(self) -> tuple[Risk, ...]:
        probability("beta", self.beta)
        if len(set(self.ladder)) < len(self.ladder):
            raise CaptureError("a setting appears twice in --ladder; name each once.")
        for file in (self.certificate, self.report, self.json):
            check_writable(file)
        trouble = report_trouble() if self.report is not None else None
        if trouble:
            raise CaptureError(f"--report cannot be made: {trouble}")
        return checked_risks([Risk.parse(text, self.success) for text in self.risks])

    def _cautions(self, episodes: Outcomes, risks: tuple[Risk, ...]) -> list[str]:
        """What may have been misspelled."""
        seen = Counter(episodes.outcome.tolist())
        named = dict.fromkeys(name for risk in risks for name in (*risk.outcomes, self.success))
        listed = ", ".join(f"{name} {count}" for name, count in seen.most_common(8))
        return [
            f"no episode ended in {name!r}; is it spelled as in the file? There: {listed}."
            for name in named
            if name not in seen
        ]
