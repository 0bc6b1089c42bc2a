"""Logs of SAGE: a folder per motion, with the commands and states of all joints as lists in the cells of CSV files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.arrays import TableSource
from capture_cp.data.source import LONGEST_LABEL, MOST_COLUMNS, Table, natural, no_rows

CONTROL, STATE, JOINTS = "control.csv", "state_motor.csv", "joint_list.txt"
EPISODE, TIME = "motion", "time"
#: What a log has of each joint, and the column of the file of states that holds it.
PARTS = {"qpos": "positions", "qvel": "velocities", "torque": "torques"}
#: Steps of time from which they are microseconds, as on the robot, rather than seconds, as in a simulator.
MICROSECONDS = 10.0
MOST_MOTIONS, DEEPEST = 100_000, 4


def motions_in(folder: Path, depth: int = DEEPEST) -> list[Path]:
    """The folders of motions below a folder, in natural order; the folder itself where it is one."""
    if (folder / STATE).is_file() and (folder / JOINTS).is_file():
        return [folder]
    inner = [one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")] if depth else []
    return [motion for one in sorted(inner, key=natural) for motion in motions_in(one, depth - 1)]


class SageSource(TableSource):
    """The motions in a folder as one log: `motion`, `time` in seconds, and per joint _qpos, _qvel, _torque and _ctrl."""

    def __init__(self, path: Path, motions: Sequence[Path]) -> None:
        super().__init__(path)
        if len(motions) > MOST_MOTIONS:
            raise CaptureError(f"{path} has {len(motions):,} motions; expected at most {MOST_MOTIONS:,}.")
        self._names = [motion.relative_to(path).as_posix() for motion in motions]

    def parts(self) -> Ints:
        labels = self._columns[EPISODE]
        return np.append(0, np.flatnonzero(labels[1:] != labels[:-1]) + 1)

    def locate(self, row: int) -> tuple[Path, int]:
        number = int(np.searchsorted(self.parts(), row, "right")) - 1
        return self.path / self._names[number] / STATE, row - int(self.parts()[number])

    def _read(self) -> Table:
        joints, tables = _joints(self.path / self._names[0]), list[Table]()
        for number, name in enumerate(self._names):
            folder = self.path / name
            if _joints(folder) != joints:
                raise CaptureError(
                    f"{folder / JOINTS} differs from that of {self._names[0]}; give all motions the same joints."
                )
            table, label = _motion(folder, joints), name if name != "." else self.path.absolute().name
            label = label if len(label) <= LONGEST_LABEL else f"{number}: {label[-LONGEST_LABEL + 20 :]}"  # unique
            tables.append({EPISODE: np.full(len(table[TIME]), label), **table})
            if tables[-1].keys() != tables[0].keys():
                raise CaptureError(f"{folder / STATE} has other columns than that of {self._names[0]}; remove the motion.")
        return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _joints(folder: Path) -> list[str]:
    """The names of the joints of a motion."""
    file = existing_file(folder / JOINTS, "list of joints")
    try:
        names = [line.strip() for line in file.read_text("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        names = []
    if not 0 < len(names) <= MOST_COLUMNS or len(set(names)) < len(names):
        raise CaptureError(f"{file} does not name every joint of the robot once, one per line.")
    return names


def _motion(folder: Path, joints: Sequence[str]) -> Table:
    """One motion: every row is a state, with the command that was sent last."""
    states, commands = _cells(folder / STATE), _cells(folder / CONTROL)
    times, sent = (_times(folder / name, cells) for name, cells in ((STATE, states), (CONTROL, commands)))
    last = np.maximum(np.searchsorted(sent, times, "right") - 1, 0)  # before the first command, the arm waits for it
    parts = {part: _lists(folder / STATE, name, states[name], len(joints)) for part, name in PARTS.items() if name in states}
    parts["ctrl"] = _lists(folder / CONTROL, "positions", commands["positions"], len(joints))[last]
    return {TIME: times, **{f"{joint}_{part}": rows[:, j] for part, rows in parts.items() for j, joint in enumerate(joints)}}


def _cells(path: Path) -> dict[str, list[str]]:
    """The cells of a CSV file by column, as text."""
    file = existing_file(path, "log of SAGE")
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            names, rows = next(lines, []), [row for row in lines if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CaptureError(f"{file} is not a CSV file of SAGE: {shortened(str(error))}.") from None
    if not {"timestamp", "positions"} <= set(names):
        raise CaptureError(f"{file} has no columns timestamp and positions; expected a log of SAGE.")
    if not rows:
        raise no_rows(file)
    short = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if short is not None:
        raise CaptureError(f"data row {short + 1} of {file} has {len(rows[short])} values under {len(names)} names.")
    return dict(zip(names, map(list, zip(*rows))))


def _times(file: Path, cells: dict[str, list[str]]) -> Floats:
    """Times in seconds (n,), in order."""
    try:
        times = np.array(cells["timestamp"], dtype=np.float64)
    except ValueError:
        times = np.full(1, np.nan)
    if not np.isfinite(times).all():
        raise CaptureError(f"the column timestamp of {file} has values that are no finite numbers.")
    steps = np.diff(times)
    if (steps < 0).any():
        raise CaptureError(f"times of {file} go back after data row {int(np.argmax(steps < 0)) + 1}; sort it by time.")
    return times * 1e-6 if len(steps) and np.median(steps) > MICROSECONDS else times


def _lists(file: Path, name: str, cells: Sequence[str], width: int) -> Floats:
    """Lists of numbers, (n, width), from their JSON text."""
    found = _parsed(cells, width)  # all at once: some hundred thousand calls take seconds
    if found is None:
        row = next(row for row, cell in enumerate(cells) if _parsed([cell], width) is None)
        shown = shortened(repr(cells[row]))
        raise CaptureError(f"{name} in data row {row + 1} of {file} is {shown}; expected a list of {width} numbers.")
    return found


def _parsed(cells: Sequence[str], width: int) -> Floats | None:
    try:
        found = np.array(json.loads(f"[{','.join(cells)}]"), dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return found if found.shape == (len(cells), width) else None
