"""Identities of what a planner computes with: the same in any process, to six digits, and different where it matters."""

import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from capture_cp.base.arrays import identity


@dataclass(frozen=True)
class Weights:
    far: float = 1.0
    near: int = 2


def cost(x, scale=2.0):
    return scale * x


def other(x, scale=2.0):
    return scale * x + 0


def scaled(by):
    def inner(x):
        return by * x

    return inner


def test_equal_things_have_equal_identities():
    loop = []
    loop.append(loop)
    assert identity(loop) == identity(loop)  # and it ends
    for make in (
        lambda: (1, 2.5, "a", None, True),
        lambda: np.arange(6.0).reshape(2, 3),
        lambda: {"b": 1, "a": [1, 2]},
        Weights,
        lambda: cost,
        lambda: scaled(3.0),
        lambda: partial(cost, scale=3),
        lambda: np.zeros(3, dtype=[("left", "i4"), ("at", "f8")]),
    ):
        assert identity(make()) == identity(make())


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1.0, 1.00001),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0001])),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.array([1e-9]), np.array([1e-10])),
        (cost, other),
        (scaled(3.0), scaled(4.0)),
        (partial(cost, scale=3), partial(cost, scale=4)),
        (Weights(), Weights(near=3)),
        ((1, (2, 3)), ((1, 2), 3)),
        (["ab"], ["a", "b"]),
        (True, 1),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_different_things_have_different_identities(one, two):
    assert identity(one) != identity(two)


def test_another_process_agrees():
    code = (
        "import numpy as np; from capture_cp.base.arrays import identity\nprint(identity({'a': np.arange(5.0), 'b': 0.1}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == identity({"a": np.arange(5.0), "b": 0.1})


def test_functions_without_source_count_by_their_code():
    def made(text):
        space = {}
        exec(text, space)
        return space["f"]

    assert identity(made("def f(x): return x + 1")) == identity(made("def f(x): return x + 1"))
    assert identity(made("def f(x): return x + 1")) != identity(made("def f(x): return x + 2"))
