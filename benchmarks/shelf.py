"""Time of the shelf's plan compared with the same in NumPy, and the speed of its simulator.

`python -m benchmarks.shelf` runs only these, after a check that both give the same costs on the same noise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numba
import numpy as np
from numba import njit

from benchmarks.comparison import Comparison, limited, print_ratios, seconds
from benchmarks.numpy_shelf import numpy_clearances, numpy_jars, numpy_shelf_step, numpy_strata
from capture_cp.base.checks import CaptureError, Floats
from capture_cp.capture.capture import Capture
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.rollout import PythonRollout, Stage
from capture_cp.spaces.strata import FunctionStrata
from capture_lab.tasks.shelf.geometry import STRATA
from capture_lab.tasks.shelf.model import ShelfParams
from capture_lab.tasks.shelf.motions import random_poses
from capture_lab.tasks.shelf.planner import PLANNER, POINTS
from capture_lab.tasks.shelf.shelves import load_shelf
from capture_lab.tasks.shelf.task import ShelfTask

CALIBRATION, STEPS, SEED = 2_000, 2_000, 7
#: Fraction of stage costs that must agree: a point on the boundary of a region may fall to either side.
AGREE = 0.97


def shelf_comparisons(seed: int) -> Iterator[Comparison]:
    """A plan of the task's size: fused, and by NumPy; nothing if MuJoCo is missing."""
    if find_spec("mujoco") is None:
        return
    task = ShelfTask(load_shelf("corner"))
    cap, states = _calibrated(task, seed), {"from its start": task.starts(1)[0], "near the glass": _near_glass(task, seed)}
    fused, slow = task.planner(cap, PLANNER, seed=seed).rollout, _in_numpy(cap, task, _Drawn(task.params))
    rng = np.random.default_rng(seed)
    sequences = rng.uniform(-task.bounds, task.bounds, (PLANNER.samples, PLANNER.horizon, 7))
    size = f"{PLANNER.samples} x {PLANNER.horizon} x {cap.n_particles}, {numba.get_num_threads()} threads"
    for where, state in states.items():
        check_agreement(task, cap, state, sequences)
        name, ours = f"plan of the shelf {where}, {size}", partial(fused, state, sequences, SEED)
        yield Comparison(name, ours, "the same in NumPy", partial(slow, state, sequences, SEED), 20, rounds=2, warm_up=False)


def shelf_measures(seed: int) -> list[dict[str, Any]]:
    """True control steps per minute of the simulator, as the time of a thousand."""
    if find_spec("mujoco") is None:
        return []
    task, rng = ShelfTask(load_shelf("corner")), np.random.default_rng(seed)
    X = np.tile(task.inputs(STEPS // 10, rng), (10, 1))
    taken = seconds(lambda: task.true_step(X[:, :14], X[:, 14:], rng))
    return [
        limited(f"1,000 true steps of the shelf (s), from {STEPS:,}", taken * 1000 / STEPS, None),
        limited("true steps of the shelf per minute", 60 * STEPS / taken, None),
    ]


def check_agreement(task: ShelfTask, cap: Capture, state: Floats, sequences: Floats) -> None:
    """An error if NumPy and the fused kernel agree on too small a fraction of costs, given the same noise."""
    few = sequences[:32]
    noise = _kernel_noise(np.uint64(SEED), *few.shape[:2], cap.n_particles)
    found = task.planner(cap, PLANNER).rollout(state, few, SEED)
    wanted = _in_numpy(cap, task, _Drawn(task.params, noise))(state, few, SEED)
    share = float(np.isclose(found, wanted, rtol=1e-5, atol=1e-5).mean())
    if share < AGREE:
        raise CaptureError(
            f"NumPy and our kernel agree on {share:.0%} of the costs of a plan of the shelf; expected {AGREE:.0%}."
        )


class _Drawn:
    """The model's step in NumPy: with drawn noise, or with that of the kernel, (N, H, L, 7)."""

    def __init__(self, params: ShelfParams, noise: Floats | None = None) -> None:
        self.params, self.noise, self.h = params, noise, 0

    def __call__(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        if self.noise is None:
            normals = rng.standard_normal(actions.shape)
        else:
            normals = self.noise[:, self.h].reshape(-1, 7)
            self.h += 1
        return numpy_shelf_step(states, actions + self.params.noise * normals, self.params)


def _in_numpy(cap: Capture, task: ShelfTask, step: _Drawn) -> PythonRollout:
    """The plan with kinematics, distances, contact, strata and cost in NumPy."""
    params, plain = task.params, copy.copy(cap)
    plain.strata = FunctionStrata(lambda Y: numpy_strata(Y, params), STRATA)

    def cost(stage: Stage) -> Floats:
        jars = numpy_jars(stage.mean[:, :7], params)
        away = jars[:, :3] - params.goal
        flat = np.hypot(away[:, 0], away[:, 1])
        far = params.away * np.hypot(flat, away[:, 2] - params.lift * flat)
        total = (params.last if stage.h == stage.horizon else 1.0) * far + params.upright * (1.0 - jars[:, 3])
        return np.asarray(total + params.effort * (stage.action**2).sum(axis=1) + params.glass * stage.hazard)

    return PythonRollout(plain, step, cost, lambda Y: numpy_clearances(Y, params), task.axes, points=POINTS)


@njit
def _kernel_noise(seed, samples, horizon, particles):  # type: ignore[no-untyped-def]
    """The standard normals (N, H, L, 7) of the fused rollout."""
    noise = np.empty((samples, horizon, particles, 8))
    for i in range(samples):
        key = stream(seed, i)
        for h in range(horizon):
            for l in range(particles):
                for pair in range(4):
                    drawn = normal_pair(key, (h * particles + l) * 4 + pair)
                    noise[i, h, l, 2 * pair], noise[i, h, l, 2 * pair + 1] = drawn
    return noise[..., :7].copy()


def _calibrated(task: ShelfTask, seed: int) -> Capture:
    log = task.transitions(CALIBRATION, np.random.default_rng(seed))
    return task.method("capture").fit(log.X, log.Y)


def _near_glass(task: ShelfTask, seed: int) -> Floats:
    """A state (14,) at rest, a few centimetres from the glass, where regions are tested point by point."""
    Y = random_poses(task, 2_000, np.random.default_rng(seed))
    clear = task.glass_clearances(Y)
    near = np.flatnonzero((task.strata.index(Y) == 0) & (clear > 0.01) & (clear < 0.04))
    return np.concatenate([Y[near[0]], np.zeros(7)])


if __name__ == "__main__":
    print_ratios(shelf_comparisons(0), 3)
    print(*shelf_measures(0), sep="\n")
