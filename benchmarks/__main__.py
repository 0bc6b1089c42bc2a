"""`python -m benchmarks` from the root of the project; `--help` lists the options."""

from __future__ import annotations

import sys
from typing import Any

import tyro
from rich.console import Console

from benchmarks.bench import Bench
from capture_cp import CaptureError


def run_command(command: type[Any], name: str) -> None:
    """Run a command with the arguments given; invalid input ends with one sentence and exit status 2."""
    try:
        tyro.cli(command, prog=name).run(Console())
    except CaptureError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def main() -> None:
    """Run the benchmarks."""
    run_command(Bench, "python -m benchmarks")


if __name__ == "__main__":
    main()
