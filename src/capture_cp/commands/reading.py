"""Reading the log that a command names, with the columns that the command or the calibration names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from capture_cp.base.checks import CaptureError
from capture_cp.base.progress import stage
from capture_cp.capture.capture import Capture
from capture_cp.commands import options
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.transitions import TransitionLog, Transitions, joined

IN_MEMORY = 32_000_000  # numbers of a log up to which all of it is kept in memory
BEGINNING = 200_000  # transitions of a longer one that stand for it


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Options of commands that read a log and a calibration; by default they are those of the calibration."""

    state: options.StateColumns = ()
    action: options.ActionColumns = ()
    next: options.NextColumns = ()
    following: options.FollowingColumns = ()
    clock: options.RememberedClock = None
    time: options.TimeColumn = None
    model: options.RememberedModel = None
    strata: options.RememberedStrata = None
    trust: options.Trust = False
    folder: options.Folder = Path()


def remembered(
    command: Remembered, calibration: Path, facts: Mapping[str, Any], file: Path, episode: str | None
) -> LoggedTransitions:
    """The log in `file` by the columns that a command names, `episode` among them, or else that a calibration remembers."""
    known = facts.get("columns", {})
    given = "next" if command.next else "following" if command.following else ""
    last = given or ("following" if "following" in known else "next")
    columns: dict[str, Any] = {name: getattr(command, name) or known.get(name) for name in ("state", "action", last)}
    missing = [f"--{name}" for name, names in columns.items() if not names]
    if missing:
        raise CaptureError(f"calibration {calibration} remembers no columns; name them with {', '.join(missing)}.")
    more: dict[str, Any] = {"episode": episode or facts.get("episode"), "time": command.time or facts.get("time")}
    return LoggedTransitions(file, **columns, **more, clock=command.clock or facts.get("clock") or "received")


def opened(log: LoggedTransitions, console: Console) -> TransitionLog:
    """The log, in memory if it is small, so that it is read once, otherwise on disk; prints notes about skipped data."""
    with stage("reading the log", everywhere=False):
        notes = list(log.notes())
        small = len(log) * (len(log.X_names) + len(log.next_names)) <= IN_MEMORY
        found = log.read() if small else log
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    return found


def after(next: Sequence[str], following: Sequence[str]) -> dict[str, Any]:
    """Which columns hold the configuration after a step, as `LoggedTransitions` takes them."""
    if bool(next) == bool(following):
        given = "both of --next and --following are" if next else "neither --next nor --following is"
        raise CaptureError(
            f"{given} given; name the columns of the configuration after a step, or those that hold it in the following row."
        )
    return {"next": next} if next else {"following": following}


def columns_of(log: TransitionLog, follows: bool) -> dict[str, list[str]]:
    """The columns of a log by their parts, as a calibration remembers them."""
    last = {"following": [name.removeprefix("next_") for name in log.next_names]} if follows else {"next": [*log.next_names]}
    return {"state": list(log.state_names), "action": list(log.action_names), **last}


def check_fits(cap: Capture, log: TransitionLog, file: Path) -> None:
    """Reject a log whose number of columns differs from the calibration's."""
    dx, dc = len(log.X_names), len(log.next_names)
    if (dx, dc) != (cap.n_inputs_, cap.n_outputs_):
        raise CaptureError(
            f"{file} has {dx} inputs and {dc} numbers of a configuration by the columns named; the calibration has "
            f"{cap.n_inputs_} and {cap.n_outputs_}."
        )


def made_from(facts: Mapping[str, Any]) -> list[str]:
    """Digests of the logs that a calibration was made from, whole ones."""
    return [one for one in (facts.get("log_sha256"), *facts.get("extended_by", ())) if one]


def beginning(log: TransitionLog) -> Transitions:
    """The first transitions of a log, in memory; all of them where they are not very many."""
    return log if isinstance(log, Transitions) else joined(list(log.pieces(0, BEGINNING)))
