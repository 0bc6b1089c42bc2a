"""The commands that make a certificate from logged outcomes, and that test one on new outcomes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, probability
from capture_cp.base.files import check_writable
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.page import verdict_table, write_certificate_page
from capture_cp.certificates.risks import FAILURE, SUCCESS, Risk, checked_risks
from capture_cp.certificates.standing import Standing
from capture_cp.certificates.verdict import Correction, judge
from capture_cp.commands.cautions import print_alarm, print_cautions
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.html import report_trouble
from capture_cp.report.output import table_of, write_rows

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
        print_cautions(console, self._cautions(episodes, risks))
        if self.json is not None:
            rows = [asdict(one) | {"steps": None if one.steps != one.steps else one.steps} for one in verdict.candidates]
            write_rows(self.json, rows, self)
        if verdict.best is None:
            print_alarm(console, "No setting is certified: allow larger rates, or log more episodes.")
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


@dataclass(frozen=True)
class CheckCertificate:
    """Test whether a certificate still holds on new outcomes, with a false-alarm rate that is valid at all times.

    OUTCOMES is a CSV file with new episodes of the certified setting, in order of time. If failures are no more frequent
    than certified, the probability that there is ever an alarm is at most --alarm, however often you check: one growing
    file, or one new file after another with --history.

    Exit status: 0 no alarm; 1 an alarm; 2 the input cannot be used.
    """

    certificate: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="Certificate from capture certify.", metavar="CERTIFICATE")
    ]
    outcomes: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="CSV file with new episodes.", metavar="OUTCOMES")]
    alarm: Annotated[
        float, tyro.conf.arg(help="Largest probability of a false alarm at any time, over all risks together.")
    ] = 0.01
    setting: SettingColumn = "setting"
    outcome: OutcomeColumn = "outcome"
    history: Annotated[
        Path | None,
        tyro.conf.arg(help="File that records earlier outcomes; OUTCOMES then holds only new ones. Created if missing."),
    ] = None
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the results to this JSON file.")] = None

    def run(self, console: Console) -> None:
        """Check, print what was found, and end with status 1 if there is an alarm."""
        level = probability("alarm", self.alarm)
        check_writable(self.json)
        check_writable(self.history)
        certificate = Certificate.load(self.certificate)
        episodes = Outcomes.read(self.outcomes, self.setting, self.outcome)
        standing = Standing(certificate, level)
        if self.history is not None:
            standing = Standing.begun_or_continued(self.history, certificate, level)
        standing.update(episodes)
        if standing.seen(self.outcomes):
            again = "if these are the same episodes, they now count twice; in that case begin a new --history."
            print_cautions(console, [f"{self.outcomes} has the content of a file that was checked before; {again}"])
        console.print(certificate.claim, highlight=False, markup=False)
        console.print(self._table(standing))
        alarms = standing.alarms
        if self.json is not None:
            rows = [
                {"risk": name, "episodes": watch.episodes, "failures": watch.failures, "log_capital": watch.log_largest}
                for name, watch in standing.watches.items()
            ]
            write_rows(self.json, rows, self, alarm=bool(alarms))
        if self.history is not None:
            standing.save(self.history)  # last, so that outcomes whose check failed can be given again
        if alarms:
            print_alarm(
                console,
                f"The certificate no longer holds: {', '.join(alarms)} more often than certified. Find out what has "
                "changed, and certify again.",
            )
        console.print("No evidence against the certificate.")

    def _table(self, standing: Standing) -> Table:
        since = "this file" if self.history is None else f"all of {self.history}"
        caption = (
            f"Capital bet on more frequent failures, in {since}. An alarm is one of {1 / standing.share:.4g},\n"
            f"which a risk that has not grown reaches at any time with probability at most {standing.share:.2g}.\n"
            "Intervals: exact, 95%."
        )
        rows = []
        for name, watch in standing.watches.items():
            low, high = clopper_pearson(watch.failures, watch.episodes)
            share = f"{100 * watch.failures / watch.episodes:.2f}% [{100 * low:.2f}, {100 * high:.2f}]"
            mark = " ALARM" if name in standing.alarms else ""
            grown = f"{math.exp(min(watch.log_largest, 300.0)):.3g}{mark}"
            rows.append([name, f"{100 * watch.delta:g}%", f"{watch.episodes:,}", share, grown])
        return table_of("New episodes", ("risk", "certified", "episodes", "seen", "capital"), rows, caption)
