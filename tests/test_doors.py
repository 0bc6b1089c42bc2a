"""Checked at the door: what compiled code would read out of bounds, and scores that its arithmetic has no room for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import Capture, CaptureError, FunctionStrata, HorizonCapture, OneGroup, Rollouts, Score, Tree, one_stratum
from capture_cp.conformal.together import exact_product


class LogDistance(Score):
    """Larger is stranger, and negative near the particles."""

    def score(self, prediction, Y):
        return np.log(np.abs(Y - prediction[:, 0])[:, 0] + 1e-6)


def still(X, n_particles, rng):
    return 1e-3 * rng.standard_normal((len(X), n_particles, 1))


def test_negative_scores_are_refused_in_every_fit():
    """`contains` covered as promised with them, and regions were empty: a negative threshold means nothing inside."""
    Y = np.random.default_rng(0).standard_normal((100, 1))
    sentence = r"the smallest score is -\d.*; expected scores of at least 0, .* such as exp of a log-distance"
    with pytest.raises(CaptureError, match=sentence):
        Capture(still, one_stratum(), LogDistance(), OneGroup()).fit(np.zeros((100, 1)), Y)
    rollouts = Rollouts.from_arrays(np.zeros((100, 1)), np.zeros((100, 1, 1)), Y[:, None])
    with pytest.raises(CaptureError, match=sentence):
        HorizonCapture(lambda s, a, rng: s, one_stratum(), (0,), LogDistance(), OneGroup()).fit(rollouts)


@given(q=st.floats(0, allow_nan=False, allow_infinity=False), scale=st.floats(5e-324, allow_infinity=False))
def test_products_end_and_are_exact_for_any_numbers(q, scale):
    with np.errstate(over="ignore"):
        (t,) = exact_product(q, np.array([scale]))
        assert t / scale <= q
        assert np.nextafter(t, np.inf) / scale > q or np.isinf(np.nextafter(t, np.inf))


@pytest.fixture(scope="module")
def cap(box, world):
    return Capture(box, box.strata, groups=Tree(min_leaf=60), n_particles=8).fit(
        world.X, world.Y, prediction=world.particles
    )


@pytest.mark.parametrize("m", [3, -1, 10**6])
def test_a_table_refuses_strata_that_do_not_exist(cap, world, m):
    with pytest.raises(CaptureError, match=rf"m is {m}; expected a float64 array of shape \(4,\) and a stratum from 0 to 2"):
        cap.threshold_table(0.2)(world.X[0], m)


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros(5), np.zeros(0), [0.0] * 4, None, "x", np.array(["a"] * 4)])
def test_a_table_refuses_inputs_of_another_kind(cap, x):
    with pytest.raises(CaptureError, match=r"expected a float64 array of shape \(4,\)"):
        cap.threshold_table(0.2)(x, 0)


def test_a_table_answers_as_thresholds_do(cap, world):
    table = cap.threshold_table(0.2)
    expected = cap.thresholds(world.X[:20], 0.2)
    assert np.array_equal([[table(x, m) for m in range(3)] for x in world.X[:20]], expected)


def test_a_partition_refuses_what_it_does_not_know(cap, world):
    groups = cap.partition_.groups
    for m in (np.full(2, 3), np.full(2, -1), np.zeros(3, int)):
        with pytest.raises(CaptureError, match="not all from 0 to 2; pass one stratum for each of 2 inputs"):
            groups(world.X[:2], m)
    with pytest.raises(CaptureError, match=r"inputs have shape \(2, 3\); expected \(n, 4\)"):
        groups(world.X[:2, :3], np.zeros(2, int))
    with pytest.raises(CaptureError, match=r"expected \(n, 4\)"):
        cap.partition_.groups_everywhere(world.X[:2, :3])
    assert groups(world.X[:0], np.zeros(0, int)).shape == (0,)


def test_strata_are_not_replaced_after_fitting(box, world):
    cap = Capture(box, box.strata, groups=Tree(min_leaf=60), n_particles=8).fit(world.X, world.Y)
    cap.strata = FunctionStrata(lambda Y: np.full(len(Y), 9), [f"s{i}" for i in range(10)])
    for ask in (lambda: cap.contains(world.X, world.Y), lambda: cap.region(world.X[0]), lambda: cap.thresholds(world.X)):
        with pytest.raises(CaptureError, match=r"there are 10 strata \(s0, s1, .* was fitted with 3; .* fit again"):
            ask()
