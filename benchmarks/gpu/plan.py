"""The marble's plan on a GPU: its time compared with alternatives, and its agreement with the CPU.

    python -m benchmarks.gpu.plan --out plan.json

Every comparison is interleaved: each contender plans from each state in turn, round after round. Needs neither tyro nor
rich, and PyTorch only for the part `torch`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.arguments import result_file
from benchmarks.gpu.plan_runs import Run, closed_loop
from benchmarks.gpu.plan_table import table
from benchmarks.gpu.timing import interleaved, kernel_times, seconds, simulated, summary
from benchmarks.planning import ALPHA, calibrated
from capture_cp.base.checks import CaptureError, known_name, whole_number
from capture_cp.base.files import write_json
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.cuda.device import require_cuda
from capture_cp.kernels.random import stream
from capture_cp.planning.settings import PlannerSettings
from capture_cp.tasks.marble.maps import MAP_NAMES
from capture_cp.tasks.marble.planner import PLANNER, marble_planner

PARTS = ("plan", "torch", "scaling", "agreement")
MOST_STEPS = 30  # of a closed-loop run
DIFFERENT = 1e-9  # smallest difference of two stage costs that counts


@dataclass(frozen=True)
class Options:
    """What to measure, and at which size."""

    parts: Sequence[str] = PARTS
    maps: Sequence[str] = MAP_NAMES
    samples: int = 4096
    horizon: int = 6
    rounds: int = 10
    steps: int = MOST_STEPS
    compile_limit: int = 120
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
        for name in ("scale_samples", "scale_horizons", "scale_particles", "scale_plans"):
            for value in getattr(self, name):
                whole_number(name, value, 1)

    @property
    def planner(self) -> PlannerSettings:
        """The paper's planner, of this size."""
        return replace(PLANNER, horizon=self.horizon, samples=self.samples)


class Benchmark:
    """All parts; results that several parts need are computed once."""

    def __init__(self, options: Options, tell: Callable[[str], None]) -> None:
        self.cuda, self.options, self.tell, self.began = require_cuda(), options, tell, time.perf_counter()

    def say(self, text: str) -> None:
        """Report progress."""
        self.tell(f"{time.perf_counter() - self.began:7.1f} s  {text}")

    def run(self, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """The figures of every requested part, passed to `keep` after each; for a part that fails, its error."""
        parts = {"plan": self.plan, "torch": self.torch, "scaling": self.scaling, "agreement": self.agreement}
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
            except Exception as error:  # of any kind: the other parts still run
                report["errors"][part] = f"{type(error).__name__}: {error}"
                self.say(f"part {part} failed\n{traceback.format_exc()}")
            report["seconds"] = time.perf_counter() - self.began
            keep(report)
        return report

    @cached_property
    def runs(self) -> dict[str, Run]:
        """A closed-loop run on every map, planned on the GPU."""
        o, runs = self.options, {}
        for name in o.maps:
            run = runs[name] = closed_loop(name, o.planner, o.steps, o.seed)
            self.say(f"map {name}: {len(run.states)} plans, {run.outcome}; first plan {run.first_plan_seconds:.2f} s")
        return runs

    @property
    def first(self) -> Run:
        """The run on the first map."""
        return next(iter(self.runs.values()))

    # -- the plan -----------------------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """Times of the plan end to end and of its kernels, over all states; and the lower bound from its arithmetic."""
        from benchmarks.gpu import plan_floor as floors

        runs = self.runs.values()
        turns = [(run.planner, state) for run in runs for state in run.states]
        times = interleaved({"plan": lambda turn: turn[0].plan(turn[1])}, turns, self.options.rounds)["plan"]
        of_maps = np.split(times, np.cumsum([len(run.states) for run in runs])[:-1], axis=1)
        kernels = [kernel_times(run.planner, run.states) for run in runs]
        report: dict[str, Any] = {"end_to_end": summary(times.ravel()), "maps": {}}
        for run, found, parts in zip(runs, of_maps, kernels):
            each = {name: summary(part) for name, part in parts.items()}
            report["maps"][run.name] = {"end_to_end": summary(found.ravel()), "kernels": each}
        report["kernels"] = {name: summary(np.concatenate([part[name] for part in kernels])) for name in kernels[0]}
        run = self.first
        sizes = run.planner._device_plans._sizes  # type: ignore[union-attr]
        report["floor"] = floors.floor(self.options.samples, self.options.horizon, sizes, len(run.task.map.geometry.pits))
        report["floor"]["measured"] = floors.measured_rates(*(1, 2, 3, 4) if simulated() else ())
        report["floor"]["roll_out_over_floor"] = report["kernels"]["roll_out"]["median_us"] / report["floor"]["floor_us"]
        return report

    # -- compared with others -----------------------------------------------------------------------------------------

    def torch(self) -> dict[str, Any]:
        """The plan on the first map compared with PyTorch, in several ways, and with the CPU."""
        from benchmarks.gpu.plan_torch import contenders

        run, o = self.first, self.options
        here = marble_planner(run.cap, run.task, o.planner, ALPHA, o.seed)
        others, report = contenders(run.task, run.cap, here, run.states, o.compile_limit, self.say)
        jobs = {"this library, GPU": run.planner.plan, f"this library, {os.cpu_count()} cores": here.plan} | others
        for job in jobs.values():
            job(run.states[0])  # compiles what is not compiled yet
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
        """Plans per second from one state against samples, horizon, particles and plans at a time."""
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
                first = seconds(lambda: job(None))  # noqa: B023
                job(None)
                if str(sizes["particles"]) not in compiled:
                    compiled[str(sizes["particles"])] = first
                    self.say(f"{sizes['particles']} particles: first plan, compilation included, {first:.2f} s")
        times = interleaved(jobs, [None] * 3, o.rounds)
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
        planner = marble_planner(cap, task, replace(PLANNER, horizon=horizon, samples=samples), ALPHA, o.seed, device="cuda")
        engine, state = planner.on_device(plans), run.states[len(run.states) // 2]
        states, temperature = np.tile(state, (plans, 1)), planner.temperature_at(state)
        nominal, keys = np.zeros((plans, horizon, 2)), np.arange(plans)
        return lambda _: engine.plan(states, temperature, nominal, keys)

    # -- agreement ----------------------------------------------------------------------------------------------------

    def agreement(self) -> dict[str, Any]:
        """Stage costs of the same sequences and noise by GPU and CPU: capture everywhere, others on one map each."""
        rows = []
        for number, (name, run) in enumerate(self.runs.items()):
            others = [m for m in METHODS if m != "capture"][number :: len(self.runs)]
            for recipe in ("capture", *others):
                cap = run.cap if recipe == "capture" else calibrated(name, self.options.seed, recipe)[1]
                rows.append({"map": name, "method": recipe} | self._agreement(run, cap))
                self.say(f"{name}, {recipe}: {rows[-1]['different']} of {rows[-1]['stages']} stage costs differ")
        return {
            "rows": rows,
            "tolerance": DIFFERENT,
            "stages": sum(row["stages"] for row in rows),
            "different": sum(row["different"] for row in rows),
            "largest_difference": max(row["largest_difference"] for row in rows),
        }

    def _agreement(self, run: Run, cap: Capture) -> dict[str, Any]:
        from capture_cp.planning.cuda.plans import CudaPlans

        planner = marble_planner(cap, run.task, self.options.planner, ALPHA, self.options.seed)
        fused: Any = planner.rollout
        engine = CudaPlans(fused, planner.on_device().settings)
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


def write(report: dict[str, Any], path: Path | None) -> None:
    """Write the report as JSON, if a file was given."""
    if path is not None:
        write_json(path, report)


def _options(arguments: Sequence[str] | None) -> tuple[Options, Path | None]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=result_file, help="JSON file for the report")
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
    """Run the benchmark, print its table, and optionally write it."""
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
