"""Runs the attacks, each in a process of its own, and prints one table: `python -m attack --json FILE --only NAME`."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from attack.row import Row

ATTACKS = ("forged", "disks", "kills")
SECONDS = 1500  # for one module of them


def attacked(name: str, seed: int) -> Iterator[Row]:
    """Rows of one module; a crash or a hang is a row of its own."""
    command = [sys.executable, "-m", "attack", "--work", name, "--seed", str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, errors = process.communicate()
    yield from (Row(**json.loads(line)) for line in printed.splitlines() if line.startswith("{"))
    if process.returncode != 0:
        yield Row(name, 1, [f"the attack itself ended with exit status {process.returncode}: {errors[-500:]}"])


def work(name: str, seed: int) -> None:
    warnings.simplefilter("ignore")
    for row in importlib.import_module(f"attack.{name}").rows(seed):
        print(json.dumps(asdict(row)), flush=True)


def table(rows: list[Row]) -> Table:
    shown = Table("attack", "tries", "failures", "note", title="Attacks", title_justify="left")
    for row in rows:
        shown.add_row(row.attack, f"{row.tries:,}", f"{len(row.failures):,}", row.note)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=ATTACKS, nargs="+", default=ATTACKS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.seed)
        return 0
    console, rows, began = Console(), [], time.monotonic()
    for name in given.only:
        with console.status(name):
            rows += attacked(name, given.seed)
    console.print(table(rows))
    failures = [f"{row.attack}: {failure}" for row in rows for failure in row.failures]
    for failure in failures[:100]:
        console.print(failure, markup=False, highlight=False, soft_wrap=True)
    tries, seconds = sum(row.tries for row in rows), round(time.monotonic() - began)
    console.print(f"{tries:,} tries, {len(failures)} failures, {seconds} s", highlight=False)
    if given.json is not None:
        content = {"date": time.strftime("%Y-%m-%d"), "seed": given.seed, "seconds": seconds}
        given.json.write_text(json.dumps(content | {"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
