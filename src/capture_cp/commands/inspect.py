"""The command that lists the columns of a log and proposes a calibration command."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.files import check_writable, written_whole
from capture_cp.data.logged import runs_of
from capture_cp.data.recognise import Recognised, opened, recognise
from capture_cp.data.source import Column, LogSource
from capture_cp.report.output import table_of

MOST_SHOWN = 200

#: Topics of commands, and the fields of their messages that hold them: a list of numbers, or a velocity.
COMMAND = re.compile(r"cmd|command|action|control|target|desired|setpoint")
LISTS, TWIST = ("data", "position", "positions", "velocity", "effort"), ("linear.x", "linear.y", "angular.z")


@dataclass(frozen=True)
class Inspect:
    """List the columns or topics of a log with their types, widths and ranges, and propose which ones to use.

    DATA is any log that `capture calibrate` accepts. The last line is a `capture calibrate` command with columns guessed
    from names and values; check it before you run it. --toml writes the guess to a file for `capture calibrate FILE`.
    """

    data: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="A file, a folder, or a pattern of files.", metavar="DATA")
    ]
    toml: Annotated[Path | None, tyro.conf.arg(help="Also write the proposed options to this .toml file.")] = None
    force: Annotated[bool, tyro.conf.arg(help="Overwrite the .toml file if it exists.")] = False

    def run(self, console: Console) -> None:
        """Print what is there, and what is proposed."""
        if self.toml is not None and self.toml.exists() and not self.force:
            raise CaptureError(f"{self.toml} exists already; choose another name, or overwrite it with --force.")
        check_writable(self.toml)
        source = opened(self.data)
        table, choice = topics_of(source) if source.messages else columns_of(source, self.data.name)
        console.print(table)
        if choice is None:
            console.print("No columns are proposed: their names do not show which are state, action and next configuration.")
            if self.toml is not None:
                raise CaptureError(f"{self.toml} is not written, as no columns are proposed; write it by hand.")
            return
        options = {name: value for name, value in asdict(choice).items() if value}
        words = [word for name, value in options.items() for word in (f"--{name}", *_listed(value))]
        console.print("Proposed, by names and values of the columns:")
        command = shlex.join(["capture", "calibrate", str(self.data), *words])
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
        if self.toml is not None:
            settings = {"data": os.path.relpath(self.data, self.toml.parent), **options}
            lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
            with written_whole(self.toml) as temporary:
                temporary.write_text("".join(lines), encoding="utf-8")
            console.print(f"Written: {self.toml}. Use it with: capture calibrate {self.toml}", markup=False)


def columns_of(source: LogSource, name: str) -> tuple[Table, Proposal | None]:
    """A table of columns; what is proposed."""
    found, parts = recognise(source), len(source.parts())
    rows, choice = [], proposed(found)
    for column in found.columns[:MOST_SHOWN]:
        values = [found.rows[entry] for entry in column.entries if entry in found.rows and column.kind == "number"]
        span = f"{min(map(np.min, values)):.4g} to {max(map(np.max, values)):.4g}" if values else ""
        rows.append([escape(shortened(column.name)), escape(column.kind), str(column.width or ""), span])
    title = f"{escape(name)}: {source.rows:,} rows" + (f" in {parts:,} recordings" if parts > 1 else "")
    caption = None
    if choice is not None and choice.episode is not None:
        caption = f"{len(runs_of(source, choice.episode).labels):,} episodes by the column {escape(choice.episode)}."
    headings = "column", "holds", "width", "range in the first rows"
    return table_of(title, headings, rows, caption, (headings[1], headings[3])), choice


def topics_of(source: LogSource) -> tuple[Table, Proposal | None]:
    """A table of topics and their fields; what is proposed."""
    from capture_cp.data.bags import Bag

    several = getattr(source, "files", ())
    bag, columns = Bag(several[0] if several else source.path), source.columns()
    seconds = max(bag.end - bag.start, 0) / 1e9
    rows = []
    for topic, (kind, n) in [*bag.topics.items()][:MOST_SHOWN]:
        fields = [column for column in columns if column.name.startswith(f"{topic}.")]
        widths = ["" if column.width is None else f"[{column.width}]" for column in fields]
        numbers = ", ".join(f"{one.name.removeprefix(f'{topic}.')}{width}" for one, width in zip(fields, widths))
        rate = f"{(n - 1) / seconds:.1f}" if n > 1 and seconds else ""
        rows.append([escape(topic), escape(kind), f"{n:,}", rate, escape(shortened(numbers, 200))])
    title = f"{escape(bag.path.name)}: {seconds:.1f} s" + (f", the first of {len(several):,} bags" if several else "")
    table = table_of(title, ("topic", "type", "messages", "Hz", "numbers"), rows, left=("type", "numbers"))
    return table, proposed_topics(columns, {topic: kind for topic, (kind, _) in bag.topics.items()})


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


# -- a guess by the names of columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proposal:
    """Columns of each part, by the options that name them; `next` or `following` is empty."""

    state: Sequence[str]
    action: Sequence[str]
    next: Sequence[str] = ()
    following: Sequence[str] = ()
    episode: str | None = None
    time: str | None = None


def proposed(found: Recognised) -> Proposal | None:
    """What the columns of a table are for, or None where no guess is plausible."""
    more: dict[str, Any] = {"episode": found.episode, "time": found.time}
    command = _whole(found, {*found.joints["command"].values()}) or _whole(found, {*found.joints["torque"].values()})
    if found.after:
        known = {*found.after, *found.after.values(), found.episode, found.time}
        action = [name for name in command if name not in known] or [name for name in found.left if name not in known]
        return Proposal([*found.after], action, next=[*found.after.values()], **more) if action else None
    poses = (entry for pose in found.poses for entry in (*pose.position, *pose.quaternion))
    state = _whole(found, {*found.joints["position"].values(), *poses})
    lists = [column.name for column in found.columns if column.name in state and column.width]
    state = lists[:1] or state  # a list tells the state as one whole
    return Proposal(state, command, following=state, **more) if state and command else None


def _whole(found: Recognised, entries: Iterable[str]) -> list[str]:
    """Columns all of whose numbers are among some."""
    return [one.name for one in found.columns if one.kind == "number" and set(one.entries) <= set(entries)]


def proposed_topics(columns: Sequence[Column], kinds: dict[str, str]) -> Proposal | None:
    """What the topics of a bag are for: positions of joints, and what looks most like a command. `kinds` are their types."""
    names = {column.name for column in columns}
    joints = [topic for topic, kind in kinds.items() if kind.endswith("/JointState") and f"{topic}.position" in names]
    commands = [topic for topic in kinds if COMMAND.search(topic.lower())]
    measured = ([topic for topic in joints if topic not in commands] or joints)[:1]
    found = [numbers for topic in commands if topic not in measured and (numbers := _command(topic, names))]
    if not measured or not found:
        return None
    state = [f"{measured[0]}.position"]
    return Proposal(state, found[0], following=state, episode="file" if "file" in names else None, time="time")


def _command(topic: str, names: set[str]) -> list[str]:
    """The numbers of a command: its list of numbers, or a velocity."""
    lists = [[f"{topic}.{field}"] for field in LISTS]
    twists = [[f"{topic}.{prefix}{field}" for field in TWIST] for prefix in ("", "twist.")]
    return next((fields for fields in (*lists, *twists) if names.issuperset(fields)), [])
