"""The commands that add logs to a saved calibration, and that merge calibrations of several sites."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureError, failure_rate, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.capture import Capture
from capture_cp.capture.extending import extend_calibration, merge_calibrations, sources_of
from capture_cp.commands import options
from capture_cp.commands.batch import BatchCheck, check_log
from capture_cp.commands.bundle import robot_facts
from capture_cp.commands.cautions import heard, listen
from capture_cp.commands.computing import Computing, ComputingOptions
from capture_cp.commands.named import named_calibration
from capture_cp.commands.reading import Remembered, check_fits, made_from, opened, remembered


@dataclass(frozen=True)
class Extend(Remembered):
    """Add a new log to a calibration: its scores join the existing ones, in the same groups.

    The old logs are not needed. All of the new log sets thresholds, because model and groups already exist. The log is first
    tested as in `capture check`. A log that raises an alarm is not added, because mixed scores would weaken the guarantee
    for the robot as it is now.

    With --alone the old scores are left out, which gives a calibration for one site. `capture merge` combines such sites.
    """

    calibration: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration.", metavar="CALIBRATION")]
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Log with new transitions.", metavar="DATA")]
    out: Annotated[Path, tyro.conf.arg(help="File for the extended calibration; may be CALIBRATION itself.")]
    alone: Annotated[
        bool, tyro.conf.arg(help="Leave the old scores out: calibrate on the new log alone, with the same groups.")
    ] = False
    anyway: Annotated[bool, tyro.conf.arg(help="Add the log even if it raises an alarm.")] = False
    episode: options.EpisodeColumn = None
    alarm: Annotated[float, tyro.conf.arg(help="Largest probability that a log like the old ones is rejected.")] = 0.01
    computing: ComputingOptions = field(default_factory=Computing)
    seed: Annotated[int, tyro.conf.arg(help="Random seed for the particles and ties of the check.")] = 0

    def run(self, console: Console) -> None:
        """Check the new log, add it, save."""
        if not 0.0 < self.alarm < 1.0:
            raise CaptureError(f"alarm is {self.alarm:g}; expected a probability between 0 and 1, such as 0.01.")
        whole_number("seed", self.seed, 0)
        check_writable(self.out)
        facts = robot_facts(self.calibration)
        log = opened(remembered(self, self.calibration, facts, self.data, self.episode), console)
        with warnings.catch_warnings(record=True) as caught, self.computing.running(console, self.folder) as running:
            listen()
            cap = named_calibration(self.calibration, facts, self.model, self.strata, self.folder, self.trust)
            check_fits(cap, log, self.data)
            alpha = failure_rate(facts.get("alpha", 0.1))
            checked = check_log(cap, log, alpha, facts.get("confidence"), self.alarm, self.seed, None, running("checking"))
            self._conclude(console, checked)
            found = extend_calibration(cap, log, self.alone, running("extending"))
            known = [] if self.alone else made_from(facts)
            found.data_["robot"] = dict(facts) | {"log_sha256": checked.sha256, "extended_by": known}
            console.print(_growth(cap, found, alpha, facts.get("confidence")))
        for caution in heard(caught):
            console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)
        found.save(self.out)
        console.print(f"Saved calibration: {self.out}", markup=False)

    def _conclude(self, console: Console, checked: BatchCheck) -> None:
        if not checked.alarms:
            return
        console.print(f"The new log looks different: {checked.alarms_about}.", style="red", highlight=False, markup=False)
        if not self.anyway:
            console.print(
                "Nothing is saved. Calibrate again, or give --anyway if the guarantee is meant for both logs together."
            )
            raise SystemExit(1)


@dataclass(frozen=True)
class Merge:
    """Combine the calibrations of several sites. The guarantee is then for a transition drawn from all sites together.

    They must have the same groups: one site calibrates, and the others extend its file with their logs and --alone.
    """

    calibrations: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(help="Two or more calibrations.", metavar="CALIBRATION ...")
    ]
    out: Annotated[Path, tyro.conf.arg(help="File for the merged calibration.")]
    model: options.RememberedModel = None
    strata: options.RememberedStrata = None
    trust: options.Trust = False
    folder: options.Folder = Path()

    def run(self, console: Console) -> None:
        """Merge, print what there is now, save."""
        check_writable(self.out)
        facts = [robot_facts(file) for file in self.calibrations]
        named = self.model, self.strata, self.folder, self.trust
        with warnings.catch_warnings(record=True) as caught:
            listen()
            caps = [named_calibration(file, fact, *named) for file, fact in zip(self.calibrations, facts)]
            found = merge_calibrations(caps)
            if facts[0]:
                every = [one for fact in facts for one in made_from(fact)]
                found.data_["robot"] = dict(facts[0]) | {"log_sha256": every[0], "extended_by": every[1:]}
            alpha = failure_rate(facts[0].get("alpha", 0.1))
            console.print(_growth(caps[0], found, alpha, facts[0].get("confidence")))
        for caution in heard(caught):
            console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)
        found.save(self.out)
        console.print(f"Saved calibration: {self.out}", markup=False)


def _growth(before: Capture, after: Capture, alpha: float, confidence: Any) -> Table:
    """Scores and thresholds of each group, before and after."""
    logs = len(sources_of(after))
    table = Table(
        title=f"{after.data_['rows']:,} transitions of {logs} {'log' if logs == 1 else 'logs'}, alpha {alpha:g}",
        caption="Number of scores and threshold of each group, before and now.",
        caption_justify="left",
    )
    table.add_column("group")
    for heading in ("scores before", "now", "threshold before", "now"):
        table.add_column(heading, justify="right")
    old, new = (cap.threshold_table(alpha, confidence).thresholds for cap in (before, after))
    for j in range(after.partition_.base.n_groups):
        sizes = [f"{int(cap.calibration_.sizes[j]):,}" for cap in (before, after)]
        shown = [f"{q[j]:.4g}" if q[j] < float("inf") else "infinite" for q in (old, new)]
        table.add_row(escape(after.describe_group(j)), *sizes, *shown)
    return table
