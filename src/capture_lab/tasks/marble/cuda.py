"""Outcomes of the true marble on the GPU: the dynamics, noise and strata of the CPU code, one thread per outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from capture_cp.cuda.arrays import THREADS, blocks, tuple_on_device
from capture_cp.kernels.random import normal_pair, stream
from capture_lab.tasks.marble.cspace import stratum_of
from capture_lab.tasks.marble.dynamics import NO_PULL, step
from capture_lab.tasks.marble.task import Marble


@cuda.jit(cache=True)
def _outcomes(X, seed, first, first_draw, gain, noise, absorb, g, strata, origin, spacing, positions, labels, totals):
    row = cuda.grid(1)
    if row < labels.shape[0]:
        draws = labels.shape[0] // X.shape[0]
        i = row // draws
        n0, n1 = normal_pair(np.uint64(stream(seed, first + i)), first_draw + row % draws)
        x, _, y, _, _, _, _ = step(
            X[i, 0], X[i, 1], X[i, 2], X[i, 3], X[i, 4], X[i, 5],
            X[i, 6] + noise * n0, X[i, 7] + noise * n1, NO_PULL, gain, absorb, g,
        )  # fmt: skip
        m = stratum_of(x, y, strata, origin, spacing, g)
        positions[row, 0], positions[row, 1], labels[row] = x, y, m
        if m >= 0:
            cuda.atomic.add(totals, (i, m), 1)


class OutcomesOnCuda:
    """`Marble.outcomes` on the GPU, together with the strata of the outcomes."""

    def __init__(self, task: Marble) -> None:
        self._system = task.true_gain, task.noise, task.absorb
        self._geometry = tuple_on_device(task.map.geometry)
        self._strata = tuple(cuda.to_device(np.ascontiguousarray(part)) for part in task.strata.look_up)

    def draw(self, X: Any, seed: int, first: int, first_draw: int, positions: Any, labels: Any, totals: Any) -> None:
        """Next positions of inputs X (n, 8): d of each into positions (n * d, 2), their strata into labels (n * d,), int8.

        Their number is added to totals (n, M), by stratum. Noise is numbered as in `Marble.outcomes`.
        """
        given = X, seed, first, first_draw, *self._system, self._geometry, *self._strata
        _outcomes[blocks(labels.shape[0]), THREADS](*given, positions, labels, totals)
