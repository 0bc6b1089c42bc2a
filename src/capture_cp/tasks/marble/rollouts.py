"""Open-loop roll-outs of the marble: starts and actions as in the "random" design, one step after the other."""

from __future__ import annotations

from math import ceil

import numpy as np

from capture_cp.base.checks import whole_number
from capture_cp.data.rollouts import Rollouts
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.planner import POSITION
from capture_cp.tasks.marble.task import Marble


def marble_rollouts(task: Marble, n: int, horizon: int, rng: np.random.Generator, hold: int = 1) -> Rollouts:
    """n roll-outs of the true system, starts uniform over what is feasible, actions uniform up to the bound.

    Each action is drawn anew, or held for `hold` steps. Pits and goal are floor unless the task says `absorb`.
    """
    n, H, held = whole_number("n", n, 1), whole_number("horizon", horizon, 1), whole_number("hold", hold, 1)
    starts = task.inputs(n, rng)[:, :6]
    drawn = rng.uniform(-dynamics.MAX_ACTION, dynamics.MAX_ACTION, size=(n, ceil(H / held), 2))
    return Rollouts.simulate(task.true_step, starts, np.repeat(drawn, held, axis=1)[:, :H], POSITION, rng)
