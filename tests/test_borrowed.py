"""Borrowed arrays: the same memory, and no references counted."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.kernels.borrowed import borrowed


class Steps(NamedTuple):
    limits: Any
    sizes: Any
    others: Any


STEPS = Steps(np.arange(4.0), np.arange(4.0), (np.arange(2), 3.0))


@njit(inline="always")
def first_above(x, steps):
    for i in range(steps.limits.shape[0]):
        if steps.limits[i] > x:
            return i
    return -1


@njit(inline="always")
def walk(x, steps):
    at = first_above(x, steps)
    turn = 0
    while turn < 5 and at >= 0:
        x += steps.sizes[at]
        if x > 1.0:
            at = first_above(x, steps)
        turn += 1
    return x


@njit
def walk_counted(xs, steps):
    for i in range(xs.shape[0]):
        xs[i] = walk(xs[i], steps)


@njit
def walk_borrowed(xs, steps):
    steps = borrowed(steps)
    for i in range(xs.shape[0]):
        xs[i] = walk(xs[i], steps)


def walked(function):
    xs = np.linspace(-1.0, 5.0, 30)
    function(xs, STEPS)
    return xs


def test_answers_are_the_same():
    np.testing.assert_array_equal(walked(walk_borrowed), walked(walk_counted))
    np.testing.assert_array_equal(walked(walk_borrowed), walked(walk_borrowed.py_func))


def test_references_are_counted_once_and_not_in_the_loop():
    walked(walk_borrowed), walked(walk_counted)
    counts = [code.inspect_llvm(code.signatures[0]).count("call void @NRT_incref") for code in (walk_borrowed, walk_counted)]
    assert counts[0] <= 1
    assert counts[1] > 4


def test_other_values_and_arrays_within_tuples_are_passed_on():
    @njit
    def write(view, pair, number, nothing):
        view, pair, number, nothing = borrowed(view), borrowed(pair), borrowed(number), borrowed(nothing)
        view[1, 0] = pair[0][1] + pair[1] + number + len(nothing)

    array = np.zeros((2, 3))
    write(array[:, 1:], ((1.0, 2.0), 3.0), 4, ())
    np.testing.assert_array_equal(array, [[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])


def test_the_arrays_are_freed_as_ever():
    array = np.zeros(3)
    before = sys.getrefcount(array)
    walk_borrowed(np.zeros(2), STEPS._replace(limits=array))
    assert sys.getrefcount(array) == before
