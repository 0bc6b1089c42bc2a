"""The paper's marble coverage study on a GPU, timed, and checked against the CPU.

    python -m benchmarks.gpu.coverage --out coverage.json

Needs neither tyro nor rich, so that it runs on a bare GPU machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
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
from capture_cp.data.parts import run_parts
from capture_lab.studies.montecarlo import Counts, Question, count, fit_methods
from capture_lab.tasks.marble.cspace import STRATA
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.task import TestSet

ALPHA = 0.1
#: The tree of `capture coverage marble`.
TREE = Tree(per_stratum=False, min_leaf=700, max_leaves=None)
#: Number of test inputs, and of outcomes of each, whose memberships are all compared with those of the CPU.
COMPARED, COMPARED_DRAWS = 2048, 1000


def benchmark(maps: Sequence[str] = MAP_NAMES, mc: int = 10_000, jobs: int = 1, inputs: int | None = None) -> dict[str, Any]:
    """Time the study on these maps with `mc` outcomes per input, and compare a part of it with the CPU.

    `inputs` limits the test inputs of each map. The study is timed as `capture coverage marble --device cuda` runs it, with
    CPU and GPU working at the same time.
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
        results[name] = _counts(caps, tasks[name], X[name], Question(mc, ALPHA))
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
        "coverage": {name: counts.coverage(ALPHA, STRATA).all.coverage for name, counts in _sum(results.values()).items()},
        "agreement": {name: agreement(caps, tasks[name], X[name]) for name, caps in calibrated.items()},
    }


def agreement(caps: dict[str, Capture], task: Marble, X: Floats) -> dict[str, dict[str, int]]:
    """For each method, how many memberships and cells of a part of X (n, 8) the GPU counts, and in how many it differs."""
    some = np.ascontiguousarray(X[np.linspace(0, len(X) - 1, min(len(X), COMPARED)).astype(int)])
    test, question = TestSet(some, partial(task.outcomes, seed=task.seed_here(0))), Question(COMPARED_DRAWS, ALPHA)
    ours, theirs = _counts(caps, task, some, question), count(caps, task, test, question, slice(0, len(some)))
    return {
        name: {
            "memberships": len(some) * COMPARED_DRAWS,
            "sums": int(ours[name].sums.size),
            "sums_that_differ": int((ours[name].sums != theirs[name].sums).sum()),
            "cells_that_differ": int(np.abs(ours[name].cells - theirs[name].cells).sum()),
        }
        for name in caps
    }


def _counts(caps: dict[str, Capture], task: Marble, X: Floats, question: Question) -> dict[str, Counts]:
    from capture_lab.studies.montecarlo_cuda import CounterOnCuda

    outcomes = task.outcomes_on_cuda()
    assert outcomes is not None  # the marble has no drag here
    counter = CounterOnCuda(caps, task, outcomes, question)
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


def _warm_up(task: Marble) -> None:
    """Compile every kernel: those of the CPU, and those of the GPU for one part."""
    data = task.calibration(0, 7000)
    _counts(fit_methods(task, METHODS, data, 0, tree=TREE), task, data.X[:100], Question(10, ALPHA))


def table(report: dict[str, Any]) -> str:
    """The main figures as lines of text."""
    lines = [f"{report['inputs']:,} inputs, {report['outcomes']:,} outcomes each, {len(report['methods'])} methods"]
    lines += [f"whole study, calibrated by {report['jobs']} processes: {report['whole_seconds']:.1f} s"]
    lines += [f"compiling, before that: {report['compiling_seconds']:.1f} s"]
    lines += [f"{name:14} {100 * inside:5.1f}% inside" for name, inside in report["coverage"].items()]
    found = [method for of_map in report["agreement"].values() for method in of_map.values()]
    total = {key: sum(method[key] for method in found) for key in found[0]}
    different = f"{total['sums_that_differ']:,} of {total['sums']:,} sums differ, and {total['cells_that_differ']:,} cells"
    return "\n".join([*lines, f"GPU and CPU, {total['memberships']:,} memberships: {different}"])


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
