"""How episodes ended, by setting and in the order of time."""

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
ONLY = "as logged"  # the setting of a log that names none


@dataclass(frozen=True)
class Outcomes:
    """n episodes in the order of time.

    Attributes:
        setting: what the planner was set to, (n,).
        outcome: how the episode ended, (n,).
        steps: how many steps it had, (n,); NaN where that is unknown.
    """

    setting: Words
    outcome: Words
    steps: Floats

    @classmethod
    def of(cls, setting: str, episodes: Iterable[Any]) -> Outcomes:
        """Episodes of one setting: each an outcome, or an outcome and a number of steps."""
        pairs = [(one, np.nan) if isinstance(one, str) else one for one in episodes]
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise CaptureError("an episode is neither an outcome nor a pair of an outcome and a number of steps.")
        steps = np.array([float(pair[1]) for pair in pairs])
        return cls(np.full(len(pairs), setting), np.array([pair[0] for pair in pairs], dtype=str), steps)

    @classmethod
    def concatenate(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """All episodes of several, one after the other."""
        names = "setting", "outcome", "steps"
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def read(cls, path: Pathlike, setting: str = "setting", outcome: str = "outcome", steps: str = "steps") -> Outcomes:
        """Episodes from a CSV file, one per line under a line of names; the arguments are names of its columns.

        Without a column of settings all episodes are of one; the column of steps may be missing too. Others are ignored.
        """
        file = existing_file(path, "outcome file")
        try:
            with file.open(newline="", encoding="utf-8-sig") as text:
                lines = csv.reader(text)
                names = [name.strip() for name in next(lines, [])]
                rows = [(lines.line_num, [value.strip() for value in row]) for row in lines if row]
        except (UnicodeDecodeError, csv.Error):
            raise CaptureError(
                f"outcome file {file} is not CSV text; expected a line of names, then one episode each."
            ) from None
        _check(file, names, rows, outcome)
        columns = {name: [row[at] for _, row in rows] for at, name in enumerate(names)}
        for name in (outcome, setting):
            if "" in columns.get(name, ()):
                line = rows[columns[name].index("")][0]
                raise CaptureError(f"line {line} of {file} has an empty {shortened(name)!r}; fill it in, or drop the line.")
        try:
            length = np.array([float(value) for value in columns.get(steps, ["nan"] * len(rows))])
        except ValueError:
            raise CaptureError(
                f"column {shortened(steps)!r} of {file} holds no numbers; expected steps of each episode."
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
        """The settings, in the order in which they first occur."""
        return tuple(dict.fromkeys(self.setting.tolist()))

    def at(self, setting: str) -> Outcomes:
        """The episodes of one setting."""
        rows = self.setting == setting
        return Outcomes(self.setting[rows], self.outcome[rows], self.steps[rows])


def _check(file: Path, names: list[str], rows: list[tuple[int, list[str]]], outcome: str) -> None:
    """Refuse a table without outcomes or episodes, with two columns of one name, or with lines of another length."""
    if len(set(names)) < len(names):
        raise CaptureError(f"outcome file {file} repeats a column name; give each column its own.")
    if outcome not in names:
        raise CaptureError(
            f"outcome file {file} has no column {shortened(outcome)!r}; its columns are {shortened(', '.join(names), 200)}. "
            "Name the one that says how each episode ended with --outcome."
        )
    if not rows:
        raise CaptureError(f"outcome file {file} holds no episodes; expected one per line under the line of names.")
    for line, row in rows:
        if len(row) != len(names):
            raise CaptureError(f"line {line} of {file} has {len(row)} values under {len(names)} names.")
