"""Transitions and open-loop rollouts of the peg's true system, simulated in parts.

A part depends only on the task, the seed and its number, not on threads or on the number of parts: a smaller set is always
the beginning of a larger one.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import ceil

import numpy as np

from capture_cp.base.checks import Floats, whole_number
from capture_cp.base.streams import stream
from capture_cp.data.rollouts import Rollouts
from capture_cp.data.transitions import Transitions
from capture_lab.tasks.peg.model import settle
from capture_lab.tasks.peg.simulator import PegSystem
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import CALIBRATION, TEST, Advance

#: Transitions and rollouts per part; they also determine which random numbers a part gets, so they are no settings.
PART, ROLLOUTS = 5000, 1000


def peg_data(task: Peg, n: int, seed: int, purpose: str, advance: Advance | None = None) -> tuple[Transitions, int]:
    """n transitions of a purpose, CALIBRATION or TEST, and how many landings had to be pushed out of an overlap.

    Each part is simulated once per process. `advance` is called with the number of finished transitions after each part.
    """
    n, seed, parts = whole_number("n", n, 1), whole_number("seed", seed, 0), []
    for number, first in enumerate(range(0, n, PART)):
        rows = min(PART, n - first)
        parts.append(_simulated(task, rows, seed, purpose, number))
        if advance is not None:
            advance(rows)
    X, Y, pushed_out = zip(*parts)
    return task.as_transitions(np.concatenate(X), np.concatenate(Y)), sum(pushed_out)


@lru_cache(maxsize=64)  # the data of calibration and test
def _simulated(task: Peg, rows: int, seed: int, purpose: str, number: int) -> tuple[Floats, Floats, int]:
    """The first rows of one part; starts and noise have separate streams, so that a shorter part is a beginning."""
    random = partial(stream, seed, f"peg {task.system}", purpose, number)
    X = task.inputs(PART, random("starts"))[:rows]
    return X, *task.landings(X, random("noise"))


def peg_rollouts(
    task: Peg, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
) -> Rollouts:
    """n rollouts of a purpose: those of the horizon study part by part, those of planning all together."""
    if purpose not in (CALIBRATION, TEST):
        return rolled_out(task, n, horizon, stream(seed, "peg", purpose), hold=hold)
    system, parts = task.true_system(), []
    for number, first in enumerate(range(0, n, ROLLOUTS)):
        part = rolled_out(task, ROLLOUTS, horizon, stream(seed, "peg", purpose, number), system, hold)
        parts.append(part[: n - first])
        if advance is not None:
            advance(len(parts[-1]) * horizon)
    return Rollouts.concatenate(parts)


def rolled_out(
    task: Peg, n: int, horizon: int, rng: np.random.Generator, system: PegSystem | None = None, hold: int = 1
) -> Rollouts:
    """n rollouts of the true system: starts as for calibration, a new uniform action every `hold` steps, up to the bound.

    The simulator keeps its velocities from step to step, as in closed loop.
    """
    n, H = whole_number("n", n, 1), whole_number("horizon", horizon, 1)
    starts = task.strata.sample_starts(n, rng)
    bound, drawn = task.settings.bound, ceil(H / whole_number("hold", hold, 1))
    actions = np.repeat(rng.uniform(-bound, bound, size=(n, drawn, 3)), hold, axis=1)[:, :H]
    system = system if system is not None else task.true_system()
    moves = system.applied(actions.reshape(-1, 3), rng).reshape(n, H, 3)
    landed = system.along(starts, moves).reshape(-1, 3)
    # as for single transitions: contact is slightly soft, and a landing that overlaps too much would have no stratum
    poses = settle(landed, task.settings).reshape(n, H, 3)
    return Rollouts.from_arrays(starts, actions, poses, states=poses)
