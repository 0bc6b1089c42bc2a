"""The command that adds logs, or calibrations of other sites, to a saved calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureError, failure_rate, probability, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.capture import Capture
from capture_cp.capture.extending import extend_calibration, merge_calibrations, sources_of
from capture_cp.commands import options
from capture_cp.commands.batch import check_log
from capture_cp.commands.bundle import input_names, robot_facts
from capture_cp.commands.cautions import listening, print_alarm, print_cautions
from capture_cp.commands.computing import Computing, ComputingOptions
from capture_cp.commands.reading import Remembered, made_from, opened
from capture_cp.data.source import kind_of
from capture_cp.report.output import table_of

NOT_ADDED = "Nothing is saved. Calibrate again, or give --anyway if the guarantee is meant for both logs together."


@dataclass(frozen=True)
class Extend(Remembered):
    """Add new logs to a calibration, or the calibrations of other sites: scores join the existing ones, in the same groups.

    A log: the old logs are not needed. All of the new log sets thresholds, because model and groups already exist. It is
    first tested as in `capture check`. A log that raises an alarm is not added, because mixed scores would weaken the
    guarantee for the robot as it is now. With --alone the old scores are left out, which gives a calibration for one site.

    A calibration: it must have the same groups, as when one site calibrates and the others extend its file with their logs
    and --alone. The guarantee is then for a transition drawn from all sites together.
    """

    calibration: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration.", metavar="CALIBRATION")]
    data: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(help="Logs with new transitions, or further calibrations.", metavar="DATA ..."),
    ]
    out: Annotated[Path, tyro.conf.arg(help="File for the extended calibration; may be CALIBRATION itself.")]
    alone: Annotated[
        bool, tyro.conf.arg(help="Leave the old scores out: calibrate on the new log alone, with the same groups.")
    ] = False
    anyway: Annotated[bool, tyro.conf.arg(help="Add a log even if it raises an alarm.")] = False
    episode: options.EpisodeColumn = None
    alarm: Annotated[float, tyro.conf.arg(help="Largest probability that a log like the old ones is rejected.")] = 0.01
    computing: ComputingOptions = field(default_factory=Computing)
    seed: Annotated[int, tyro.conf.arg(help="Random seed for the particles and ties of the check.")] = 0

    def run(self, console: Console) -> None:
        """Merge the calibrations, then check each log and add it; save."""
        self._check_settings()
        sites = [file for file in self.data if kind_of(file) == "calibration"]
        facts = [robot_facts(file) for file in (self.calibration, *sites)]
        alpha, confidence = failure_rate(facts[0].get("alpha", 0.1)), facts[0].get("confidence")
        with listening() as heard, self.computing.running(self.folder) as running:
            found = before = self.calibrated(self.calibration, facts[0])
            if sites:
                found = merge_calibrations([before, *map(self.calibrated, sites, facts[1:])])
            made = [one for fact in facts for one in made_from(fact)]
            for file in (file for file in self.data if file not in sites):
                log = opened(self.logged(found, self.calibration, facts[0], file, self.episode), console)
                check = check_log(found, log, alpha, confidence, self.alarm, self.seed, None, running("checking"))
                if check.alarms:
                    console.print(f"The new log looks different: {check.alarms_about}.", style="red", markup=False)
                    if not self.anyway:
                        print_alarm(console, NOT_ADDED)
                found = extend_calibration(found, log, self.alone, running("extending"))
                made = [check.sha256, *([] if self.alone else made)]
            if made:
                found.data_["robot"] = dict(facts[0]) | {"log_sha256": made[0], "extended_by": made[1:]}
            console.print(_growth(before, found, alpha, confidence))
        print_cautions(console, heard)
        found.save(self.out)
        console.print(f"Saved calibration: {self.out}", markup=False)

    def _check_settings(self) -> None:
        if not self.data:
            raise CaptureError("no logs or calibrations are given to add; name at least one.")
        if self.alone and len(self.data) > 1:
            raise CaptureError("--alone makes a calibration of one log; give one, or leave --alone out.")
        probability("alarm", self.alarm)
        whole_number("seed", self.seed, 0)
        check_writable(self.out)


def _growth(before: Capture, after: Capture, alpha: float, confidence: Any) -> Table:
    """Scores and thresholds of each group, before and after."""
    logs, names = len(sources_of(after)), input_names(before)
    rows = []
    old, new = (cap.group_thresholds(alpha, confidence=confidence) for cap in (before, after))
    for j in range(after.partition_.base.n_groups):
        sizes = [f"{int(cap.calibration_.sizes[j]):,}" for cap in (before, after)]
        shown = [f"{q[j]:.4g}" if q[j] < float("inf") else "infinite" for q in (old, new)]
        rows.append([escape(after.describe_group(j, names)), *sizes, *shown])
    title = f"{after.data_['rows']:,} transitions of {logs} {'log' if logs == 1 else 'logs'}, alpha {alpha:g}"
    headings = "group", "scores before", "now", "threshold before", "now"
    return table_of(title, headings, rows, "Number of scores and threshold of each group, before and now.")
