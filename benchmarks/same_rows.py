"""Check that two versions of the package compute the same numbers: run small studies with each, then compare their rows.

    python benchmarks/same_rows.py run rows/before --source OLD_CHECKOUT/src --commands before
    python benchmarks/same_rows.py run rows/after
    python benchmarks/same_rows.py compare rows/before rows/after

`run` writes NAME.json for every study, and the folder NAME with the episodes of those that record them. Compiled code and
simulated transitions are made again in every run: those of an earlier one could hide a change.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

METHODS = "--methods particles pcp lucca no-strata capture-k1 capture"
ROWS = f"{METHODS} capture-horizon capture-online capture-residual capture-online-residual capture-horizon-residual"
LOG = "log.csv --state x y --action push_x push_y --next next_x next_y"
SMALL_PEG = "--calibration 3000 --test 2000 --volume 100 --min-leaf 200"

Command = str | tuple[str, ...]

#: Arguments of `capture` by the name of the study. Of several commands, the last one writes the rows; anything it saves to
#: the folder "episodes" is compared as well.
AFTER: dict[str, Command] = {
    "coverage-marble": f"coverage marble --maps top-center bottom-left {METHODS} capture-residual --mc 5",
    "coverage-marble-random": f"coverage marble --maps center {METHODS} --mc 5 --design random --tree per-stratum --seed 1",
    "coverage-marble-test-random": "coverage marble --maps top-left --methods capture --mc 2 --test-design random"
    " --max-leaves 7 --particles 8 --alpha 0.2",
    "coverage-marble-absorb": f"coverage marble --maps bottom-right {METHODS} --mc 5 --absorb",
    "coverage-marble-sizes": "coverage marble --maps center-right --methods pcp capture --mc 2 --sizes 300 3000",
    "coverage-peg": f"coverage peg {METHODS} {SMALL_PEG}",
    "coverage-peg-features": f"coverage peg {METHODS} {SMALL_PEG} --tree features --trim 1.5 --hole 8.5 --friction 0.5",
    "coverage-peg-label": f"coverage peg --methods no-strata capture {SMALL_PEG} --tree label --max-leaves 7 --seed 1",
    "coverage-peg-arm": "coverage peg --system arm --methods lucca capture --calibration 1000 --test 500 --volume 50",
    "horizon-marble": "horizon marble --maps top-center bottom-left --calibration 4000 --test 2000 --volume 100",
    "horizon-marble-hold": "horizon marble --maps center --horizon 4 --calibration 4000 --test 2000 --volume 0 --hold 2"
    " --confidence 0.95",
    "horizon-peg": "horizon peg --horizon 3 --calibration 1500 --test 500 --volume 20 --min-leaf 100",
    "plan-marble": f"plan marble --maps top-center bottom-left {ROWS} --episodes 2 --samples 1024",
    "plan-marble-variant": "plan marble --maps center --methods lucca capture capture-horizon-residual --episodes 2"
    " --samples 1024 --variant --model-gain 1.5 --k 4 --calibration 0.25 --horizon 5 --temperature 0.05",
    "plan-marble-recorded": f"plan marble --maps top-left {ROWS} --episodes 1 --samples 1024 --seed 1 --record episodes",
    "plan-marble-sensitivity": "sensitivity marble --maps top-center --methods capture --episodes 1 --samples 128",
    "plan-peg": f"plan peg {ROWS} --episodes 2 --calibration 5000 --samples 32",
    "plan-peg-options": "plan peg --methods lucca no-strata capture --episodes 2 --calibration 2000 --bound 4 --width 30"
    " --bonuses --infeasible worst --frequency 100 --trim 1",
    "plan-peg-recorded": f"plan peg {ROWS} --episodes 1 --calibration 5000 --samples 32 --seed 1 --record episodes",
    "plan-peg-sensitivity": "sensitivity peg --methods lucca capture --episodes 1 --calibration 5000",
    "online-marble": "online marble --maps top-center --steps 200 --drag 0.05",
    "online-marble-rounds": "rounds marble --maps bottom-left --methods pcp capture --rounds 1 --episodes 12"
    " --test 6 --samples 128",
    "demo": "demo --episodes 1 --transitions 10000 --samples 256",
    "calibrate": f"calibrate {LOG}",
    "calibrate-strata": f"calibrate {LOG} --model robot:model --strata robot:strata --min-leaf 100 --alpha 0.2",
    "calibrate-episodes": f"calibrate {LOG} --episode run --method lucca --confidence 0.9",
    "check": (f"calibrate {LOG}", "check robot.capture fresh.csv"),
    "check-episodes": (f"calibrate {LOG} --episode run", "check robot.capture drifted.csv"),
    "check-history": (
        f"calibrate {LOG}",
        "check robot.capture fresh.csv --history history.capture",
        "check robot.capture drifted.csv --history history.capture",
    ),
    "size": "size --alpha 0.1 --groups 6 --own-model",
    "size-confidence": "size --alpha 0.05 --confidence 0.9 --groups 3 --share 0.1",
}
#: The studies whose commands had other arguments in the earlier version.
BEFORE: dict[str, Command] = {
    "plan-marble-sensitivity": "plan marble-sensitivity --maps top-center --methods capture --episodes 1 --samples 128",
    "plan-peg-sensitivity": "plan peg-sensitivity --methods lucca capture --episodes 1 --calibration 5000",
    "online-marble-rounds": "online marble-rounds --maps bottom-left --methods pcp capture --rounds 1 --episodes 12"
    " --test 6 --samples 128",
}
COMMANDS = {"before": AFTER | BEFORE, "after": AFTER}

#: A model and strata for the log, as a user may write them.
ROBOT = """
import numpy as np

def model(X, n_particles, rng):
    push = X[:, None, 2:] + 0.05 * rng.standard_normal((len(X), n_particles, 2))
    return np.clip(X[:, None, :2] + 1.2 * push, 0.0, 1.0)

class Walls:
    names = ("free", "wall", "corner")

    def index(self, Y):
        return (np.minimum(Y, 1 - Y) < 0.015).sum(axis=1)

strata = Walls()
"""

TOLERANCE = 1e-9
#: Parts of a file that describe how its rows were made.
HEADER = {"schema", "config", "settings", "versions", "date"}
TIMES = re.compile(r"(^|_)(ms|seconds)(_|$)")
TIME_UNITS = {"s", "ms", "µs"}
SHOWN = 5


def run(out: Path, source: Path | None, commands: dict[str, Command], names: Iterable[str]) -> bool:
    """Run the studies one after the other, each in an empty folder; whether all of them wrote their rows."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    with TemporaryDirectory() as caches:
        environment = os.environ | {"NUMBA_CACHE_DIR": f"{caches}/numba", "XDG_CACHE_HOME": caches}
        if source is not None:
            environment["PYTHONPATH"] = str(source.resolve())
        for name in names:
            began = time.perf_counter()
            if trouble := _study(name, commands[name], out, environment):
                failed.append(name)
            print(f"{name:30} {time.perf_counter() - began:6.1f} s {trouble}", flush=True)
    if failed:
        print(f"failed: {' '.join(failed)}")
    return not failed


def _study(name: str, command: Command, out: Path, environment: dict[str, str]) -> str:
    """Run one study and keep its rows and episodes; returns what went wrong, or an empty string."""
    rows = out / f"{name}.json"
    rows.unlink(missing_ok=True)
    shutil.rmtree(out / name, ignore_errors=True)
    *first, last = (command,) if isinstance(command, str) else command
    with TemporaryDirectory() as folder:
        write_logs(Path(folder))
        for line in (*first, f"{last} --json rows.json"):
            python = [sys.executable, "-c", "from capture_cp.cli import main; main()", *line.split()]
            done = subprocess.run(python, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1):  # `capture check` ends with 1 if it raises an alarm
                return f"FAILED ({done.returncode}): {done.stderr.strip()[-1000:]}"
        written = Path(folder) / "rows.json"
        if not written.exists():
            return f"FAILED (no rows): {done.stderr.strip()[-1000:]}"
        shutil.move(written, rows)
        if (episodes := Path(folder) / "episodes").exists():
            shutil.move(episodes, out / name)
    return ""


def write_logs(folder: Path) -> None:
    """Three logs of a point that is pushed around in a box, in runs of five pushes, and a module with a model for it."""
    for seed, (name, gain) in enumerate({"log": 1.3, "fresh": 1.3, "drifted": 1.8}.items()):
        rng = np.random.default_rng(seed)
        state, push = rng.uniform(0, 1, (2000, 2)), rng.uniform(-0.3, 0.3, (2000, 2))
        after = np.clip(state + gain * push + 0.03 * rng.standard_normal((2000, 2)), 0, 1)
        table = np.column_stack([np.arange(2000) // 5, state, push, after])
        header = "run,x,y,push_x,push_y,next_x,next_y"
        np.savetxt(folder / f"{name}.csv", table, "%.17g", ",", header=header, comments="")
    (folder / "robot.py").write_text(ROBOT, encoding="utf-8")


class Comparison:
    """Values of two versions, compared.

    Attributes:
        values: how many were compared.
        differences: one sentence each.
        gone, new: keys that only one of the versions has.
    """

    def __init__(self) -> None:
        self.values = 0
        self.differences: list[str] = []
        self.gone: set[str] = set()
        self.new: set[str] = set()

    def add(self, before: Any, after: Any, where: str = "") -> None:
        """Compare two values, entry by entry if they are dictionaries or lists; `where` names them."""
        if isinstance(before, dict) and isinstance(after, dict):
            key_of = re.sub(r"\[\d+\]", "", where)
            self.gone |= {f"{key_of}.{key}".lstrip(".") for key in before.keys() - after.keys()}
            self.new |= {f"{key_of}.{key}".lstrip(".") for key in after.keys() - before.keys()}
            for key in before:
                if key in after and not _is_time(key, before):
                    self.add(before[key], after[key], f"{where}.{key}".lstrip("."))
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                self.differences.append(f"{where}: {len(before)} entries before, {len(after)} after")
            for i, (one, other) in enumerate(zip(before, after)):
                self.add(one, other, f"{where}[{i}]")
        else:
            self.values += np.size(before)
            if not same(before, after):
                self.differences.append(f"{where}: {_shown(before)} before, {_shown(after)} after")


def same(before: Any, after: Any) -> bool:
    """Whether two numbers, texts or arrays are equal; where one is a float, up to rounding."""
    one, other = np.asarray(before), np.asarray(after)
    if one.shape != other.shape:
        return False
    kinds = {one.dtype.kind, other.dtype.kind}
    if "f" in kinds and kinds <= set("fiu"):
        return bool(np.isclose(other, one, rtol=TOLERANCE, atol=0.0, equal_nan=True).all())
    return (len(kinds) == 1 or kinds <= set("iu")) and bool((one == other).all())


def compare(before: Path, after: Path, names: Sequence[str]) -> bool:
    """Compare the files of two runs and print a line for each; whether all are the same."""
    stored = [{path.name for path in folder.iterdir()} for folder in (before, after)]
    names = [name for name in sorted(set.union(*stored)) if not names or name.removesuffix(".json") in names]
    all_same = bool(names)
    for name in names:
        if missing := [str(folder) for folder, found in zip((before, after), stored) if name not in found]:
            print(f"{name:36} missing in {missing[0]}")
            all_same = False
            continue
        found, first = Comparison(), content(before / name)
        found.add(first, content(after / name))
        rows = len(first["rows"])
        print(f"{name:36} {rows:5} rows {found.values:8} values {len(found.differences):6} differences")
        for what, keys in (("gone", found.gone), ("new", found.new)):
            if keys:
                print(f"    {what}: {', '.join(sorted(keys))}")
        for line in found.differences[:SHOWN]:
            print(f"    {line}")
        all_same = all_same and not found.differences
    return all_same


def content(path: Path) -> dict[str, Any]:
    """The compared content of a file with rows, or of a folder with episodes, which are its rows."""
    if path.is_dir():
        return {"rows": [_episode(file) for file in sorted(path.glob("*.npz"))]}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if key not in HEADER}


def _episode(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    return {"file": file.name, "header": json.loads(str(arrays.pop("header"))), **arrays}


def _is_time(key: str, row: dict[str, Any]) -> bool:
    return bool(TIMES.search(key)) or (key == "value" and row.get("unit") in TIME_UNITS)


def _shown(value: Any) -> str:
    return f"array {value.shape} with sum {value.sum():.17g}" if isinstance(value, np.ndarray) else repr(value)


def main() -> None:
    """Read the command line; exit status 1 if a study failed or a value differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run the studies and write their rows")
    running.add_argument("out", type=Path, help="folder for the rows")
    running.add_argument("--source", type=Path, help="folder with the package, by default the installed one")
    running.add_argument("--commands", choices=tuple(COMMANDS), default="after", help="version of the command line")
    comparing = commands.add_parser("compare", help="compare the rows of two runs")
    comparing.add_argument("before", type=Path, help="folder of the first run")
    comparing.add_argument("after", type=Path, help="folder of the second run")
    for each in (running, comparing):
        each.add_argument("--only", nargs="+", default=[], choices=tuple(AFTER), metavar="NAME", help="only these studies")
    given = parser.parse_args()
    if given.command == "run" and given.source is not None and not (given.source / "capture_cp").is_dir():
        parser.error(f"there is no package capture_cp in {given.source}, so the installed one would be run")
    if given.command == "run":
        good = run(given.out, given.source, COMMANDS[given.commands], given.only or AFTER)
    else:
        good = compare(given.before, given.after, given.only)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
