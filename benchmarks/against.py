"""Plans by this checkout and by another one: `python -m benchmarks.against FOLDER --task peg`.

Each round is a process per checkout, in turn, with one thread, and counts the CPU time of that thread only: what else runs
on the machine then matters little. All plan from the same states if their plans are the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from rich.console import Console

from benchmarks.peg import peg_plan_times
from benchmarks.planning import plan_times
from benchmarks.shelf import shelf_plan_times
from capture_cp.base.checks import CaptureError, Floats, whole_number

HERE = Path(__file__).parents[1]
#: Milliseconds of plans from a seed, by a clock.
PLANS: dict[str, Callable[[int, Callable[[], float]], Floats]] = {
    "marble": plan_times,
    "peg": peg_plan_times,
    "shelf": shelf_plan_times,
}


@dataclass(frozen=True)
class Against:
    """Compare the time of plans with that of another checkout of the project."""

    other: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Root of the other checkout.")]
    task: Annotated[Literal["marble", "peg", "shelf"], tyro.conf.arg(help="What is planned for.")] = "marble"
    rounds: Annotated[int, tyro.conf.arg(help="How often each checkout is timed, alternating.")] = 5
    seed: Annotated[int, tyro.conf.arg(help="Seed of the first round; the next has the next seed.")] = 0

    def run(self, console: Console) -> None:
        """Time both and print the ratios, this checkout over the other."""
        whole_number("rounds", self.rounds, 1)
        if not (self.other / "src" / "capture_cp").is_dir():
            raise CaptureError(f"{self.other} has no folder src/capture_cp; give the root of a checkout.")
        for root in (self.other, HERE):
            self._times(root, self.seed)  # compiles
        ratios = []
        for number in range(self.rounds):
            theirs, ours = (_summary(self._times(root, self.seed + number)) for root in (self.other, HERE))
            ratios.append(ours / theirs)
            console.print(
                f"round {number + 1}: median {theirs[0]:.1f} -> {ours[0]:.1f} ms, 99% {theirs[1]:.1f} -> {ours[1]:.1f} ms",
                highlight=False,
            )
        for name, found in zip(("median", "99th percentile"), np.array(ratios).T):
            middle, low, high = np.median(found), found.min(), found.max()
            console.print(f"{name}: {middle:.2f} of the other's time ({low:.2f} - {high:.2f})", highlight=False)

    def _times(self, root: Path, seed: int) -> Floats:
        """CPU milliseconds of all plans with the package of a checkout, in a process of its own."""
        environment = os.environ | {"PYTHONPATH": f"{root.resolve() / 'src'}:{HERE}", "NUMBA_NUM_THREADS": "1"}
        code = f"from benchmarks.against import print_times; print_times({self.task!r}, {seed})"
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=HERE, stdout=subprocess.PIPE, check=True)
        return np.array(json.loads(done.stdout))


def _summary(times: Floats) -> Floats:
    return np.array([np.median(times), np.percentile(times, 99)])


def print_times(task: str, seed: int) -> None:
    """Print the CPU milliseconds of all plans as a JSON list."""
    print(json.dumps(PLANS[task](seed, time.thread_time).tolist()))


if __name__ == "__main__":
    tyro.cli(Against, prog="python -m benchmarks.against").run(Console())
