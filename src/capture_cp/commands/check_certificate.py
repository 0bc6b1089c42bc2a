"""The command that tests a certificate on new outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import probability
from capture_cp.base.files import check_writable
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.standing import Standing
from capture_cp.commands.certify import OutcomeColumn, SettingColumn
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.output import write_rows


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
        standing = (
            Standing(certificate, level)
            if self.history is None
            else Standing.begun_or_continued(self.history, certificate, level)
        )
        standing.update(episodes)
        if standing.seen(self.outcomes):
            console.print(
                f"warning: {self.outcomes} has the content of a file that was checked before; if these are the same "
                "episodes, they now count twice; in that case begin a new --history.",
                style="yellow",
                highlight=False,
                markup=False,
            )
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
            console.print(
                f"The certificate no longer holds: {', '.join(alarms)} more often than certified. Find out what has "
                "changed, and certify again.",
                style="red",
                highlight=False,
                markup=False,
            )
            raise SystemExit(1)
        console.print("No evidence against the certificate.")

    def _table(self, standing: Standing) -> Table:
        since = "this file" if self.history is None else f"all of {self.history}"
        table = Table(
            title="New episodes",
            caption=f"Capital bet on more frequent failures, in {since}. An alarm is one of {1 / standing.share:.4g},\n"
            f"which a risk that has not grown reaches at any time with probability at most {standing.share:.2g}.\n"
            "Intervals: exact, 95%.",
            caption_justify="left",
        )
        for heading in ("risk", "certified", "episodes", "seen", "capital"):
            table.add_column(heading, justify="left" if heading == "risk" else "right")
        for name, watch in standing.watches.items():
            low, high = clopper_pearson(watch.failures, watch.episodes)
            share = f"{100 * watch.failures / watch.episodes:.2f}% [{100 * low:.2f}, {100 * high:.2f}]"
            mark = " ALARM" if name in standing.alarms else ""
            grown = f"{math.exp(min(watch.log_largest, 300.0)):.3g}{mark}"
            table.add_row(name, f"{100 * watch.delta:g}%", f"{watch.episodes:,}", share, grown)
        return table
