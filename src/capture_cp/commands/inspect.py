"""The command that lists the columns of a log and proposes a calibration command."""

from __future__ import annotations

import csv
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.files import check_writable, written_whole
from capture_cp.commands.proposals import Proposal, proposed, proposed_topics
from capture_cp.data.logged import runs_of
from capture_cp.data.source import Column, LogSource, open_log

MOST_SHOWN = 200


@dataclass(frozen=True)
class Inspect:
    """List the columns or topics of a log with their types, widths and ranges, and propose which ones to use.

    DATA is any log that `capture calibrate` accepts. The last line is a `capture calibrate` command with columns guessed
    from their names; check it before you run it. --toml writes the guess to a file for `capture calibrate FILE`.
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
        source = open_log(self.data, _words(self.data))
        choice = self._topics(console, source) if source.messages else self._columns(console, source)
        if choice is None:
            console.print("No columns are proposed: their names do not show which are state, action and next configuration.")
            if self.toml is not None:
                raise CaptureError(f"{self.toml} is not written, as no columns are proposed; write it by hand.")
            return
        self._propose(console, choice)

    def _columns(self, console: Console, source: LogSource) -> Proposal | None:
        """A table of columns; what is proposed."""
        columns = source.columns()
        choice = proposed(columns)
        numbers = [column for column in columns if column.kind == "number"][:MOST_SHOWN]
        piece = next(source.pieces([name for column in numbers for name in column.entries]), {}) if numbers else {}
        title = f"{escape(self.data.name)}: {source.rows:,} rows{self._recordings(source)}"
        table = Table(title=title, caption=self._caption(source, choice), caption_justify="left")
        for heading in ("column", "holds", "width", "range in the first rows"):
            table.add_column(heading, justify="right" if heading == "width" else "left")
        for column in columns[:MOST_SHOWN]:
            parts = [piece[name] for name in column.entries if name in piece]
            table.add_row(escape(shortened(column.name)), escape(column.kind), str(column.width or ""), _range(parts))
        console.print(table)
        return choice

    def _recordings(self, source: LogSource) -> str:
        n = len(source.parts())
        return f" in {n:,} recordings" if n > 1 else ""

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
        table = Table(title=title)
        for heading in ("topic", "type", "messages", "Hz", "numbers"):
            table.add_column(heading, justify="right" if heading in ("messages", "Hz") else "left")
        for topic, (kind, n) in list(bag.topics.items())[:MOST_SHOWN]:
            fields = [column for column in columns if column.name.startswith(f"{topic}.")]
            rate = f"{(n - 1) / seconds:.1f}" if n > 1 and seconds else ""
            table.add_row(escape(topic), escape(kind), f"{n:,}", rate, escape(_fields(topic, fields)))
        console.print(table)
        return proposed_topics(columns, {topic: kind for topic, (kind, _) in bag.topics.items()})

    def _propose(self, console: Console, choice: Proposal) -> None:
        words = ["capture", "calibrate", str(self.data)]
        for name, value in choice.options().items():
            words += [f"--{name}", *([value] if isinstance(value, str) else value)]
        console.print("Proposed, by the names of the columns:")
        console.print(f"  {shlex.join(words)}", markup=False, highlight=False, soft_wrap=True)
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


def _words(path: Path) -> str | None:
    """The first column of a CSV file that holds text in its first row, if any."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            names, row = next(lines, []), next(lines, [])
    except (UnicodeDecodeError, csv.Error):
        return None
    for name, value in zip(names, row):
        try:
            float(value)
        except ValueError:
            return name.strip()
    return None
