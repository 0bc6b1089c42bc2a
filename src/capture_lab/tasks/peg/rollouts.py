"""Open-loop rollouts of the peg: the true system keeps its velocities from step to step, as in closed loop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import ceil

import numpy as np

from capture_cp.base.checks import Floats, Ints, finite_array, whole_number
from capture_cp.base.streams import stream
from capture_cp.data.rollouts import Rollouts
from capture_lab.tasks.peg.model import settle
from capture_lab.tasks.peg.simulator import PegSystem
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import CALIBRATION, TEST, Advance

#: Rollouts simulated at once; it also determines which random numbers they get, so it is not a setting.
PART = 1000


def rollouts_in_parts(
    task: Peg, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
) -> Rollouts:
    """n rollouts of a purpose: those of the horizon study part by part, those of planning all together."""
    if purpose not in (CALIBRATION, TEST):
        return peg_rollouts(task, n, horizon, stream(seed, "peg", purpose), hold=hold)
    system, parts = task.true_system(), []
    for number, first in enumerate(range(0, n, PART)):
        part = peg_rollouts(task, PART, horizon, stream(seed, "peg", purpose, number), system, hold)
        parts.append(part[: n - first])
        if advance is not None:
            advance(len(parts[-1]) * horizon)
    return Rollouts.concatenate(parts)


def peg_rollouts(
    task: Peg, n: int, horizon: int, rng: np.random.Generator, system: PegSystem | None = None, hold: int = 1
) -> Rollouts:
    """n rollouts of the true system: starts as for calibration, a new uniform action at each step, up to the bound."""
    n, H = whole_number("n", n, 1), whole_number("horizon", horizon, 1)
    starts = task.strata.sample_starts(n, rng)
    bound, drawn = task.settings.bound, ceil(H / whole_number("hold", hold, 1))
    actions = np.repeat(rng.uniform(-bound, bound, size=(n, drawn, 3)), hold, axis=1)[:, :H]
    system = system if system is not None else task.true_system()
    moves = system.applied(actions.reshape(-1, 3), rng).reshape(n, H, 3)
    landed = _roll_out(system, starts, moves).reshape(-1, 3)
    # as for single transitions: contact is slightly soft, and a landing that overlaps too much would have no stratum
    poses = settle(landed, task.settings).reshape(n, H, 3)
    return Rollouts.from_arrays(starts, actions, poses, states=poses)


def _roll_out(system: PegSystem, starts: Floats, moves: Floats) -> Floats:
    """Poses (n, H, 3) after each displacement (n, H, 3), from rest at starts (n, 3), for any number of threads."""
    poses = np.empty_like(finite_array("moves", moves, (len(starts), None, 3), "(n, H, 3)"))

    def work(rows: Ints) -> None:
        data = system._mujoco.MjData(system.model)
        for i in rows:
            system._place(data, starts[i])
            for h in range(moves.shape[1]):
                system._advance(data, system._read(data)[0] + moves[i, h])
                poses[i, h] = system._read(data)[0]

    with ThreadPoolExecutor(system.threads) as pool:  # MuJoCo releases Python's lock while it steps
        list(pool.map(work, np.array_split(np.arange(len(starts)), system.threads)))
    return poses
