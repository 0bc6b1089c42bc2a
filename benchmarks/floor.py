"""What one core could do at best: the arithmetic that no plan of the marble can do without, and where its time goes.

`python -m benchmarks.floor` prints both. The floor is noise, free motion and the distances of all particles from one cell
per step, sixteen at a time in registers: no obstacles, no thresholds, no costs.
"""

from __future__ import annotations

import time

import numba
import numpy as np
from numba import njit

from benchmarks.parts import print_parts
from benchmarks.planning import ALPHA, calibrated
from capture_cp.kernels.eight import at_most, count, load_sixteen, minus, plus, spread_sixteen, store, times
from capture_cp.kernels.random import normal_rows, stream
from capture_cp.tasks.marble.dynamics import DT, MAX_SPEED, MAX_TILT, MODEL_GAIN, SUBSTEPS
from capture_cp.tasks.marble.lanes import faster, limited, push
from capture_cp.tasks.marble.planner import PLANNER, marble_planner

PARTICLES = 16
PARTS = "noise", "free motion", "one cell per step"


@njit(cache=True)
def _floor(sequences, horizon, parts, states):  # type: ignore[no-untyped-def]
    """The first `parts` of PARTS for all sequences from states (6, 16)."""
    noise, near = np.zeros((4, PARTICLES)), 0
    step = spread_sixteen(DT)
    for i in range(sequences):
        key = stream(1, i)
        x, vx, y = load_sixteen(states, 0), load_sixteen(states, 16), load_sixteen(states, 32)
        vy, alpha, beta = load_sixteen(states, 48), load_sixteen(states, 64), load_sixteen(states, 80)
        for h in range(horizon):
            normal_rows(noise[0], noise[1], key, h * PARTICLES, 1)
            push0, push1 = push(0.1, load_sixteen(noise, 0), 0.05), push(-0.1, load_sixteen(noise, 16), 0.05)
            for _ in range(SUBSTEPS if parts > 1 else 0):
                x, y = plus(x, times(step, vx)), plus(y, times(step, vy))
                vx, vy = faster(vx, alpha, MODEL_GAIN), faster(vy, beta, MODEL_GAIN)
                alpha, beta = limited(plus(alpha, push0), MAX_TILT), limited(plus(beta, push1), MAX_TILT)
            if parts > 2:
                dx, dy = minus(x, spread_sixteen(0.05)), minus(y, spread_sixteen(0.05))
                near += count(at_most(plus(times(dx, dx), times(dy, dy)), spread_sixteen(1e-4)))
        store(states, 96, plus(plus(plus(x, y), plus(vx, vy)), plus(plus(alpha, beta), plus(push0, push1))))  # used
    return near


def floor() -> list[tuple[str, float]]:
    """CPU milliseconds of each part of the floor of a plan on one core."""
    states, spent = np.zeros((7, PARTICLES)), []
    states[1], states[3] = MAX_SPEED / 2, -MAX_SPEED / 2
    for parts in range(1, len(PARTS) + 1):
        best = np.inf
        for _ in range(10):
            began = time.thread_time()
            _floor(PLANNER.sampled, PLANNER.horizon, parts, states)
            best = min(best, 1e3 * (time.thread_time() - began))
        spent.append(best)
    return [*zip(PARTS, np.diff([0.0, *spent]).tolist()), ("floor", spent[-1])]


if __name__ == "__main__":
    print(f"{'part of the floor, ms':32} one core")
    for name, spent in floor():
        print(f"{name:32} {spent:6.2f}")
    task, cap = calibrated("center", 0)
    numba.set_num_threads(1)  # the CPU time of this thread is then that of the plan
    print_parts(marble_planner(cap, task, PLANNER, ALPHA), task.starts(10), time.thread_time)
