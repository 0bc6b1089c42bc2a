"""The marble's plan on a GPU: its time, beside PyTorch's, how it scales, and its agreement with the CPU.

    python -m benchmarks.gpu.plan --out plan.json

Plans start from the states of closed-loop runs. Needs neither tyro nor rich, so that it runs on a bare GPU machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.comparison import seconds
from benchmarks.gpu.arguments import at_least_one, result_file
from benchmarks.planning import ALPHA, calibrated
from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.base.files import write_json
from capture_cp.base.streams import stream as random_stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.cuda.device import require_cuda
from capture_cp.kernels.random import stream
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.settings import PlannerSettings
from capture_lab.tasks.marble.maps import MAP_NAMES
from capture_lab.tasks.marble.planner import PLANNER
from capture_lab.tasks.marble.task import Marble

PARTS = ("plan", "torch", "scaling", "agreement")
DIFFERENT = 1e-9  # smallest difference of two stage costs that counts
#: Sizes that are varied, each with the others as in the paper.
SCALING = {
    "samples": (2**10, 2**14, 2**18),
    "horizon": (12, 30, 60),
    "particles": (64, 256),
    "plans": (16, 256, 1024),
}

Job = Callable[[Any], Any]


@dataclass(frozen=True)
class Options:
    """What to measure, and at which size."""

    parts: Sequence[str] = PARTS
    maps: Sequence[str] = MAP_NAMES
    samples: int = 4096
    horizon: int = 6
    rounds: int = 10
    steps: int = 30  # of a closed-loop run, at most
    seed: int = 0

    def __post_init__(self) -> None:
        for name, values, known in (("part", self.parts, PARTS), ("map", self.maps, MAP_NAMES)):
            for value in values:
                known_name(name, value, known)

    @property
    def planner(self) -> PlannerSettings:
        """The paper's planner, of this size."""
        return replace(PLANNER, horizon=self.horizon, samples=self.samples)


@dataclass(frozen=True)
class Run:
    """One map, its calibration, a planner on the GPU, and the states of a closed-loop run with it."""

    name: str
    task: Marble
    cap: Capture
    planner: MPPI
    states: Floats  # (n, 6)
    first_plan_seconds: float  # compilation included


class Benchmark:
    """All parts; the runs that they need are made once."""

    def __init__(self, options: Options, say: Callable[[str], None] = print) -> None:
        self.cuda, self.options, self.say = require_cuda(), options, say

    def run(self) -> dict[str, Any]:
        """The figures of every requested part."""
        name = getattr(self.cuda.current_context().device, "name", "simulator")
        device = name.decode() if isinstance(name, bytes) else str(name)
        report = {"schema": 1, "device": device, "cores": os.cpu_count(), "settings": asdict(self.options)}
        report["first_plan_seconds"] = {name: run.first_plan_seconds for name, run in self.runs.items()}
        return report | {part: getattr(self, part)() for part in self.options.parts}

    @cached_property
    def runs(self) -> dict[str, Run]:
        """A closed-loop run on every map, planned on the GPU."""
        return {name: self._closed_loop(name) for name in self.options.maps}

    def _closed_loop(self, name: str) -> Run:
        o = self.options
        task, cap = calibrated(name, o.seed)
        planner = task.planner(cap, o.planner, alpha=ALPHA, seed=o.seed, device="cuda")
        (start,), rng = task.starts(1), random_stream(o.seed, "system")
        act, first = task.closed_loop(start), seconds(lambda: planner.plan(start))
        planner.reset()
        states: list[Floats] = []
        state, outcome = start, None
        while outcome is None and len(states) < o.steps:
            states.append(state)
            state, outcome = act(state, planner.plan(state), rng)
        self.say(f"map {name}: {len(states)} plans, {outcome}; first plan {first:.2f} s")
        return Run(name, task, cap, planner, np.array(states), first)

    @property
    def first(self) -> Run:
        """The run on the first map."""
        return next(iter(self.runs.values()))

    def plan(self) -> list[dict[str, Any]]:
        """Times of the plan from state to action, over all states."""
        turns = [(run.planner, state) for run in self.runs.values() for state in run.states]
        times = interleaved({"plan": lambda turn: turn[0].plan(turn[1])}, turns, self.options.rounds)
        return [{"name": "plan, all maps", **summary(times["plan"])}]

    def torch(self) -> list[dict[str, Any]]:
        """The plan on the first map beside PyTorch's, in several ways, and the CPU's."""
        from benchmarks.gpu.plan_torch import contenders

        run, o = self.first, self.options
        here = run.task.planner(run.cap, o.planner, alpha=ALPHA, seed=o.seed)
        jobs: dict[str, Job] = {"this library, GPU": run.planner.plan, f"this library, {os.cpu_count()} cores": here.plan}
        jobs |= contenders(run.task, run.cap, here, run.states, self.say)
        for job in jobs.values():
            job(run.states[0])  # compiles what is not compiled yet
        times = interleaved(jobs, run.states, o.rounds)
        ours = np.median(times["this library, GPU"], axis=1)
        ratios = {name: np.median(found, axis=1) / ours for name, found in times.items()}
        return [{"name": n, **summary(found), "times_ours": float(np.median(ratios[n]))} for n, found in times.items()]

    def scaling(self) -> list[dict[str, Any]]:
        """Times of plans from one state against samples, horizon, particles and plans at a time."""
        base = {"samples": self.options.samples, "horizon": self.options.horizon, "particles": 16, "plans": 1}
        wanted = [base, *(base | {vary: value} for vary, values in SCALING.items() for value in values)]
        jobs = {", ".join(f"{value:,} {name}" for name, value in sizes.items()): self._scaled(**sizes) for sizes in wanted}
        times = interleaved(jobs, [None] * 3, self.options.rounds)
        return [{"name": name, **summary(found)} for name, found in times.items()]

    def _scaled(self, samples: int, horizon: int, particles: int, plans: int) -> Job:
        run, o = self.first, self.options
        task, cap = (run.task, run.cap) if particles == 16 else calibrated(run.name, o.seed, n_particles=particles)
        planner = task.planner(
            cap, replace(PLANNER, horizon=horizon, samples=samples), alpha=ALPHA, seed=o.seed, device="cuda"
        )
        engine, state = planner.on_device(plans), run.states[len(run.states) // 2]
        states, temperature = np.tile(state, (plans, 1)), planner.temperature_at(state)
        nominal, keys = np.zeros((plans, horizon, 2)), np.arange(plans)
        engine.plan(states, temperature, nominal, keys)
        return lambda _: engine.plan(states, temperature, nominal, keys)

    def agreement(self) -> list[dict[str, Any]]:
        """Stage costs of the same sequences and noise by GPU and CPU: capture everywhere, others on one map each."""
        rows = []
        for number, (name, run) in enumerate(self.runs.items()):
            others = [m for m in METHODS if m != "capture"][number :: len(self.runs)]
            for recipe in ("capture", *others):
                cap = run.cap if recipe == "capture" else calibrated(name, self.options.seed, recipe)[1]
                apart = self._apart(run, cap)
                counted = {"stages": int(apart.size), "different": int((apart > DIFFERENT).sum())}
                rows.append({"name": f"{name}, {recipe}", **counted, "largest_difference": float(apart.max())})
        return rows

    def _apart(self, run: Run, cap: Capture) -> Floats:
        """Absolute differences of stage costs, from every state."""
        planner = run.task.planner(cap, self.options.planner, alpha=ALPHA, seed=self.options.seed)
        engine, fused, nominal, apart = planner.on_device(), planner.checked_rollout(), planner.nominal[None], []
        for key, state in enumerate(run.states):
            nominal, _ = engine.plan(state[None], planner.temperature_at(state), nominal, key)
            costs = fused(state, engine.sequences[0], int(stream(np.uint64(key), 1)))
            apart.append(np.abs(costs - engine.stages[0]))
        return np.array(apart)


def interleaved(jobs: dict[str, Job], states: Any, rounds: int) -> dict[str, Floats]:
    """Microseconds (rounds, n) of every job from every state (n): job after job, round after round."""
    times: dict[str, list[list[float]]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append([1e6 * seconds(lambda: job(state)) for state in states])  # noqa: B023
    return {name: np.array(found) for name, found in times.items()}


def summary(times: Floats) -> dict[str, float]:
    """Median and 99th percentile of times (µs)."""
    median, high = np.percentile(times, [50, 99])
    return {"median_us": float(median), "p99_us": float(high)}


def table(report: dict[str, Any]) -> str:
    """The main figures as lines of text."""
    lines = [f"{report['device']}; times in microseconds: median, 99%, times ours"]
    for row in [row for part in ("plan", "torch", "scaling") for row in report.get(part, [])]:
        beside = f"{row['times_ours']:9.1f}" if "times_ours" in row else ""
        lines += [f"{row['name']:60} {row['median_us']:11.1f} {row['p99_us']:11.1f} {beside}"]
    for row in report.get("agreement", []):
        lines += [f"{row['name']}: {row['different']:,} of {row['stages']:,} stage costs differ by {DIFFERENT:g} or more"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its table, and write its report if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=result_file, help="JSON file for the report")
    for name, default in asdict(Options()).items():
        kind: dict[str, Any] = {"type": at_least_one} if isinstance(default, int) and name != "seed" else {}
        kind = {"nargs": "+"} if not isinstance(default, int) else kind or {"type": int}
        parser.add_argument(f"--{name}", default=default, help=f"default {default}", **kind)
    given = vars(parser.parse_args(arguments))
    out = given.pop("out")
    try:
        report = Benchmark(Options(**given)).run()
        if out is not None:
            write_json(out, report)
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
