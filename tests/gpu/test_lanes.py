"""The simulator's threads that take turns: barriers hold, a missing one shows, and an error ends the block."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from gpu.conftest import SIMULATED

pytestmark = pytest.mark.skipif(not SIMULATED, reason="of the simulator")
N = 8


@cuda.jit
def reverse(values, barrier, steps):
    shared = cuda.shared.array(8, np.float64)
    i = cuda.threadIdx.x
    for _ in range(steps):
        shared[i] = values[i]
        if barrier:
            cuda.syncthreads()
        values[i] = shared[N - 1 - i]
        if barrier:
            cuda.syncthreads()


@cuda.jit
def fails(values, begun, ended):
    i = cuda.threadIdx.x
    begun[i] = 1
    try:
        if i == 5:
            raise ValueError("the fifth")
        cuda.syncthreads()
        values[i] = 1.0
    finally:
        ended[i] = 1


@cuda.jit
def some_leave(values):
    i = cuda.threadIdx.x
    if i % 2:
        return
    cuda.syncthreads()
    values[i] = 1.0


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_threads_wait_for_each_other(steps):
    values = np.arange(1.0, N + 1)
    reverse[1, N](values, True, steps)
    np.testing.assert_array_equal(values, np.arange(1.0, N + 1)[:: -1 if steps % 2 else 1])


def test_a_missing_barrier_shows():
    wrong = 0
    for _ in range(20):
        values = np.arange(1.0, N + 1)
        reverse[1, N](values, False, 1)
        wrong += (values != np.arange(N, 0.0, -1)).any()
    assert wrong > 15


def test_an_error_ends_every_thread():
    values, begun, ended = (cuda.to_device(np.zeros(N)) for _ in range(3))
    for _ in range(20):
        with pytest.raises(ValueError, match="the fifth"):
            fails[1, N](values, begun, ended)
    assert not values.copy_to_host().any()
    assert begun.copy_to_host().all()
    assert ended.copy_to_host().all()


def test_those_that_have_ended_are_not_waited_for():
    values = np.zeros(N)
    some_leave[2, N](values)
    np.testing.assert_array_equal(values, np.arange(N) % 2 == 0)
