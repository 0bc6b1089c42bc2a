"""Borrowed arrays: the same memory, the same answers, and freed as ever."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.kernels.borrowed import borrowed


class Steps(NamedTuple):
    limits: Any
    others: Any


@njit
def shifted(xs, steps):
    """Adds to each number the first limit above it, in place."""
    steps = borrowed(steps)
    for i in range(xs.shape[0]):
        for limit in steps.limits:
            if limit > xs[i]:
                xs[i] += limit
                break


def test_answers_are_the_same_and_arrays_are_freed():
    limits, xs, plain = np.arange(4.0), np.linspace(-1.0, 5.0, 30), np.linspace(-1.0, 5.0, 30)
    steps = Steps(limits, (np.arange(2), 3.0))
    before = sys.getrefcount(limits)
    shifted(xs, steps)
    assert sys.getrefcount(limits) == before
    shifted.py_func(plain, steps)
    np.testing.assert_array_equal(xs, plain)


def test_other_values_and_arrays_within_tuples_are_passed_on():
    @njit
    def write(view, pair, number, nothing):
        view, pair, number, nothing = borrowed(view), borrowed(pair), borrowed(number), borrowed(nothing)
        view[1, 0] = pair[0][1] + pair[1] + number + len(nothing)

    array = np.zeros((2, 3))
    write(array[:, 1:], ((1.0, 2.0), 3.0), 4, ())
    np.testing.assert_array_equal(array, [[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
