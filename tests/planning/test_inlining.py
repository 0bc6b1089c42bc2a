"""Functions into which others are inlined: as right as before, and no references counted in their loops."""

from __future__ import annotations

import runpy
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core import ir_utils
from numba.core.compiler import Compiler

from capture_cp.kernels import compiler
from capture_cp.kernels.compiler import WithoutCopies


class Steps(NamedTuple):
    limits: Any
    sizes: Any


@njit(inline="always")
def first_above(x, steps):
    for i in range(steps.limits.shape[0]):
        if steps.limits[i] > x:
            return i
    return -1


@njit(inline="always")
def walk(x, checks, steps):
    at = first_above(x, steps) if checks else 0
    turn = 0
    while turn < 5 and at >= 0:
        x += steps.sizes[at]
        if x > 1.0:
            at = first_above(x, steps)
        turn += 1
    return x


def walk_some(xs, checks, steps, first, last):
    for i in range(first, last):
        xs[i] = walk(xs[i], checks, steps)


STEPS = Steps(np.arange(4.0), np.arange(4.0))


def walked(function):
    xs = np.linspace(-1.0, 5.0, 30)
    function(xs, True, STEPS, 2, 28)
    return xs


@pytest.fixture(scope="module")
def lean():
    return njit(pipeline_class=WithoutCopies)(walk_some)


def test_answers_are_those_of_numba_itself(lean):
    np.testing.assert_array_equal(walked(lean), walked(njit(walk_some)))


def test_no_reference_is_counted(lean):
    """Numba 0.68 alone counts nine here, six of them in a loop."""
    walked(lean)
    assert "NRT_incref" not in lean.inspect_llvm(lean.signatures[0])


def test_a_numba_without_the_parts_compiles_as_it_would(monkeypatch):
    monkeypatch.delattr(ir_utils, "simplify")
    assert runpy.run_path(compiler.__file__)["WithoutCopies"] is Compiler
