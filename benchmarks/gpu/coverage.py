"""The paper's marble coverage study on a GPU, timed by stages, and checked against the CPU.

    python -m benchmarks.gpu.coverage --out coverage.json

Needs neither tyro nor rich, so that it runs on a bare GPU machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.arguments import at_least_one, result_file
from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.files import write_json
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import require_cuda
from capture_cp.studies.montecarlo import Counts, Question, count, fit_methods
from capture_cp.studies.parts import run_parts
from capture_cp.tasks.marble.cspace import STRATA
from capture_cp.tasks.marble.maps import MAP_NAMES, load_map
from capture_cp.tasks.marble.task import Marble
from capture_cp.tasks.task import TestSet

ALPHA = 0.1
#: The tree of `capture coverage marble`.
TREE = Tree(per_stratum=False, min_leaf=700, max_leaves=None)
#: Number of test inputs, and of outcomes of each, whose memberships are all compared with those of the CPU.
COMPARED, COMPARED_DRAWS = 2048, 1000


class Stopwatch:
    """Seconds of each stage; a stage ends when the GPU has finished it, so that nothing overlaps."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.cuda.synchronize()
        self.seconds[stage] += time.perf_counter() - start


def benchmark(maps: Sequence[str] = MAP_NAMES, mc: int = 10_000, jobs: int = 1, inputs: int | None = None) -> dict[str, Any]:
    """Time the study on these maps with `mc` outcomes per input, and compare a part of it with the CPU.

    `inputs` limits the test inputs of each map. The whole study is timed as `capture coverage marble --device cuda` runs it,
    with CPU and GPU working at the same time; the stages are timed one after the other.
    """
    cuda = require_cuda()
    tasks = {name: Marble(load_map(name)) for name in maps}
    X = {name: task.test(0, inputs).X for name, task in tasks.items()}
    start = time.perf_counter()
    _warm_up(next(iter(tasks.values())))
    compiling = time.perf_counter() - start
    start = time.perf_counter()
    calibrated, results = {}, {}
    work = partial(_calibrate_part, list(tasks.values()))
    for name, (_, caps) in zip(tasks, run_parts(work, range(len(tasks)), jobs)):
        calibrated[name] = caps
        results[name] = _counts(caps, tasks[name], X[name], mc)
    whole = time.perf_counter() - start
    return {
        "device": _name(cuda),
        "maps": list(maps),
        "inputs": sum(map(len, X.values())),
        "outcomes": mc,
        "methods": list(METHODS),
        "jobs": jobs,
        "cores": os.cpu_count(),
        "whole_seconds": whole,
        "compiling_seconds": compiling,
        "stage_seconds": _stages(cuda, calibrated, tasks, X, mc),
        "coverage": _coverage(_sum(results.values()), STRATA),
        "agreement": {name: agreement(caps, tasks[name], X[name]) for name, caps in calibrated.items()},
    }


def agreement(caps: dict[str, Capture], task: Marble, X: Floats) -> dict[str, Any]:
    """Outcomes, strata, memberships, thresholds and cells of a part of X (n, 8), by the GPU and by the CPU."""
    from numba import cuda

    from capture_cp.tasks.marble.cuda import OutcomesOnCuda

    some = np.ascontiguousarray(X[np.linspace(0, len(X) - 1, min(len(X), COMPARED)).astype(int)])
    draws = COMPARED_DRAWS
    Y = task.outcomes(some, draws, 0).reshape(-1, 2)
    labels = task.strata.index(Y)
    positions, strata = cuda.device_array(Y.shape, np.float64), cuda.device_array(len(Y), np.int8)
    OutcomesOnCuda(task).draw(cuda.to_device(some), draws, 0, 0, 0, positions, strata)
    found, found_labels = positions.copy_to_host(), strata.copy_to_host().astype(np.int64)
    report: dict[str, Any] = {
        "outcomes": len(Y),
        "outcomes_that_differ": int((found != Y).any(axis=1).sum()),
        "largest_distance_m": float(np.abs(found - Y).max()),
        "strata_that_differ": int((found_labels != labels).sum()),
        "methods": {},
    }
    for name, cap in caps.items():
        on_gpu = copy(cap).set_params(device="cuda")
        prediction = cap.predict(some, 0)
        ours = on_gpu.contains(some, found.reshape(len(some), draws, 2), ALPHA, None, prediction, found_labels)
        theirs = cap.contains(some, Y.reshape(len(some), draws, 2), ALPHA, None, prediction, labels)
        q, q_gpu = cap.thresholds(some, ALPHA), on_gpu.thresholds(some, ALPHA)
        R, R_gpu = (c.scores(prediction, Y[::draws].copy()) for c in (cap, on_gpu))
        cells = cap.count_cells(some, ALPHA, prediction=prediction)
        report["methods"][name] = {
            "memberships": ours.size,
            "memberships_that_differ": int((ours != theirs).sum()),
            "largest_threshold_difference": float(np.abs(q - q_gpu)[np.isfinite(q)].max(initial=0.0)),
            "largest_score_difference": float(np.abs(R - R_gpu).max()),
            "regions_whose_cells_differ": int(
                (cells != on_gpu.count_cells(some, ALPHA, prediction=prediction)).any(1).sum()
            ),
        }
    report["sums_that_differ"] = _different_sums(caps, task, some, draws)
    return report


def _different_sums(caps: dict[str, Capture], task: Marble, X: Floats, draws: int) -> dict[str, int]:
    """For each method, the number of sums of the streamed GPU counting that differ from the CPU's."""
    test = TestSet(X, partial(task.outcomes, seed=task.seed_here(0)))
    ours, theirs = _counts(caps, task, X, draws), count(caps, task, test, Question(draws, ALPHA), slice(0, len(X)))
    return {name: int((ours[name].sums != theirs[name].sums).sum()) for name in caps}


def _counts(caps: dict[str, Capture], task: Marble, X: Floats, mc: int, **clock: Any) -> dict[str, Counts]:
    from capture_cp.studies.montecarlo_cuda import CounterOnCuda

    outcomes = task.outcomes_on_cuda()
    assert outcomes is not None  # the marble has no drag here
    counter = CounterOnCuda(caps, task, outcomes, Question(mc, ALPHA), **clock)
    return _sum(counter.parts(X, task.test_parts(len(X))))


def _sum(parts: Iterable[dict[str, Counts]]) -> dict[str, Counts]:
    totals: dict[str, Counts] = {}
    for counts in parts:
        totals = {name: totals[name] + counts[name] if totals else counts[name] for name in counts}
    return totals


def calibrate(task: Marble) -> dict[str, Capture]:
    """The methods of one map, calibrated as in the study."""
    return fit_methods(task, METHODS, task.calibration(0), 0, tree=TREE)


def _calibrate_part(tasks: Sequence[Marble], number: int) -> dict[str, Capture]:
    return calibrate(tasks[number])


def _stages(cuda: Any, calibrated: Any, tasks: dict[str, Marble], X: dict[str, Floats], mc: int) -> dict[str, float]:
    """The same work again, one stage at a time; calibration in one process."""
    clock = Stopwatch(cuda)
    for name, task in tasks.items():
        with clock("calibrating"):
            calibrate(task)
        with clock("counting"):
            _counts(calibrated[name], task, X[name], mc, clock=clock)
    return dict(clock.seconds)


def _warm_up(task: Marble) -> None:
    """Compile every kernel: those of the CPU, and those of the GPU for one part."""
    data = task.calibration(0, 7000)
    _counts(fit_methods(task, METHODS, data, 0, tree=TREE), task, data.X[:100], 10)


def table(report: dict[str, Any]) -> str:
    """The main figures as lines of text."""
    each = report["agreement"].values()
    compared = [found for of_map in each for found in of_map["methods"].values()]
    memberships, others = (sum(found[key] for found in compared) for key in ("memberships", "memberships_that_differ"))
    outcomes, moved = (sum(of_map[key] for of_map in each) for key in ("outcomes", "outcomes_that_differ"))
    lines = [f"{report['inputs']:,} inputs, {report['outcomes']:,} outcomes each, {len(report['methods'])} methods"]
    whole = {f"whole study, calibrated by {report['jobs']}": report["whole_seconds"]}
    times = report["stage_seconds"] | whole | {"compiling, before that": report["compiling_seconds"]}
    lines += [f"{stage:30} {seconds:8.1f} s" for stage, seconds in times.items()]
    lines += [f"{'% inside':14} " + " ".join(f"{name:>8}" for name in ("all", *STRATA))]
    for name, inside in report["coverage"].items():
        lines += [f"{name:14} " + " ".join(f"{100 * inside[s][0]:8.1f}" for s in ("all", *STRATA) if s in inside)]
    lines += [f"GPU and CPU: {others:,} of {memberships:,} memberships and {moved:,} of {outcomes:,} outcomes differ"]
    return "\n".join(lines)


def _coverage(counts: dict[str, Counts], strata: tuple[str, ...]) -> dict[str, Any]:
    """Percentage inside by stratum, with 95% intervals over test inputs, and the mean number of cells."""
    found = {}
    for name, counted in counts.items():
        rows = counted.coverage(ALPHA, strata)
        inside = {row.name: [row.coverage, *row.ci95] for row in rows if row.n}
        found[name] = inside | {"cells": rows.all.volume}
    return found


def _name(cuda: Any) -> str:
    name = getattr(cuda.current_context().device, "name", "simulator")
    return name.decode() if isinstance(name, bytes) else str(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its report and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=result_file, help="JSON file for the report")
    parser.add_argument("--mc", type=at_least_one, default=10_000, help="outcomes per test input")
    parser.add_argument("--maps", nargs="+", default=list(MAP_NAMES))
    parser.add_argument(
        "--jobs", type=at_least_one, default=min(len(MAP_NAMES), os.cpu_count() or 1), help="processes that calibrate"
    )
    parser.add_argument("--inputs", type=at_least_one, help="maximum number of test inputs per map")
    given = parser.parse_args(arguments)
    try:
        report = benchmark(given.maps, given.mc, given.jobs, given.inputs)
        if given.out is not None:
            write_json(given.out, report)
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
