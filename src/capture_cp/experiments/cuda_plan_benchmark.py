"""The marble's plan on a GPU: how long it takes, beside what else could make it, and whether it is the processor's plan.

    python -m capture_cp.experiments.cuda_plan_benchmark --out plan.json

Every comparison is interleaved: each contender plans from each state in turn, round after round. Needs neither tyro nor rich,
and PyTorch only for the part `torch`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, Floats, known_name, whole_number
from capture_cp.cuda.device import require_cuda
from capture_cp.experiments.planning_benchmarks import ALPHA, calibrated
from capture_cp.files import written_whole
from capture_cp.kernels.random import stream
from capture_cp.methods import METHODS
from capture_cp.planning.mppi import MPPI
from capture_cp.predictor import Capture
from capture_cp.tasks.marble.maps import MAP_NAMES
from capture_cp.tasks.marble.planner import PlannerSettings, marble_planner, start_state, true_system
from capture_cp.tasks.marble.task import Marble

PARTS = ("plan", "torch", "scaling", "agreement")
MOST_STEPS = 30  # of a closed-loop run
REPEATS = 20  # of a kernel in a graph, so that starting the graph does not count
DIFFERENT = 1e-9  # from which on two stage costs count as different


@dataclass(frozen=True)
class Options:
    """What to measure, and how large."""

    parts: Sequence[str] = PARTS
    maps: Sequence[str] = MAP_NAMES
    samples: int = 4096
    horizon: int = 6
    rounds: int = 10
    steps: int = MOST_STEPS
    compile_limit: int = 90
    scale_samples: Sequence[int] = (2**10, 2**12, 2**14, 2**16, 2**18, 2**20)
    scale_horizons: Sequence[int] = (6, 12, 30, 60)
    scale_particles: Sequence[int] = (16, 64, 256)
    scale_plans: Sequence[int] = (1, 4, 16, 64, 256, 1024)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, values, known in (("part", self.parts, PARTS), ("map", self.maps, MAP_NAMES)):
            for value in values:
                known_name(name, value, known)
        for name in ("samples", "horizon", "rounds", "steps", "compile_limit"):
            whole_number(name, getattr(self, name), 1)

    @property
    def planner(self) -> PlannerSettings:
        """The paper's planner, of this size."""
        return PlannerSettings(horizon=self.horizon, samples=self.samples)


@dataclass(frozen=True)
class Run:
    """One map, its calibration, a planner on the GPU, and the states of a closed-loop run with it."""

    name: str
    task: Marble
    cap: Capture
    planner: MPPI
    states: Floats  # (n, 6)
    outcome: str | None
    first_plan_seconds: float  # compilation included


class Benchmark:
    """All parts; what one of them needs of another is made once."""

    def __init__(self, options: Options, say: Callable[[str], None] = print) -> None:
        self.cuda, self.options = require_cuda(), options
        began = time.perf_counter()
        self.say = lambda text: say(f"{time.perf_counter() - began:7.1f} s  {text}")

    def run(self, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """The figures of every part that was asked for, handed to `keep` after each; of a part that fails, its error."""
        parts = {"plan": self.plan, "torch": self.torch, "scaling": self.scaling, "agreement": self.agreement}
        began = time.perf_counter()
        name = getattr(self.cuda.current_context().device, "name", "simulator")
        device = name.decode() if isinstance(name, bytes) else str(name)
        report: dict[str, Any] = {"schema": 1, "device": device, "cores": os.cpu_count(), "settings": asdict(self.options)}
        report["runs"] = {
            map_name: {"states": len(run.states), "outcome": run.outcome, "first_plan_seconds": run.first_plan_seconds}
            for map_name, run in self.runs.items()
        }
        report["errors"] = {}
        for part in self.options.parts:
            self.say(f"part {part}")
            try:
                report[part] = parts[part]()
            except Exception as error:  # whatever it is, the other parts still have something to say
                report["errors"][part] = f"{type(error).__name__}: {error}"
                self.say(f"part {part} failed\n{traceback.format_exc()}")
            report["seconds"] = time.perf_counter() - began
            keep(report)
        return report

    @cached_property
    def runs(self) -> dict[str, Run]:
        """A closed-loop run on every map, planned on the GPU."""
        runs = {}
        for name in self.options.maps:
            task, cap = calibrated(name, self.options.seed)
            planner = marble_planner(cap, task, self.options.planner, ALPHA, self.options.seed, device="cuda")
            state, outcome, rng = start_state(task), None, np.random.default_rng(self.options.seed)
            first = _seconds(lambda: planner.plan(state))  # noqa: B023
            planner.reset()
            states, act = [], true_system(task)
            while outcome is None and len(states) < self.options.steps:
                states.append(state)
                state, outcome = act(state, planner.plan(state), rng)
            runs[name] = Run(name, task, cap, planner, np.array(states), outcome, first)
            self.say(f"map {name}: {len(states)} plans, {outcome}; first plan, compilation included, {first:.2f} s")
        return runs

    @property
    def first(self) -> Run:
        """The run on the first map."""
        return next(iter(self.runs.values()))

    # -- the plan -----------------------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """Times of the plan end to end and of its kernels, over all states; the least that its arithmetic takes."""
        from capture_cp.experiments import cuda_plan_floor as floors

        end_to_end, kernels = [], []
        for run in self.runs.values():
            end_to_end.append(interleaved({"plan": run.planner.plan}, run.states, self.options.rounds)["plan"].ravel())
            kernels.append(self._kernel_times(run))
        report: dict[str, Any] = {"end_to_end": summary(np.concatenate(end_to_end)), "maps": {}}
        for name, times, parts in zip(self.runs, end_to_end, kernels):
            report["maps"][name] = {"end_to_end": summary(times), "kernels": {k: summary(v) for k, v in parts.items()}}
        report["kernels"] = {name: summary(np.concatenate([part[name] for part in kernels])) for name in kernels[0]}
        run, small = self.first, bool(_simulated())
        sizes = run.planner._device_plans._sizes  # type: ignore[union-attr]
        report["floor"] = floors.floor(self.options.samples, self.options.horizon, sizes, len(run.task.map.geometry.pits))
        report["floor"]["measured"] = floors.measured_rates(*(1, 2, 3, 4) if small else ())
        report["floor"]["roll_out_over_floor"] = report["kernels"]["roll_out"]["median_us"] / report["floor"]["floor_us"]
        return report

    def _kernel_times(self, run: Run) -> dict[str, Floats]:
        """Microseconds of every kernel of a plan, and of all of them, from every state."""
        from capture_cp.cuda.graphs import Recorded

        engine: Any = run.planner._device_plans
        jobs = kernel_jobs(engine)
        repeats = 2 if _simulated() else REPEATS
        once = {name: Recorded(job, engine._stream) for name, job in jobs.items()}
        often = {name: Recorded(repeated(job, repeats), engine._stream) for name, job in jobs.items()}
        times: dict[str, list[float]] = {name: [] for name in jobs}
        run.planner.reset()
        for number, state in enumerate(run.states):
            run.planner.plan(state)  # leaves state, sequences and costs on the GPU
            if number == 0:
                [graph() for name in jobs for graph in (once[name], often[name])]  # compiled, recorded
            for name in jobs:
                pairs = [(_seconds(often[name]), _seconds(once[name])) for _ in range(3)]
                several, one = np.median(pairs, axis=0)
                times[name].append(1e6 * (several - one) / (repeats - 1))
        return {name: np.array(found) for name, found in times.items()}

    # -- beside others ------------------------------------------------------------------------------------------------

    def torch(self) -> dict[str, Any]:
        """The plan on the first map beside that of PyTorch, in several ways, and of the processor."""
        from capture_cp.experiments.cuda_plan_torch import contenders

        run, o = self.first, self.options
        here = marble_planner(run.cap, run.task, o.planner, ALPHA, o.seed)
        others, report = contenders(run.task, run.cap, here, run.states, o.compile_limit, self.say)
        jobs = {"this library, GPU": run.planner.plan, f"this library, {os.cpu_count()} cores": here.plan} | others
        for name, job in jobs.items():
            self.say(f"{name}: first plan {_seconds(lambda: job(run.states[0])):.2f} s")  # noqa: B023
        times = interleaved(jobs, run.states, o.rounds)
        ours = np.median(times["this library, GPU"], axis=1)
        report["rows"] = []
        for name, found in times.items():
            ratios = np.median(found, axis=1) / ours
            beside = {"times_ours": float(np.median(ratios)), "range": [float(ratios.min()), float(ratios.max())]}
            report["rows"].append({"name": name} | summary(found.ravel()) | beside)
        return report

    # -- scaling ------------------------------------------------------------------------------------------------------

    def scaling(self) -> dict[str, Any]:
        """Plans a second from one state against samples, horizon, particles and plans at a time."""
        o, L = self.options, self.first.cap.n_particles
        base = {"samples": o.samples, "horizon": o.horizon, "particles": L, "plans": 1}
        series = {
            "samples": o.scale_samples, "horizon": o.scale_horizons, "particles": o.scale_particles, "plans": o.scale_plans
        }  # fmt: skip
        wanted = [(vary, base | {vary: value}) for vary, values in series.items() for value in values]
        jobs: dict[tuple[int, ...], Callable[[Any], Any]] = {}
        compiled: dict[str, float] = {}
        for _, sizes in wanted:
            if tuple(sizes.values()) not in jobs:
                job = jobs[tuple(sizes.values())] = self._scaled(**sizes)
                first = _seconds(lambda: job(None))  # noqa: B023
                job(None)
                if str(sizes["particles"]) not in compiled:
                    compiled[str(sizes["particles"])] = first
                    self.say(f"{sizes['particles']} particles: first plan, compilation included, {first:.2f} s")
        times = interleaved(jobs, [None], o.rounds)
        rows = []
        for vary, sizes in wanted:
            found = summary(times[tuple(sizes.values())].ravel())
            rate = 1e6 * sizes["plans"] / found["median_us"]
            rows.append(
                {"vary": vary, **sizes, **found, "plans_a_second": rate, "sequences_a_second": rate * sizes["samples"]}
            )
        return {"rows": rows, "first_plan_seconds": compiled}

    def _scaled(self, samples: int, horizon: int, particles: int, plans: int) -> Callable[[Any], Any]:
        run, o = self.first, self.options
        task, cap = run.task, run.cap
        if particles != cap.n_particles:
            task, cap = calibrated(run.name, o.seed, n_particles=particles)
        planner = marble_planner(cap, task, PlannerSettings(horizon=horizon, samples=samples), ALPHA, o.seed, device="cuda")
        engine, state = planner.on_device(plans), run.states[len(run.states) // 2]
        states, temperature = np.tile(state, (plans, 1)), planner.temperature_at(state)
        nominal, keys = np.zeros((plans, horizon, 2)), np.arange(plans)
        return lambda _: engine.plan(states, temperature, nominal, keys)

    # -- agreement ----------------------------------------------------------------------------------------------------

    def agreement(self) -> dict[str, Any]:
        """Stage costs of the same sequences and noise by GPU and processor: capture everywhere, others on a map each."""
        rows = []
        for number, (name, run) in enumerate(self.runs.items()):
            others = [m for m in METHODS if m != "capture"][number :: len(self.runs)]
            for recipe in ("capture", *others):
                cap = run.cap if recipe == "capture" else calibrated(name, self.options.seed, recipe)[1]
                rows.append({"map": name, "method": recipe} | self._agreement(run, cap))
                self.say(f"{name}, {recipe}: {rows[-1]['different']} of {rows[-1]['stages']} stage costs differ")
        return {
            "rows": rows,
            "stages": sum(row["stages"] for row in rows),
            "different": sum(row["different"] for row in rows),
            "largest_difference": max(row["largest_difference"] for row in rows),
        }

    def _agreement(self, run: Run, cap: Capture) -> dict[str, Any]:
        from capture_cp.planning.cuda_plans import CudaPlans

        planner = marble_planner(cap, run.task, self.options.planner, ALPHA, self.options.seed)
        fused: Any = planner.rollout.fused  # type: ignore[attr-defined]
        engine = CudaPlans(fused, planner.on_device().settings, keep_stages=True)
        apart = []
        nominal = planner.nominal[None]
        for key, state in enumerate(run.states):
            nominal, _ = engine.plan(state[None], planner.temperature_at(state), nominal, key)
            costs = fused(state, engine.sequences[0], np.uint64(stream(np.uint64(key), 1)))
            apart.append(np.abs(costs - engine.stages[0]))
        found = np.array(apart)
        return {
            "stages": int(found.size),
            "different": int((found > DIFFERENT).sum()),
            "largest_difference": float(found.max()),
        }


def kernel_jobs(engine: Any) -> dict[str, Callable[[Any], Any]]:
    """The launches of one plan of a `CudaPlans`, each on its own, then all of them."""
    from capture_cp.cuda.arrays import blocks
    from capture_cp.planning import cuda_kernel as kernels

    plans, drawn = engine._plans, (blocks(engine.settings.samples * engine.settings.horizon, kernels.THREADS), 1)
    some, threads = (engine._plans.partial.shape[1], 1), kernels.COMBINING
    jobs: dict[str, Callable[[Any], Any]] = {
        "draw_sequences": lambda on: kernels.draw_sequences[drawn, kernels.THREADS, on](plans, engine._sampling, 0),
        "roll_out": lambda on: engine._roll(plans, 1, 1, on),
        "average_some": lambda on: kernels.average_some[some, threads, on](plans),
        "average": lambda on: kernels.average[1, threads, on](plans),
    }
    return jobs | {"all": lambda on: [job(on) for job in jobs.values()]}


def repeated(job: Callable[[Any], Any], times: int) -> Callable[[Any], None]:
    """A job on a stream, so many times."""

    def work(on: Any) -> None:
        for _ in range(times):
            job(on)

    return work


def interleaved(jobs: dict[Any, Callable[[Any], Any]], states: Any, rounds: int) -> dict[Any, Floats]:
    """Microseconds (rounds, n) of every job from every state (n): job after job, round after round."""
    times: dict[Any, list[list[float]]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append([1e6 * _seconds(lambda: job(state)) for state in states])  # noqa: B023
    return {name: np.array(found) for name, found in times.items()}


def summary(times: Floats) -> dict[str, float]:
    """Median, 99th percentile and largest of times (µs)."""
    low, median, high = np.percentile(times, [5, 50, 99])
    return {"median_us": float(median), "p5_us": float(low), "p99_us": float(high), "worst_us": float(times.max())}


def _seconds(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def _simulated() -> bool:
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def table(report: dict[str, Any]) -> str:
    """The figures that matter, in lines."""
    lines = [f"Plan of {report['settings']['samples']} x {report['settings']['horizon']} x 16, {report['device']}"]
    if "plan" in report:
        found, floor = report["plan"], report["plan"]["floor"]
        every = {"end to end": found["end_to_end"]} | {f"kernel {k}": v for k, v in found["kernels"].items()}
        lines += [f"{'microseconds':34} {'median':>9} {'99 %':>9} {'worst':>9}"]
        lines += [f"{k:34} {v['median_us']:9.1f} {v['p99_us']:9.1f} {v['worst_us']:9.1f}" for k, v in every.items()]
        lines += [
            f"{'least for its arithmetic':34} {floor['floor_us']:9.1f}, roll_out {floor['roll_out_over_floor']:.1f} times"
        ]
    if "torch" in report:
        lines += [f"{'plan, map ' + report['settings']['maps'][0]:34} {'median':>9} {'99 %':>9} {'times ours':>11}"]
        lines += [
            f"{row['name']:34} {row['median_us']:9.1f} {row['p99_us']:9.1f} {row['times_ours']:11.1f}"
            for row in report["torch"]["rows"]
        ]
        lines += [f"{name:34} {why}" for name, why in report["torch"]["missing"].items()]
    if "scaling" in report:
        lines += [f"{'scaling':34} {'median':>9} {'plans/s':>11} {'sequences/s':>13}"]
        lines += [
            f"{row['vary']:10} {row[row['vary']]:>23,} {row['median_us']:9.1f} "
            f"{row['plans_a_second']:11,.0f} {row['sequences_a_second']:13.3g}"
            for row in report["scaling"]["rows"]
        ]
    if "agreement" in report:
        found = report["agreement"]
        lines += [
            f"GPU and processor: {found['different']:,} of {found['stages']:,} stage costs differ by more than {DIFFERENT:g}, "
            f"by at most {found['largest_difference']:.3g}"
        ]
    return "\n".join([*lines, *(f"part {part} failed: {why}" for part, why in report["errors"].items())])


def write(report: dict[str, Any], path: Path | None) -> None:
    """The report as JSON, if a file was named."""
    if path is None:
        return
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> tuple[Options, Path | None]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="JSON file for the report")
    for name, default in asdict(Options()).items():
        several = not isinstance(default, int)
        kind = int if not several else type(default[0])
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            nargs="+" if several else None,
            default=default,
            help=f"default {default}",
        )
    given = vars(parser.parse_args(arguments))
    out = given.pop("out")
    return Options(**given), out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its table, and write it if asked."""
    try:
        options, out = _options(arguments)
        report = Benchmark(options, lambda text: print(text, flush=True)).run(lambda report: write(report, out))
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(report))
    return 1 if report["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
