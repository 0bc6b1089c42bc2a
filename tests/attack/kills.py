"""Commands that are killed at any moment: what they wrote is whole, and the same command ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attack.row import Row

TESTS = Path(__file__).parents[1]
PUSHES = TESTS.parent / "docs" / "assets" / "pushes.csv"
TRIES = 4
COLUMNS = "--state x y --action push_x push_y --next next_x next_y"
BOARD = "--maps mine.json"
SHORT = "--episodes 3 --samples 64 --horizon 2"
FEW = "--horizon 2 --calibration 800 --test 400 --volume 0 --min-leaf 100"
#: What a killed save leaves, until a save a day later removes it.
HALF = re.compile(r"\..+\.[0-9a-f]{16}(\.\w+)?")
#: What a folder holds before a command is run.
GIVEN = ("mine.json", "pushes.csv", "new.csv")
#: Results that are the same each time, but for how long things took.
TIMES = ("plan_ms", "seconds", "plan_ms_median", "plan_ms_p99")

COMMANDS = {
    "size": "size --alpha 0.05 --json rows.json",
    "calibrate": f"calibrate pushes.csv {COLUMNS} --out robot.capture --json rows.json",
    "check": f"check robot.capture new.csv {COLUMNS} --json rows.json",
    "demo": "demo --maps mine.json --transitions 500 --episodes 1 --samples 64 --out out --json rows.json",
    "coverage": f"coverage marble {BOARD} --mc 2 --methods pcp capture --state state --json rows.json",
    "plan": f"plan marble {BOARD} --methods capture {SHORT} --state state --record runs --json rows.json",
    "coverage peg": "coverage peg --calibration 4000 --test 2000 --volume 20 --json rows.json",
    "horizon": f"horizon marble {BOARD} {FEW} --json rows.json",
    "reproduce": "reproduce --only marble-coverage --jobs 1 --out results",
}
#: Runs one command, on boards small enough to be done in seconds.
PROGRAM = """
import sys
from pathlib import Path
import pytest
from capture_cp.cli import main
from reproduce.small import shrink
shrink(pytest.MonkeyPatch(), Path("mine.json"))
main(sys.argv[1:])
"""


def rows(seed: int) -> Iterator[Row]:
    for name, command in COMMANDS.items():
        yield killed(name, command.split(), np.random.default_rng([seed, sum(map(ord, name))]))


def killed(name: str, arguments: list[str], rng: np.random.Generator) -> Row:
    row = Row(f"kill -9: capture {name}")
    with tempfile.TemporaryDirectory() as place:
        wanted, seconds = None, 0.0
        for _ in range(2):  # the first run compiles
            folder, began = fresh(Path(place) / "whole"), time.monotonic()
            with row.trying("not killed"):
                finish(folder, arguments)
            wanted, seconds = results(folder), time.monotonic() - began
        for number in range(TRIES):
            folder, delay = fresh(Path(place) / str(number)), float(rng.uniform(0.3, 1.0)) * seconds
            with row.trying(f"killed after {delay:.1f} s"):
                kill_after(delay, folder, arguments)
                results(folder)  # whatever is there can be read
                finish(folder, arguments)
                assert results(folder) == wanted, "other results than of a run that was not killed"
                left = [path.name for path in folder.rglob(".*") if path.is_file()]
                assert not [name for name in left if not HALF.fullmatch(name)], "left something behind"
    return row


def fresh(folder: Path) -> Path:
    """A folder with what the commands need."""
    from capture_cp import write_transitions
    from capture_lab.tasks.box import Box
    from marble.boards import write_map

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_map(folder)
    shutil.copy(PUSHES, folder / "pushes.csv")
    write_transitions(folder / "new.csv", Box().transitions(500, np.random.default_rng(9)))
    if not (folder.parent / "robot.capture").exists():
        finish(folder, COMMANDS["calibrate"].split())
        shutil.move(folder / "robot.capture", folder.parent / "robot.capture")
        for file in folder.iterdir():
            if file.name not in GIVEN:
                file.unlink()
    shutil.copy(folder.parent / "robot.capture", folder)
    return folder


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "MPLBACKEND": "Agg"}
    if "peg" in arguments:  # which keeps its transitions there
        environment["XDG_CACHE_HOME"] = str(folder / "cache")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def finish(folder: Path, arguments: list[str]) -> None:
    process = start(folder, arguments)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, f"status {process.returncode}: {errors[-300:]}"


def kill_after(delay: float, folder: Path, arguments: list[str]) -> None:
    process = start(folder, arguments)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def results(folder: Path) -> dict[str, Any]:
    """Every finished result by its name, read; a file that is there must be whole. States are left to the studies."""
    from capture_cp.capture.artifact import read
    from capture_cp.planning import Episode

    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name.startswith(".") or path.name in GIVEN:
            continue
        if path.suffix == ".json":
            found[name] = without_times(json.loads(path.read_text()))
        elif path.suffix == ".capture":
            found[name] = read(path)[0]["data"]
        elif path.suffix == ".npz":
            found[name] = Episode.load(path).states.tolist()
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>"), f"{name} is cut short"
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value
