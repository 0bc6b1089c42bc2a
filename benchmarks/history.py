"""Ratios over time: every run of the benchmarks adds lines to a file, with which a new run is compared.

`capture bench --history` prints them, and draws them with `--plot history.png`.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError

HISTORY = Path(__file__).parent / "history.csv"
FIELDS = ("time", "commit", "cores", "job", "alternative", "ratio", "lowest", "highest", "seconds")
#: A ratio below this share of the usual one deserves a look.
FALLEN = 2 / 3
PANELS, WIDTH = 4, 52  # panels of a row of the picture, characters of a line above one
USUAL = 5  # latest runs whose median ratio is the usual one


class Entry(NamedTuple):
    """One line of the record."""

    time: datetime
    cores: int
    ratio: float


Past = dict[tuple[str, str], list[Entry]]


def add(rows: Iterable[dict[str, Any]], file: Path = HISTORY) -> None:
    """Append the ratios of one run, as `Comparison.time` gives them."""
    run = (datetime.now(UTC).isoformat(timespec="seconds"), _commit(), os.cpu_count())
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        if new:
            writer.writerow(FIELDS)
        for row in rows:
            figures = (row["speed_up"], *row["range"], row["seconds"])
            writer.writerow([*run, row["job"], row["alternative"], *(f"{figure:.4g}" for figure in figures)])


def fallen(rows: Iterable[dict[str, Any]], file: Path = HISTORY) -> list[str]:
    """A sentence for each ratio that has fallen by a third from its median in the latest runs on record.

    Only if it has in every round: another program may have slowed down some of them. Ratios to a job on one core grow with
    the number of cores, so runs on as many cores as here are compared, if there are any.
    """
    past, said = read(file), []
    for row in rows:
        entries = past.get((row["job"], row["alternative"]), [])
        alike = [entry.ratio for entry in entries if entry.cores == os.cpu_count()] or [entry.ratio for entry in entries]
        usual = median(alike[-USUAL:]) if alike else 0.0
        if max(row["range"]) < FALLEN * usual:
            said.append(f"{row['job']}: {row['speed_up']:.1f} times as fast as {row['alternative']}, usually {usual:.1f}")
    return said


def read(file: Path = HISTORY) -> Past:
    """The entries of every job and its alternative, oldest first; nothing without a file."""
    found: Past = defaultdict(list)
    if file.exists():
        with file.open(newline="", encoding="utf-8") as lines:
            for line in csv.DictReader(lines):
                try:
                    entry = Entry(datetime.fromisoformat(line["time"]), int(line["cores"]), float(line["ratio"]))
                    found[line["job"], line["alternative"]].append(entry)
                except (KeyError, TypeError, ValueError):
                    raise CaptureError(f"{file} is not a history of benchmarks: see {line}; repair it or move it.") from None
    return dict(found)


def _commit() -> str:
    """The commit checked out, or nothing outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def show(console: Console, file: Path = HISTORY, picture: Path | None = None) -> None:
    """Print the first, lowest, highest and latest ratio of every job, and draw them to a picture if one is named."""
    past = read(file)
    if not past:
        raise CaptureError(f"{file} has no runs yet; make bench adds one.")
    table = Table(title=f"Ratios of {max(map(len, past.values()))} runs")
    for column in ("job", "alternative", "first", "lowest", "highest", "latest"):
        table.add_column(column, justify="left" if column in ("job", "alternative") else "right")
    for (job, alternative), entries in past.items():
        ratios = [entry.ratio for entry in entries]
        figures = ratios[0], min(ratios), max(ratios), ratios[-1]
        table.add_row(job, alternative, *(f"{ratio:.1f}" for ratio in figures))
    console.print(table)
    if picture is not None:
        _draw(past, picture)


def _draw(past: Past, picture: Path) -> None:
    """One panel per job and alternative: lines of so many jobs in one panel could not be told apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    rows = -(-len(past) // PANELS)
    figure = Figure(figsize=(3.2 * PANELS, 1.7 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, PANELS, sharex=True, squeeze=False).ravel()
    for panel, ((job, alternative), entries) in zip(panels, past.items()):
        panel.plot(*zip(*((entry.time, entry.ratio) for entry in entries)), marker=".")
        panel.set_title(f"{fill(job, WIDTH)}\nagainst {fill(alternative, WIDTH)}", fontsize=7, loc="left")
        panel.set_ylim(0, 1.15 * max(entry.ratio for entry in entries))
        panel.tick_params(labelsize=7)
        panel.grid(alpha=0.3)
    for panel in panels[max(len(past) - PANELS, 0) : len(past)]:
        panel.tick_params(labelbottom=True)
        panel.xaxis.get_offset_text().set_fontsize(7)
    for panel in panels[len(past) :]:
        panel.set_axis_off()
    dates = AutoDateLocator(minticks=1, maxticks=4)  # type: ignore[no-untyped-call]
    panels[0].xaxis.set_major_locator(dates)
    panels[0].xaxis.set_major_formatter(ConciseDateFormatter(dates))  # type: ignore[no-untyped-call]
    figure.supylabel("times as fast as the alternative", fontsize=9)
    figure.savefig(picture, dpi=150)
