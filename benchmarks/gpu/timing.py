"""Timing on a GPU: jobs in turn, and kernels without their launch time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config

from capture_cp.base.checks import Floats
from capture_cp.planning.mppi import MPPI

REPEATS = 20  # of a kernel in a graph, so that the launch of the graph does not count


def kernel_times(planner: MPPI, states: Floats) -> dict[str, Floats]:
    """Microseconds of every kernel of a plan, and of all of them, from every state (n, 6): (n,) each.

    A kernel runs several times in one graph; the time of a graph that has it once is subtracted.
    """
    from capture_cp.cuda.graphs import Recorded

    engine: Any = planner._device_plans
    jobs = kernel_jobs(engine)
    repeats = 2 if simulated() else REPEATS
    once = {name: Recorded(job, engine._stream) for name, job in jobs.items()}
    often = {name: Recorded(repeated(job, repeats), engine._stream) for name, job in jobs.items()}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    planner.reset()
    for number, state in enumerate(states):
        planner.plan(state)  # leaves state, sequences and costs on the GPU
        if number == 0:
            for graph in (*once.values(), *often.values()):
                graph()  # records it
        for name in jobs:
            pairs = [(seconds(often[name]), seconds(once[name])) for _ in range(3)]
            several, one = np.median(pairs, axis=0)
            times[name].append(1e6 * (several - one) / (repeats - 1))
    return {name: np.array(found) for name, found in times.items()}


def kernel_jobs(engine: Any) -> dict[str, Callable[[Any], Any]]:
    """The launches of one plan of a `CudaPlans`, each separately, then all of them."""
    from capture_cp.planning.cuda import average as kernels
    from capture_cp.planning.cuda.layout import COMBINING

    plans = engine._plans
    jobs: dict[str, Callable[[Any], Any]] = {
        "roll_out": lambda on: engine._rolls(plans, engine._sampling, 1, 1, True, on),
        "average": lambda on: kernels.average[(plans.partial.shape[1], 1), COMBINING, on](plans),
    }
    return jobs | {"all": lambda on: [job(on) for job in jobs.values()]}


def repeated(job: Callable[[Any], Any], times: int) -> Callable[[Any], None]:
    """A job on a stream, repeated."""

    def work(on: Any) -> None:
        for _ in range(times):
            job(on)

    return work


def interleaved(jobs: dict[Any, Callable[[Any], Any]], states: Any, rounds: int) -> dict[Any, Floats]:
    """Microseconds (rounds, n) of every job from every state (n): job after job, round after round."""
    times: dict[Any, list[list[float]]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append([1e6 * seconds(lambda: job(state)) for state in states])  # noqa: B023
    return {name: np.array(found) for name, found in times.items()}


def summary(times: Floats) -> dict[str, float]:
    """Median, 99th percentile and largest of times (µs)."""
    low, median, high = np.percentile(times, [5, 50, 99])
    return {"median_us": float(median), "p5_us": float(low), "p99_us": float(high), "worst_us": float(times.max())}


def seconds(job: Callable[[], Any]) -> float:
    """The duration of a job."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def device_seconds(job: Callable[[], Any], rounds: int = 5) -> list[float]:
    """The duration of GPU work in each of several runs, after one that compiles."""
    from numba import cuda

    def whole() -> None:
        job()
        cuda.synchronize()

    cuda.synchronize()
    return [seconds(whole) for _ in range(rounds + 1)][1:]


def simulated() -> bool:
    """Whether there is no GPU, only numba's simulator of one."""
    return bool(config.ENABLE_CUDASIM)
