"""Latency of a single control-loop query, call by call: a compiled calibration compared with the plain one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.comparison import Job, limited
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.conformal.groups import Tree
from capture_lab.tasks.box import Box

#: The plain path takes about a hundred times as long; this many of its calls are timed per thousand of the compiled one.
PLAIN_SHARE = 20
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "worst": 100.0}


def latency_measures(calls: int, seed: int) -> list[dict[str, Any]]:
    """Percentiles, in microseconds, of the time of one call: thresholds in every stratum, and membership of one outcome."""
    compiled, plain = _questions(seed)
    rows = []
    for name, ask, n in (("compiled", compiled, calls), ("plain", plain, max(1, calls * PLAIN_SHARE // 1000))):
        times = _latencies(ask, n)
        rows += [
            limited(f"one input, {name} (us), {label} of {n:,} calls", float(np.percentile(times, percentile)), None)
            for label, percentile in PERCENTILES.items()
        ]
    return rows


def _questions(seed: int) -> tuple[Job, Job]:
    """The same query about one input: to a compiled calibration, and to a `Capture`."""
    box, rng = Box(), stream(seed, "latency")
    data = box.transitions(20_000, rng)
    cap = Capture(box, box.strata, groups=Tree(per_stratum=False)).fit(data.X, data.Y)
    X, Y = data.X[:1].copy(), data.Y[:1].copy()
    particles, labels = cap.predict(X, rng), box.strata.index(Y)
    fast, q, inside = cap.compile(), np.empty((1, 3)), np.empty(1, dtype=bool)

    def compiled() -> None:
        fast.thresholds(X, q)
        fast.contains(X, Y, particles, labels, inside)

    def plain() -> None:
        cap.thresholds(X)
        cap.contains(X, Y, prediction=particles, labels=labels)

    return compiled, plain


def _latencies(ask: Job, calls: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Microseconds of each of many calls, (calls,), including a few dozen nanoseconds of the clock itself."""
    clock, times = time.perf_counter_ns, np.empty(calls, dtype=np.int64)
    for _ in range(100):
        ask()
    for i in range(calls):
        began = clock()
        ask()
        times[i] = clock() - began
    return times / 1e3
