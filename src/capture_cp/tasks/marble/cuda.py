"""Outcomes of the true marble on the GPU: the dynamics, noise and strata of the CPU code, one thread per outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from capture_cp.cuda.arrays import blocks, tuple_on_device
from capture_cp.cuda.exact import exact_kernel, launch
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.tasks.marble.cspace import stratum_of
from capture_cp.tasks.marble.dynamics import step
from capture_cp.tasks.marble.task import Marble


@exact_kernel
def _outcomes(X, draws, seed, first, first_draw, gain, noise, absorb, g, strata, origin, spacing, positions, labels):
    row = cuda.grid(1)
    if row < X.shape[0] * draws:
        i = row // draws
        n0, n1 = normal_pair(np.uint64(stream(seed, first + i)), first_draw + row % draws)
        x, _, y, _, _, _, _ = step(
            X[i, 0], X[i, 1], X[i, 2], X[i, 3], X[i, 4], X[i, 5],
            X[i, 6] + noise * n0, X[i, 7] + noise * n1, gain, absorb, g,
        )  # fmt: skip
        positions[row, 0], positions[row, 1] = x, y
        labels[row] = stratum_of(x, y, strata, origin, spacing, g)


class OutcomesOnCuda:
    """`Marble.outcomes` on the GPU, together with the strata of the outcomes."""

    def __init__(self, task: Marble) -> None:
        self._system = task.true_gain, task.noise, task.absorb
        self._geometry = tuple_on_device(task.map.geometry)
        self._strata = tuple(cuda.to_device(np.ascontiguousarray(part)) for part in task.strata.look_up)

    def draw(self, X: Any, draws: int, seed: int, first: int, first_draw: int, positions: Any, labels: Any) -> None:
        """`draws` next positions of each input X (n, 8), into positions (n * draws, 2), and strata into int8 (n * draws,).

        Noise is numbered as in `Marble.outcomes`.
        """
        size = blocks(X.shape[0] * draws)
        launch(
            _outcomes, size, X, draws, seed, first, first_draw, *self._system, self._geometry, *self._strata,
            positions, labels,
        )  # fmt: skip
