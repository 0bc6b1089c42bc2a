"""The shelf's model with a learnt correction of how far each joint moves, coasts, and sags under the jar."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from capture_cp.base.checks import CaptureError, whole_number

if TYPE_CHECKING:
    from capture_lab.tasks.shelf.task import ShelfTask

#: Transitions that start and end this far from any box have met none on their way (m).
AWAY = 0.02
FEWEST = 200


def corrected(task: ShelfTask, transitions: int, rng: np.random.Generator) -> ShelfTask:
    """The task with a model of the arm's motion in free space, learnt from separate true transitions.

    For each joint, its move is regressed on the action, its velocity and the lever of the jar's weight, and so is its
    velocity afterwards. Boxes stop a corrected arm like any other.
    """
    from sklearn.linear_model import LinearRegression

    X = task.inputs(whole_number("transitions", transitions, FEWEST), rng)
    after = task.true_step(X[:, :14], X[:, 14:], rng)
    free = np.ones(len(X), dtype=bool)
    for Y in (X[:, :7], after[:, :7]):
        free &= task.strata.distances(Y, within=2 * AWAY).min(axis=1) > AWAY
    if free.sum() < FEWEST:
        raise CaptureError(f"only {int(free.sum())} of {len(X)} transitions are away from the shelf; expected {FEWEST}.")
    levers = task.jar_jacobians(X[:, :7])[:, 2]
    rows = []
    for i in range(7):
        causes = np.stack([X[:, 14 + i], X[:, 7 + i], levers[:, i]], axis=1)[free]
        effects = np.stack([after[:, i] - X[:, i], after[:, 7 + i]], axis=1)[free]
        rows.append(LinearRegression(fit_intercept=False).fit(causes, effects).coef_.ravel())
    return replace(task, correction=tuple(map(tuple, np.array(rows).tolist())))
