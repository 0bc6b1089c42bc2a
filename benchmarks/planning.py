"""Time of a plan: the fused kernel compared with the Python path and PyTorch, and the spread of its times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison, limited
from benchmarks.numpy_marble import numpy_marble_step
from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_cp.planning.distance import interpolate
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.probes import POINTS
from capture_cp.planning.rollout import PythonRollout, Stage
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.planner import (
    PLANNER,
    MarbleWeights,
    Params,
    marble_params,
)
from capture_lab.tasks.marble.task import POSITION, Marble

ALPHA = 0.1


def plan_comparisons(seed: int) -> Iterator[Comparison]:
    """A plan of the paper's size on one map, by the fused kernel and by the alternatives that are installed."""
    task, cap = calibrated("center", seed)
    params, (state,) = marble_params(task, dynamics.MODEL_GAIN), task.starts(1)
    planner = task.planner(cap, PLANNER, alpha=ALPHA, seed=seed)
    size = f"plan of {planner.samples} x {planner.horizon} x {cap.n_particles} with regions"
    slow = _with(
        planner, PythonRollout(cap, _NumpyModel(params), _NumpyCost(params), task.strata.pit_cells, POSITION, ALPHA)
    )
    yield Comparison(
        size, lambda: planner.plan(state), "PythonRollout, NumPy model", lambda: slow.plan(state), 20,
        rounds=2, warm_up=False,
    )  # fmt: skip
    by_points = task.planner(cap, PLANNER, MarbleWeights(hazard_points=POINTS), alpha=ALPHA, seed=seed)
    yield Comparison(
        f"plan with pits as a function, {POINTS} points", lambda: by_points.plan(state),
        "pits as cells", lambda: planner.plan(state), 1 / 1.5, calls=5,
    )  # fmt: skip
    if find_spec("torch") is not None:
        from benchmarks.torch_plan import TorchRollout

        eager = _with(planner, TorchRollout(cap, task, params, ALPHA))
        yield Comparison(size, lambda: planner.plan(state), "PyTorch eager, CPU", lambda: eager.plan(state), 10, rounds=3)


def plan_measures(seed: int) -> list[dict[str, Any]]:
    """Median and 99th percentile of a plan in closed loop; the control period is 100 ms."""
    times = _plan_times(seed)
    return [
        limited("plan of the marble, median (ms)", float(np.median(times)), 40),
        limited("plan of the marble, 99th percentile (ms)", float(np.percentile(times, 99)), 100),
    ]


def _plan_times(seed: int) -> Floats:
    """Milliseconds of every plan of one closed-loop run on each of the six maps, compilation excluded."""
    times = []
    for name in MAP_NAMES:
        task, cap = calibrated(name, seed)
        planner, (start,) = task.planner(cap, PLANNER, alpha=ALPHA, seed=seed), task.starts(1)
        act = task.closed_loop(start)
        planner.plan(start)
        planner.reset()
        state, outcome, rng = start, None, np.random.default_rng(seed)
        for _ in range(30):
            began = time.perf_counter()
            action = planner.plan(state)
            times.append(1e3 * (time.perf_counter() - began))
            state, outcome = act(state, action, rng)
            if outcome is not None:
                break
    return np.array(times)


def calibrated(map_name: str, seed: int, recipe: str = "capture", n_particles: int = 16) -> tuple[Marble, Capture]:
    """A map, and a method calibrated on it with the paper's settings."""
    task, tree = Marble(load_map(map_name), absorb=True), Tree(per_stratum=False, max_leaves=20)
    data = task.design_transitions("grid", 2, np.random.default_rng(seed))
    cap = method(recipe, task, task.strata, n_particles=n_particles, tree=tree, seed=seed)
    return task, cap.fit(data.X, data.Y)


def _with(planner: MPPI, rollout: Any) -> MPPI:
    """The same planner with another rollout."""
    noise = planner._spread @ planner._spread.T
    return MPPI(
        rollout, planner.horizon, planner.samples, planner.temperature, noise, planner.low, planner.high, seed=0
    )  # fmt: skip


class _NumpyModel:
    def __init__(self, params: Params) -> None:
        self.params = params

    def __call__(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        noise = dynamics.NOISE * rng.standard_normal(actions.shape)
        return numpy_marble_step(states, actions + noise, self.params.gain, self.params)


class _NumpyCost:
    def __init__(self, params: Params) -> None:
        self.params = params

    def __call__(self, stage: Stage) -> Floats:
        p = self.params
        away = np.array([interpolate(p.field, p.origin, p.spacing, mean[0], mean[2]) for mean in stage.mean])
        weight = p.stage_weight + (p.final_weight if stage.h == stage.horizon else 0.0)
        return weight * away + p.pit_weight * stage.hazard
