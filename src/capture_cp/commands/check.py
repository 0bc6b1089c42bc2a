"""The command that tests a saved calibration on a new batch of transitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureError, failure_rate, probability, whole_number
from capture_cp.base.files import check_writable
from capture_cp.commands import options
from capture_cp.commands.batch import BatchCheck, History, check_log
from capture_cp.commands.bundle import robot_facts
from capture_cp.commands.cautions import listening, log_cautions, print_alarm, print_cautions
from capture_cp.commands.computing import Computing, ComputingOptions
from capture_cp.commands.reading import Remembered, beginning, made_from, opened
from capture_cp.commands.report import coverage_table
from capture_cp.report.output import table_of, write_rows


@dataclass(frozen=True)
class Check(Remembered):
    """Test a calibration on a new batch of transitions: coverage with intervals, and tests for drift.

    CALIBRATION is a file from `capture calibrate` or Capture.save, or the .toml file given to `capture calibrate`. DATA is
    any log that `capture calibrate` accepts, with its rows in order of time.

    There are four tests: whether the scores, in their order, look like those of the calibration (a conformal test
    martingale); in which strata they do not; whether coverage is below 1 - alpha by more than chance; and which inputs are
    distributed differently. If nothing has changed, the probability of any alarm in one batch is at most --alarm.

    To check repeatedly, for example every night, give --history, a file that records earlier batches. --alarm then bounds
    the probability of a false alarm over all batches together.

    To check a certificate of `capture certify` on new episodes: capture check CERTIFICATE OUTCOMES.csv.

    Exit status: 0 no alarm; 1 an alarm, the coverage guarantee no longer holds; 2 the input cannot be used.
    """

    calibration: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration, or a .toml file.", metavar="CALIBRATION")
    ]
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Log with new transitions.", metavar="DATA")]
    episode: options.EpisodeColumn = None
    alpha: Annotated[
        float | None, tyro.conf.arg(help="Allowed failure rate; by default that of the calibration, or 0.1.")
    ] = None
    confidence: options.Confidence = None
    alarm: Annotated[float, tyro.conf.arg(help="Largest probability of a false alarm, over all tests together.")] = 0.01
    history: Annotated[
        Path | None,
        tyro.conf.arg(
            help="File that records earlier batches, so that --alarm holds for all of them together; created if missing."
        ),
    ] = None
    computing: ComputingOptions = field(default_factory=Computing)
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the results to this JSON file.")] = None
    seed: Annotated[
        int,
        tyro.conf.arg(
            help="Random seed for particles, ties and steps drawn from episodes; a history continues with its own."
        ),
    ] = 0

    def run(self, console: Console) -> None:
        """Check, print what was found, and end with status 1 if there is an alarm."""
        self._check_settings()
        facts = robot_facts(self.calibration)
        alpha = self.alpha if self.alpha is not None else failure_rate(facts.get("alpha", 0.1))
        confidence = self.confidence if self.confidence is not None else facts.get("confidence")
        with listening() as heard, self.computing.running(self.folder) as running:
            cap = self.calibrated(self.calibration, facts)
            log = opened(self.logged(cap, self.calibration, facts, self.data, self.episode), console)
            history = None
            if self.history is not None:
                history = History.begun_or_continued(self.history, cap, self.alarm, self.seed)
            found = check_log(cap, log, alpha, confidence, self.alarm, self.seed, history, running("checking"))
            if found.sha256 in made_from(facts):
                raise CaptureError(f"{self.data} is a log that the calibration was made from; give it new transitions.")
            some = beginning(log)
            cautions = log_cautions(cap, some, some, alpha, confidence, self.seed)
        cautions += heard
        console.print(coverage_table(self.data.name, found.coverage, some.episode is not None).printed("stratum"))
        console.print(self._table(found, history))
        print_cautions(console, cautions)
        first = None if history is None else history.alarm
        if self.json is not None:
            rows = found.coverage.rows(data=str(self.data), calibration=str(self.calibration))
            findings, alarm = [asdict(finding) for finding in found.findings], bool(found.alarms) or first is not None
            batch = None if history is None else len(history.batches)
            write_rows(self.json, rows, self, findings=findings, alarm=alarm, batch=batch, warnings=cautions)
        if history is not None and self.history is not None:
            history.save(self.history)  # last, so that a batch whose check failed can be given again
        if not found.alarms and first is None:
            console.print("No evidence against the calibration.")
            return
        where, anew = found.alarms_about, "calibrate on new transitions"
        if history is not None and first is not None:
            anew += ", with a new --history"
            if first["batch"] < len(history.batches):
                where = f"{first['about']}, since batch {first['batch']} of {self.history}"
        print_alarm(console, f"The coverage guarantee no longer holds: {where}. Find out what has changed, and {anew}.")

    def _table(self, found: BatchCheck, history: History | None) -> Table:
        rows = [
            [one.question, escape(one.about), f"{min(one.p, 1.0):.2g}" + "\n[red]ALARM[/red]" * one.alarm, one.says]
            for one in found.findings
        ]
        headings, left = ("question", "about", "p", "finding"), ("about", "finding")
        return table_of("Has anything changed?", headings, rows, self._caption(found, history), left)

    def _caption(self, found: BatchCheck, history: History | None) -> str:
        bet, batch = found.findings[0].level, found.findings[-1].level
        at_most = f"{bet:.2g}" if bet == batch else f"{bet:.2g} (order) or {batch:.2g} (the others)"
        if history is None:
            valid = "for this batch alone. To check batch after batch, give --history FILE"
        else:
            valid = (
                f"for all batches of {escape(str(self.history))} together, of which this is number {len(history.batches)}"
            )
        return (
            f"p-values are corrected for the number of rows per question; an alarm is a p-value of at most {at_most}. "
            f"If nothing has changed, the probability of any alarm is at most {self.alarm:g}, {valid}. "
            f"{found.outcomes:,} independent outcomes were tested."
        )

    def _check_settings(self) -> None:
        if self.alpha is not None:
            failure_rate(self.alpha)
        probability("alarm", self.alarm)
        whole_number("seed", self.seed, 0)
        check_writable(self.json)
        check_writable(self.history)
