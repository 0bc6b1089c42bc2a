"""Logs of SAGE: a folder per motion, with the commands and states of all joints as lists in the cells of CSV files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.arrays import TableSource
from capture_cp.data.source import MOST_COLUMNS, Table, natural, no_rows

CONTROL, STATE, JOINTS = "control.csv", "state_motor.csv", "joint_list.txt"
TIME = "time"
#: What a log has of each joint, and the column of the file of states that holds it.
PARTS = {"qpos": "positions", "qvel": "velocities", "torque": "torques"}
#: Steps of time from which they are microseconds, as on the robot, rather than seconds, as in a simulator.
MICROSECONDS = 10.0
DEEPEST = 4  # folders below the one that is named


def motions_in(folder: Path, depth: int = DEEPEST) -> list[Path]:
    """The folders of motions below a folder, in natural order; the folder itself where it is one."""
    if (folder / STATE).is_file() and (folder / JOINTS).is_file():
        return [folder]
    inner = [one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")] if depth else []
    return [motion for one in sorted(inner, key=natural) for motion in motions_in(one, depth - 1)]


class SageSource(TableSource):
    """One motion: `time` in seconds, and per joint _qpos, _qvel, _torque and _ctrl; every row is a state."""

    def _read(self) -> Table:
        joints, states, commands = _joints(self.path), _cells(self.path / STATE), _cells(self.path / CONTROL)
        times, sent = (_times(self.path / name, cells) for name, cells in ((STATE, states), (CONTROL, commands)))
        last = np.maximum(np.searchsorted(sent, times, "right") - 1, 0)  # before the first command, the arm waits for it
        given = [(part, STATE, name, states[name]) for part, name in PARTS.items() if name in states]
        given.append(("ctrl", CONTROL, "positions", commands["positions"]))
        table: Table = {TIME: times}
        for part, file, name, cells in given:
            rows = _lists(self.path / file, name, cells, len(joints))
            rows = rows[last] if part == "ctrl" else rows
            table |= {f"{joint}_{part}": rows[:, j] for j, joint in enumerate(joints)}
        return table


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
