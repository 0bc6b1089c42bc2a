"""The command that lists the columns of a log and proposes a calibration command."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.markup import escape

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.files import check_writable, written_whole
from capture_cp.data.logged import runs_of
from capture_cp.data.roles import Recognised, recognise
from capture_cp.data.source import Column, LogSource, open_log
from capture_cp.report.output import table_of

MOST_SHOWN = 200


@dataclass(frozen=True)
class Inspect:
    """List the columns or topics of a log with their types, widths and ranges, and propose which ones to use.

    DATA is any log that `capture calibrate` accepts. The last lines are commands with columns guessed from their names and
    values; check them before you run them. --toml writes the guess to a file for `capture calibrate FILE`.
    """

    data: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="A file, a folder, or a pattern of files.", metavar="DATA")
    ]
    toml: Annotated[Path | None, tyro.conf.arg(help="Also write the proposed options to this .toml file.")] = None
    force: Annotated[bool, tyro.conf.arg(help="Overwrite the .toml file if it exists.")] = False

    def run(self, console: Console) -> None:
        """Print what is there."""
        if self.toml is not None:
            if self.toml.exists() and not self.force:
                raise CaptureError(f"{self.toml} exists already; choose another name, or overwrite it with --force.")
            check_writable(self.toml)
        source = open_log(self.data)
        choice = self._topics(console, source) if source.messages else self._columns(console, source)
        if choice is None:
            console.print("No columns are proposed: names and values do not show which are state and action.")
            if self.toml is not None:
                raise CaptureError(f"{self.toml} is not written, as no columns are proposed; write it by hand.")
            return
        self._propose(console, choice)

    def _columns(self, console: Console, source: LogSource) -> Proposal | None:
        """A table of columns; what is proposed."""
        found = recognise(source)
        choice = proposed(found)
        parts = len(source.parts())
        title = f"{escape(self.data.name)}: {source.rows:,} rows" + (f" in {parts:,} recordings" if parts > 1 else "")
        rows = []
        for column in found.columns[:MOST_SHOWN]:
            values = [found.rows[name] for name in column.entries if name in found.rows and column.kind == "number"]
            role = found.roles.get(column.entries[0] if column.entries else "", "")
            shown = column.kind, str(column.width or ""), _range(values), role
            rows.append([escape(shortened(column.name)), *map(escape, shown)])
        headings = "column", "holds", "width", "range in the first rows", "probably"
        left = headings[1], headings[3], headings[4]
        console.print(table_of(title, headings, rows, self._caption(source, choice), left))
        return choice

    def _caption(self, source: LogSource, choice: Proposal | None) -> str | None:
        if choice is None or choice.episode is None:
            return None
        return f"{len(runs_of(source, choice.episode).labels):,} episodes by the column {escape(choice.episode)}."

    def _topics(self, console: Console, source: LogSource) -> Proposal | None:
        """A table of topics and their fields; what is proposed."""
        from capture_cp.data.bags import Bag

        several = getattr(source, "files", ())
        bag, columns = Bag(several[0] if several else source.path), source.columns()
        seconds = max(bag.end - bag.start, 0) / 1e9
        title = f"{escape(bag.path.name)}: {seconds:.1f} s" + (f", the first of {len(several):,} bags" if several else "")
        rows = []
        for topic, (kind, n) in list(bag.topics.items())[:MOST_SHOWN]:
            fields = [column for column in columns if column.name.startswith(f"{topic}.")]
            rate = f"{(n - 1) / seconds:.1f}" if n > 1 and seconds else ""
            rows.append([escape(topic), escape(kind), f"{n:,}", rate, escape(_fields(topic, fields))])
        console.print(table_of(title, ("topic", "type", "messages", "Hz", "numbers"), rows, left=("type", "numbers")))
        return proposed(recognise(source))

    def _propose(self, console: Console, choice: Proposal) -> None:
        words = ["capture", "calibrate", str(self.data)]
        for name, value in choice.options().items():
            words += [f"--{name}", *([value] if isinstance(value, str) else value)]
        commands = [shlex.join(words), *([f"capture gap MODEL.xml {shlex.quote(str(self.data))}"] if choice.moves else [])]
        console.print("Proposed, by names and values of the columns:")
        for command in commands:
            console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
        if choice.moves:
            console.print("The second compares a simulator with this log; MODEL.xml is its MuJoCo file.", highlight=False)
        if choice.pose:
            console.print("The configuration is a pose: calibrate it with --metric se3 --length RADIUS, the body's radius.")
        if self.toml is None:
            return
        place = os.path.relpath(self.data, self.toml.parent)
        lines = [f"{name} = {json.dumps(value)}" for name, value in {"data": place, **choice.options()}.items()]
        with written_whole(self.toml) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        console.print(f"Written: {self.toml}. Use it with: capture calibrate {self.toml}", markup=False)


def _fields(topic: str, fields: list[Column]) -> str:
    """Names of the fields of a topic, with their widths."""
    names = [column.name.removeprefix(f"{topic}.") for column in fields]
    shown = [name if column.width is None else f"{name}[{column.width}]" for name, column in zip(names, fields)]
    return shortened(", ".join(shown), 200)


def _range(parts: list[np.ndarray]) -> str:
    """Smallest and largest of some columns (n,)."""
    if not parts:
        return ""
    low, high = min(float(np.min(part)) for part in parts), max(float(np.max(part)) for part in parts)
    return f"{low:.4g} to {high:.4g}"


# -- what is proposed -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proposal:
    """Columns of each part; `next` or `following` is empty.

    Attributes:
        moves: whether a simulator can be compared with the log.
        pose: whether the configuration is one pose.
    """

    state: list[str] = field(default_factory=list)
    action: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    following: list[str] = field(default_factory=list)
    angles: list[str] = field(default_factory=list)
    episode: str | None = None
    time: str | None = None
    moves: bool = False
    pose: bool = False

    def options(self) -> dict[str, str | list[str]]:
        """The options that say this, by name."""
        return {name: value for name, value in asdict(self).items() if value and name not in ("moves", "pose")}


def proposed(found: Recognised) -> Proposal | None:
    """What the columns of a log are for, or None where no guess is plausible."""
    joints = found.joints
    action = _whole(found, [*(joints["command"] or joints["torque"]).values()])
    if found.after:
        angles = [after for name, after in found.after.items() if name in found.angles]
        others = [name for name in found.left if name not in found.after]
        state, after = [*found.after], [*found.after.values()]
        return Proposal(state, action or others, after, angles=angles, episode=found.episode, time=found.time)
    places = [name for pose in found.poses for name in (*pose.position, *pose.quaternion)] + [*joints["position"].values()]
    if not places:
        return None
    rates = [name for pose in found.poses for name in (*pose.velocity, *pose.rates)] + [*joints["velocity"].values()]
    return Proposal(
        _whole(found, [*places, *rates]),
        action,
        following=_whole(found, places),
        angles=[f"next_{name}" for name in found.angles if name in places],
        episode=found.episode,
        time=found.time,
        pose=len(found.poses) == 1 and len(places) == 7,
        moves=bool(found.rows)
        and bool(found.poses or joints["position"].keys() & {*joints["velocity"], *joints["command"]}),
    )


def _whole(found: Recognised, names: Sequence[str]) -> list[str]:
    """These numbers, with the name of a column of lists in place of all of its entries."""
    lists = [column for column in found.columns if column.width and set(column.entries) <= set(names)]
    owner = {entry: column.name for column in lists for entry in column.entries}
    return list(dict.fromkeys(owner.get(name, name) for name in names))
