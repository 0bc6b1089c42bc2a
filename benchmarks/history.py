"""Ratios over time: every run of the benchmarks adds lines to a file, which can be plotted, and compared with a new run.

python -m benchmarks.history --plot history.png
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError

HISTORY = Path(__file__).parent / "history.csv"
FIELDS = ("time", "commit", "cores", "job", "alternative", "ratio", "lowest", "highest", "seconds")
#: A ratio below this share of the usual one deserves a look.
FALLEN = 2 / 3
USUAL = 5  # latest runs whose median ratio is the usual one


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
    """A sentence for each ratio that has fallen by a third from its median in the latest runs on record."""
    past, said = read(file), []
    for row in rows:
        before = past.get((row["job"], row["alternative"]))
        usual = median(ratio for _, ratio in before[-USUAL:]) if before else 0.0
        if row["speed_up"] < FALLEN * usual:
            said.append(f"{row['job']}: {row['speed_up']:.1f} times as fast as {row['alternative']}, usually {usual:.1f}")
    return said


def read(file: Path = HISTORY) -> dict[tuple[str, str], list[tuple[datetime, float]]]:
    """Times and ratios of every job and its alternative, oldest first; nothing without a file."""
    found: dict[tuple[str, str], list[tuple[datetime, float]]] = defaultdict(list)
    if file.exists():
        with file.open(newline="", encoding="utf-8") as lines:
            for line in csv.DictReader(lines):
                try:
                    entry = datetime.fromisoformat(line["time"]), float(line["ratio"])
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


@dataclass(frozen=True)
class History:
    """Print the first, lowest, highest and latest ratio of every job."""

    file: Annotated[Path, tyro.conf.arg(help="The history.")] = HISTORY
    plot: Annotated[Path | None, tyro.conf.arg(help="Also draw the ratios over time to this picture.")] = None

    def run(self, console: Console) -> None:
        """Print the table, and draw."""
        past = read(self.file)
        if not past:
            raise CaptureError(f"{self.file} has no runs yet; make bench adds one.")
        table = Table(title=f"Ratios of {max(map(len, past.values()))} runs")
        for column in ("job", "alternative", "first", "lowest", "highest", "latest"):
            table.add_column(column, justify="left" if column in ("job", "alternative") else "right")
        for (job, alternative), entries in past.items():
            ratios = [ratio for _, ratio in entries]
            figures = ratios[0], min(ratios), max(ratios), ratios[-1]
            table.add_row(job, alternative, *(f"{ratio:.1f}" for ratio in figures))
        console.print(table)
        if self.plot is not None:
            self._draw(past, self.plot)

    def _draw(self, past: dict[tuple[str, str], list[tuple[datetime, float]]], picture: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 0.3 * len(past) + 3), layout="constrained")
        axes = figure.subplots()
        for (job, alternative), entries in past.items():
            axes.plot(*zip(*entries), marker="o", label=f"{job} / {alternative}")
        axes.set(yscale="log", ylabel="times as fast as the alternative")
        figure.autofmt_xdate()
        figure.legend(loc="outside lower center", fontsize=7, ncols=2)
        figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    from benchmarks.__main__ import run_command

    run_command(History, "python -m benchmarks.history")
