"""Does a new batch of transitions still satisfy a saved calibration?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, failure_rate, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.capture import Capture
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.transitions import Transitions
from capture_cp.logs import options
from capture_cp.logs.batch import BatchCheck, check_batch
from capture_cp.logs.bundle import brings, load_calibration, robot_facts
from capture_cp.logs.cautions import far_cautions, group_cautions, heard, listen, unit_cautions
from capture_cp.logs.history import History
from capture_cp.logs.options import LINEAR
from capture_cp.logs.report import coverage_by_stratum
from capture_cp.logs.user_objects import user_model, user_strata
from capture_cp.report.output import write_rows


@dataclass(frozen=True)
class Check:
    """Does a new batch of transitions still satisfy a calibration? Coverage with intervals, and tests for drift.

    DATA is a log of any kind that `capture calibrate` takes, its rows in the order of time. CALIBRATION is a file that
    `capture calibrate` or Capture.save wrote, or the .toml file that `capture calibrate` was given. Four questions are
    asked: do the scores, in their order, look like those of the calibration (a conformal test martingale); in which strata
    do they not; is coverage
    below 1 - alpha by more than chance; which inputs are distributed otherwise. If nothing has changed, any of them raises
    an alarm with probability at most --alarm, in one batch. For checks every night give --history: a file that remembers
    earlier batches, with which --alarm limits the false alarms of all nights together, for ever.

    A certificate of `capture certify` is checked by the outcomes of new episodes: capture check CERTIFICATE OUTCOMES.csv.

    Exit status: 0 all is well; 1 the promise no longer stands (an alarm); 2 the input cannot be used.
    """

    calibration: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration, or a .toml file.", metavar="CALIBRATION")
    ]
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="New transitions.", metavar="DATA")]
    state: options.StateColumns = ()
    action: options.ActionColumns = ()
    next: options.NextColumns = ()
    following: options.FollowingColumns = ()
    clock: Annotated[
        Literal["received", "header"] | None,
        tyro.conf.arg(help="Of a bag: the stamps of messages, or those in their headers; by default as calibrated."),
    ] = None
    model: Annotated[
        str | None, tyro.conf.arg(help="module:object, as in capture calibrate; the built-in one is in the calibration.")
    ] = None
    strata: Annotated[
        str | None, tyro.conf.arg(help="module:object, as in capture calibrate; the single stratum is in the calibration.")
    ] = None
    episode: options.EpisodeColumn = None
    time: options.TimeColumn = None
    alpha: Annotated[
        float | None, tyro.conf.arg(help="Allowed failure rate; by default the one it was calibrated for, or 0.1.")
    ] = None
    confidence: options.Confidence = None
    alarm: Annotated[float, tyro.conf.arg(help="Probability of a false alarm, of all tests together.")] = 0.01
    history: Annotated[
        Path | None,
        tyro.conf.arg(help="File that remembers earlier batches: --alarm then holds for all together. Made if missing."),
    ] = None
    folder: options.Folder = Path()
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the figures to this file.")] = None
    seed: Annotated[
        int,
        tyro.conf.arg(help="Of particles, of ties, and of the steps drawn of episodes; a history goes on with its own."),
    ] = 0

    def run(self, console: Console) -> None:
        """Check, print what was found, and end with status 1 if there is an alarm."""
        self._check_settings()
        facts = robot_facts(self.calibration)
        alpha = self.alpha if self.alpha is not None else failure_rate(facts.get("alpha", 0.1))
        log = self._read(facts, console)
        with warnings.catch_warnings(record=True) as caught:
            listen()
            cap = self._calibration(facts, log)
            confidence = self.confidence if self.confidence is not None else facts.get("confidence")
            names = log.X_names if len(log.X_names) == cap.n_inputs_ else None
            history = self._history(cap)
            settings = alpha, confidence, log.episode, self.alarm, self.seed, names, history
            found = check_batch(cap, log.X, log.Y, *settings)
            few = group_cautions(cap, alpha, confidence, names)
            far = far_cautions(cap, log, self.seed)
        cautions = [*unit_cautions(log), *few, *far, *heard(caught)]
        console.print(coverage_by_stratum(self.data.name, found.coverage, log.episode is not None))
        console.print(self._table(found, history))
        for caution in cautions:
            console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)
        if self.json is not None:
            rows = found.coverage.rows(data=str(self.data), calibration=str(self.calibration))
            findings = [asdict(finding) for finding in found.findings]
            batch = None if history is None else len(history.batches)
            alarm = bool(found.alarms) or (history is not None and history.alarm is not None)
            write_rows(self.json, rows, self, findings=findings, alarm=alarm, batch=batch, warnings=cautions)
        if history is not None and self.history is not None:
            history.save(self.history)  # last, so that a batch whose check failed can be given again
        self._conclude(console, found, history)

    def _calibration(self, facts: Mapping[str, Any], log: Transitions) -> Capture:
        """The calibration with its model and strata, which it brings along or which are named."""
        model = None if self.model in (None, LINEAR) else user_model(str(self.model), self.folder)
        strata = None if self.strata is None else user_strata(self.strata, self.folder, log.Y)
        for option, what, given in (("model", "a model", model), ("strata", "strata", strata)):
            if given is None and not brings(facts, option):
                raise CaptureError(
                    f"calibration {self.calibration} was made with {what} of your own; give --{option} module:object."
                )
        return load_calibration(self.calibration, model, strata)

    def _history(self, cap: Capture) -> History | None:
        return None if self.history is None else History.begun_or_continued(self.history, cap, self.alarm, self.seed)

    def _read(self, facts: Mapping[str, Any], console: Console) -> Transitions:
        """The new transitions, by the columns that are named or that the calibration remembers."""
        remembered = facts.get("columns", {})
        given = "next" if self.next else "following" if self.following else ""
        after = given or ("following" if "following" in remembered else "next")
        columns = {name: getattr(self, name) or remembered.get(name) for name in ("state", "action", after)}
        missing = [f"--{name}" for name, given in columns.items() if not given]
        if missing:
            raise CaptureError(f"calibration {self.calibration} remembers no columns; name them with {', '.join(missing)}.")
        episode = self.episode if self.episode is not None else facts.get("episode")
        clock = self.clock or facts.get("clock") or "received"
        logged = LoggedTransitions(self.data, **columns, episode=episode, time=self.time or facts.get("time"), clock=clock)
        options.print_notes(console, logged)
        log = logged.read()
        if digest(log.X, log.Y) == facts.get("log_sha256"):
            raise CaptureError(f"{self.data} is the log that the calibration was made from; give it new transitions.")
        return log

    def _table(self, found: BatchCheck, history: History | None) -> Table:
        table = Table(title="Has anything changed?", caption=self._caption(found, history), caption_justify="left")
        for heading in ("question", "about", "p", "finding"):
            table.add_column(heading, justify="right" if heading == "p" else "left")
        for finding in found.findings:
            mark = "\n[red]ALARM[/red]" if finding.alarm else ""
            table.add_row(finding.question, escape(finding.about), f"{min(finding.p, 1.0):.2g}{mark}", finding.says)
        return table

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
            f"p-values are corrected for the rows of a question; an alarm is one of at most {at_most}. "
            f"If nothing has changed, there is any alarm with probability at most {self.alarm:g}, {valid}. "
            f"{found.outcomes:,} independent outcomes were tested."
        )

    def _conclude(self, console: Console, found: BatchCheck, history: History | None) -> None:
        first = None if history is None else history.alarm
        if not found.alarms and first is None:
            console.print("Nothing speaks against the calibration.")
            return
        where, anew = found.alarms_about, "calibrate on new transitions"
        if history is not None and first is not None:
            anew += ", with a new --history"
            if first["batch"] < len(history.batches):
                where = f"{first['about']}, since batch {first['batch']} of {self.history}"
        console.print(
            f"The promise no longer stands: {where}. Find out what has changed, and {anew}.",
            style="red",
            highlight=False,
            markup=False,
        )
        raise SystemExit(1)

    def _check_settings(self) -> None:
        if self.alpha is not None:
            failure_rate(self.alpha)
        if not 0.0 < self.alarm < 1.0:
            raise CaptureError(f"alarm is {self.alarm:g}; expected a probability between 0 and 1, such as 0.01.")
        whole_number("seed", self.seed, 0)
        check_writable(self.json)
        check_writable(self.history)
