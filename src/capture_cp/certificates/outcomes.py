"""How episodes ended, by setting and in chronological order."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, shortened
from capture_cp.base.files import Pathlike, existing_file, written_whole

Words = npt.NDArray[np.str_]
ONLY = "as logged"  # the setting of a log without a column of settings


@dataclass(frozen=True)
class Outcomes:
    """n episodes in chronological order.

    Attributes:
        setting: the planner's setting, (n,).
        outcome: how each episode ended, (n,).
        steps: number of steps, (n,); NaN where unknown.
    """

    setting: Words
    outcome: Words
    steps: Floats

    @classmethod
    def of(cls, setting: str, episodes: Iterable[Any]) -> Outcomes:
        """Episodes of one setting; each is an outcome, or an outcome and a number of steps."""
        pairs = [(one, np.nan) if isinstance(one, str) else one for one in episodes]
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise CaptureError("an episode is neither an outcome nor a pair of an outcome and a number of steps.")
        steps = np.array([float(pair[1]) for pair in pairs])
        return cls(np.full(len(pairs), setting), np.array([pair[0] for pair in pairs], dtype=str), steps)

    @classmethod
    def concatenate(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Join several sets of episodes, one after the other."""
        names = "setting", "outcome", "steps"
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def read(cls, path: Pathlike, setting: str = "setting", outcome: str = "outcome", steps: str = "steps") -> Outcomes:
        """Read episodes from a CSV file with a header line and one episode per line; the arguments are column names.

        Without a setting column, all episodes belong to one setting. The steps column is optional; others are ignored.
        """
        file = existing_file(path, "outcome file")
        try:
            with file.open(newline="", encoding="utf-8-sig") as text:
                lines = csv.reader(text)
                names = [name.strip() for name in next(lines, [])]
                rows = [(lines.line_num, [value.strip() for value in row]) for row in lines if row]
        except (UnicodeDecodeError, csv.Error):
            raise CaptureError(
                f"outcome file {file} is not CSV text; expected a header line, then one episode per line."
            ) from None
        _check(file, names, rows, outcome)
        columns = {name: [row[at] for _, row in rows] for at, name in enumerate(names)}
        for name in (outcome, setting):
            if "" in columns.get(name, ()):
                line = rows[columns[name].index("")][0]
                raise CaptureError(f"line {line} of {file} has an empty {shortened(name)!r}; fill it in or drop the line.")
        try:
            length = np.array([float(value) for value in columns.get(steps, ["nan"] * len(rows))])
        except ValueError:
            raise CaptureError(
                f"column {shortened(steps)!r} of {file} is not numeric; expected the number of steps of each episode."
            ) from None
        return cls(np.array(columns.get(setting, [ONLY] * len(rows))), np.array(columns[outcome]), length)

    def write(self, path: Pathlike) -> None:
        """Write the episodes to a CSV file, atomically."""
        with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as text:
            lines = csv.writer(text)
            lines.writerow(["setting", "outcome", "steps"])
            lines.writerows(zip(self.setting.tolist(), self.outcome.tolist(), map("{:g}".format, self.steps.tolist())))

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings, in order of first occurrence."""
        return tuple(dict.fromkeys(self.setting.tolist()))

    def at(self, setting: str) -> Outcomes:
        """The episodes of one setting."""
        rows = self.setting == setting
        return Outcomes(self.setting[rows], self.outcome[rows], self.steps[rows])


def _check(file: Path, names: list[str], rows: list[tuple[int, list[str]]], outcome: str) -> None:
    """Reject a table without outcomes or episodes, with repeated column names, or with lines of different length."""
    if len(set(names)) < len(names):
        raise CaptureError(f"outcome file {file} repeats a column name; give each column its own name.")
    if outcome not in names:
        raise CaptureError(
            f"outcome file {file} has no column {shortened(outcome)!r}; its columns are {shortened(', '.join(names), 200)}. "
            "Name the column that holds the outcome of each episode with --outcome."
        )
    if not rows:
        raise CaptureError(f"outcome file {file} holds no episodes; expected one per line below the header line.")
    for line, row in rows:
        if len(row) != len(names):
            raise CaptureError(f"line {line} of {file} has {len(row)} values; expected {len(names)}, one per column.")
