"""Speed of the peg's parts on a GPU compared with the CPU, and their agreement: python -m benchmarks.gpu.peg.

Each job runs on both devices in turn; times are medians, from NumPy arrays to NumPy arrays. Needs neither MuJoCo nor the
command line's libraries.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison
from benchmarks.gpu.arguments import at_least_one, result_file
from benchmarks.gpu.timing import device_seconds
from capture_cp.base.checks import CaptureError
from capture_cp.base.files import write_json
from capture_cp.capture.capture import Capture
from capture_cp.cuda.device import require_cuda
from capture_cp.kernels.random import stream
from capture_cp.planning.mppi import MPPI
from capture_cp.tasks.peg.corrected import NO_CORRECTION
from capture_cp.tasks.peg.cspace import codes_of_cells
from capture_cp.tasks.peg.model import PegModel
from capture_cp.tasks.peg.planner import PLANNER, peg_planner, peg_rollout
from capture_cp.tasks.peg.task import Peg

CALIBRATION = 20_000
PARTICLES = 8
POSES = 20  # from which plans are made
NANOMETRE = 1e-9

Agreement = dict[str, float]
Measured = tuple[Comparison, Agreement]


def stand_in(task: Peg, n: int, rng: np.random.Generator) -> Capture:
    """`capture`, fitted to transitions of the model scaled by the true gain, in place of the true system."""
    X = task.inputs(n, rng)
    further = X.copy()
    further[:, 3:] *= task.settings.gain
    return task.method("capture", PARTICLES).fit(X, task(further, 1, rng)[:, 0])


def measured(task: Peg, inputs: int, samples: list[int], seed: int) -> Iterator[Measured]:
    """Every job, and the differences between its results on the two devices."""
    rng = np.random.default_rng(seed)
    yield _grid(task)
    yield _model(task, inputs, rng)
    cap = stand_in(task, CALIBRATION, rng)
    for count in samples:
        yield _regions(task, cap, count, rng)
        yield _plans(task, cap, count, seed)


def _grid(task: Peg) -> Measured:
    from capture_cp.tasks.peg import cuda

    grid = task.strata.require_grid()
    chosen = grid.origin, grid.spacing, grid.shape, task.trim, task.strata.shape
    differing = np.count_nonzero(cuda.codes_of_cells(*chosen) != codes_of_cells(*chosen))
    name = f"C-space grid of {grid.size:,} cells"
    job = Comparison(name, lambda: cuda.codes_of_cells(*chosen), "cpu", lambda: codes_of_cells(*chosen), 1.0)
    return job, {"cells that differ": float(differing)}


def _model(task: Peg, inputs: int, rng: np.random.Generator) -> Measured:
    X, noise = task.inputs(inputs, rng), rng.standard_normal((inputs, PARTICLES, 3))
    here, there = PegModel(task.settings), PegModel(task.settings, "cuda")
    weights = [1.0, 1.0, task.settings.radius]
    apart = np.abs((here._step(X, noise) - there._step(X, noise)) * weights).max(axis=2)
    name = f"{inputs * PARTICLES:,} particles of the model"
    job = Comparison(name, lambda: there._step(X, noise), "cpu", lambda: here._step(X, noise), 1.0)
    return job, {"largest difference (m)": float(apart.max()), "over 1 nm": float((apart > NANOMETRE).sum())}


def _regions(task: Peg, cap: Capture, samples: int, rng: np.random.Generator) -> Measured:
    X = task.inputs(samples, rng)
    particles, strata = cap.predict(X, rng), task.strata
    q = np.hstack([cap.thresholds(X), np.full((samples, 1), -1.0)])
    here, there = cap.score_, cap.score_.on("cuda")
    mine, other = (score.count_cells(particles, q, strata) for score in (there, here))
    differing = float((mine != other).any(axis=1).sum())
    agreement = {"regions with other counts": differing, "mean cells": float(other.sum(axis=1).mean())}
    name = f"{samples:,} first-step regions"
    ours, theirs = (partial(score.count_cells, particles, q, strata) for score in (there, here))
    return Comparison(name, ours, "cpu", theirs, 1.0), agreement


def _plans(task: Peg, cap: Capture, samples: int, seed: int) -> Measured:
    """Plans from starts of episodes and from poses in contact, in turn."""
    from capture_cp.planning.cuda.plans import CudaPlans

    settings, rng = replace(PLANNER, samples=samples), np.random.default_rng(seed)
    poses = np.vstack([task.strata.halton_starts(POSES // 2), task.strata.sample_starts(POSES // 2, rng)])
    rollout, planner = peg_rollout(cap, task), peg_planner(cap, task, settings, seed=seed, device="cuda")
    engine = CudaPlans(rollout, planner.on_device().settings)
    still, apart = np.zeros((1, settings.horizon, 3)), []
    for key, pose in enumerate(poses):
        engine.plan(pose[None], settings.temperature, still, key)
        costs = rollout(pose, engine.sequences[0], int(stream(np.uint64(key), 1)))
        apart.append(np.abs(costs - engine.stages[0]).sum(axis=1))
    agreement = {
        "largest difference in cost": float(np.max(apart)),
        "sequences over 1e-6 apart": float((np.array(apart) > 1e-6).sum()),
        "sequences": float(np.size(apart)),
    }

    def planning(planner: MPPI) -> Callable[[], Any]:
        turns = itertools.cycle(poses)
        return lambda: planner.plan(next(turns))

    ours, theirs = (planning(peg_planner(cap, task, settings, seed=seed, device=device)) for device in ("cuda", "cpu"))
    return Comparison(f"plan of {samples:,} sequences", ours, "cpu", theirs, 1.0, calls=POSES), agreement


def kernel_times(task: Peg, inputs: int, seed: int, rounds: int) -> list[dict[str, Any]]:
    """Median times of kernels whose input is on the GPU already."""
    cuda = require_cuda()
    from capture_cp.cuda.arrays import blocks
    from capture_cp.tasks.peg import cuda as peg

    rng, grid, params = np.random.default_rng(seed), task.strata.require_grid(), task.model.params
    codes = cuda.device_array(grid.size, np.int16)
    ends = tuple(map(float, grid.origin)), tuple(map(float, grid.spacing))
    cells = *ends, *grid.shape[1:], task.trim, task.strata.shape, codes
    X, normals = cuda.to_device(task.inputs(inputs, rng)), cuda.to_device(rng.standard_normal((inputs, PARTICLES, 3)))
    moved = X, normals, peg.moves(NO_CORRECTION), 0.0, params
    jobs: dict[str, Callable[[], Any]] = {
        f"grid of {grid.size:,} cells": lambda: peg.start(peg.cell_codes, blocks(grid.size), *cells),
        f"model, {inputs * PARTICLES:,} particles": lambda: peg.start(
            peg.step_particles, blocks(inputs * PARTICLES), *moved
        ),
    }
    rows = []
    for name, job in jobs.items():
        rows.append({"kernel": name, "seconds": float(np.median(device_seconds(job, rounds)))})
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    agreement = ", ".join(f"{name} {value:.3g}" for name, value in row["agreement"].items())
    ours, ratio = 1e3 * row["seconds"], row["speed_up"]
    return f"{row['job']:36} {ours:10.3f} {ours * ratio:10.2f} {ratio:7.1f}  {agreement}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the jobs, print a table, and optionally write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=result_file, help="Also write the rows to this JSON file.")
    parser.add_argument("--inputs", type=at_least_one, default=125_000, help="Inputs of the model, 8 particles each.")
    parser.add_argument("--samples", type=at_least_one, nargs="+", default=[128, 1024, 4096], help="Sequences per plan.")
    parser.add_argument("--rounds", type=at_least_one, default=7, help="How often each job is run on each device.")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    try:
        require_cuda()
        task, rows = Peg(), []
        print(f"{'job':36} {'GPU ms':>10} {'CPU ms':>10} {'ratio':>7}  agreement")
        for job, agreement in measured(task, chosen.inputs, chosen.samples, chosen.seed):
            rows.append(job.time(chosen.rounds) | {"agreement": agreement})
            print(line(rows[-1]), flush=True)
        kernels = kernel_times(task, chosen.inputs, chosen.seed, chosen.rounds)
        for row in kernels:
            print(f"kernel: {row['kernel']}: {1e3 * row['seconds']:.3f} ms")
        if chosen.out is not None:
            write_json(chosen.out, {"schema": 1, "cores": os.cpu_count(), "rows": rows, "kernels": kernels})
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
