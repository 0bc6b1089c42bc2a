"""Two ways to do one job, timed side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Job = Callable[[], Any]


@dataclass(frozen=True)
class Comparison:
    """Two jobs with the same result; `calls` of them are timed together. `wanted` is the target ratio.

    `rounds` limits how often a slow alternative is run; one that needs no `warm_up` is timed from its first call on.
    """

    name: str
    ours: Job
    alternative: str
    theirs: Job
    wanted: float
    calls: int = 1
    rounds: int | None = None
    warm_up: bool = True

    def time(self, rounds: int) -> dict[str, Any]:
        """Both jobs in turn, `rounds` times: the ratio of their times, its range, and our median time per call."""
        self.ours()  # compiles
        if self.warm_up:
            self.theirs()
        rounds = min(rounds, self.rounds or rounds)
        times = np.array([[seconds(job, self.calls) for job in (self.ours, self.theirs)] for _ in range(rounds)])
        ratios = times[:, 1] / times[:, 0]
        return {
            "job": self.name,
            "alternative": self.alternative,
            "speed_up": float(np.median(ratios)),
            "range": [float(ratios.min()), float(ratios.max())],
            "wanted": self.wanted,
            "seconds": float(np.median(times[:, 0])) / self.calls,
        }


def print_ratios(pairs: Iterable[Comparison], rounds: int) -> None:
    """Time every pair and print its ratio, for benchmarks that run alone."""
    for pair in pairs:
        row = pair.time(rounds)
        low, high = row["range"]
        ratio = f"{row['speed_up']:.1f} times ({low:.1f} - {high:.1f}) as fast as {row['alternative']}"
        print(f"{row['job']}: {ratio}; {1e3 * row['seconds']:.3g} ms per call", flush=True)


def limited(job: str, value: float, limit: float | None) -> dict[str, Any]:
    """A row of the table of absolute times, with its limit on idle cores if there is one."""
    return {"job": job, "value": value, "limit": limit}


def as_ratios(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The absolute times that have a limit, such as a control period, as ratios to it."""
    found = []
    for row in rows:
        if row["limit"] is not None:
            ratio = row["limit"] / row["value"]
            limit = f"a limit of {row['limit']:g}"
            found.append({
                "job": row["job"], "alternative": limit, "speed_up": ratio, "range": [ratio, ratio], "seconds": row["value"],
            })  # fmt: skip
    return found


def seconds(job: Job, calls: int = 1) -> float:
    """How long so many calls of a job take together."""
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return time.perf_counter() - start
